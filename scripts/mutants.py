#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants each fault of tests/mutants/*.txt in a copy of the tree and shows that its test notices.

Usage: scripts/mutants.sh [NAME...]. Prints "ok NAME ..." or "FAIL NAME ..." for each fault and a
count at the end; exit status 1 unless every fault was noticed. The variable JOBS says how many
copies work at a time, by default twice the number of cores: what a fault makes hang only waits.

A fault is described by

    mutant: NAME
    breaks: the promise that no longer holds
    caught-by: a test of meson, or a file of tests/system
    in: FUNCTION                (or "in: FUNCTION (file.c)", or "in: (path/file)" for a whole file)
    -a line to search for
    +a line to put in its place
     a line to search for that stays

with one more "in:" for each further search. Instead of a function the anchor may be any other
definition at file level: a struct, enum, table, variable or macro. White space does not count in a
search, so that a fault survives when its function is moved or formatted anew. An anchor or a search
that matches nothing, or more than one place, is an error that names the fault, and nothing is
planted.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "tests/lint"))
import lint  # noqa: E402

PLACES = ("src/", "include/", "plugins/", "tools/", "emu/")
# The stand-ins for hardware and plugins that files of tests/system load.
STAND_INS = ["tools/tcpx", "emu/tcpxemu/libnccl-net-tcpxemu.so", "emu/fakerxdm/fakerxdm",
             "emu/fakecuda/libfakecuda.so", "emu/fakenvml/libfakenvml.so",
             "emu/fakecuda/libfakekernels.so", "tests/system/netpeer", "tests/parts/tcpx_filters"]


class Unfit(Exception):
    """A description that does not fit the tree, or cannot be read."""


class Edit:
    """One search in one place: anchor is a name, file what its path ends with; either may be ""."""

    def __init__(self, anchor, file):
        self.anchor, self.file = anchor, file
        self.old, self.new = [], []


class Mutant:
    def __init__(self, name, path, line):
        self.name, self.path, self.line = name, path, line
        self.breaks = self.caught_by = ""
        self.edits = []


def read_area(root, path):
    """The mutants of one file of tests/mutants."""
    mutants, edit, mutant = [], None, None
    for number, line in enumerate(lint.read(root, path).split("\n"), 1):
        head = re.match(r"(mutant|breaks|caught-by|in): (.*)$", line)
        where = f"{path}:{number}"
        if head and head[1] == "mutant":
            mutant = Mutant(head[2].strip(), path, number)
            mutants.append(mutant)
            edit = None
        elif head and not mutant:
            raise Unfit(f"{where}: '{head[1]}:' before the first 'mutant:'")
        elif head and head[1] == "in":
            place = re.match(r"([\w:~]*) *(?:\((\S+)\))?$", head[2].strip())
            if not place or not (place[1] or place[2]):
                raise Unfit(f"{where}: 'in:' takes NAME, NAME (file) or (file)")
            edit = Edit(place[1], place[2] or "")
            mutant.edits.append(edit)
        elif head:
            setattr(mutant, head[1].replace("-", "_"), head[2].strip())
        elif line[:1] in ("-", "+", " ") and edit:
            if line[:1] != "+":
                edit.old.append(line[1:])
            if line[:1] != "-":
                edit.new.append(line[1:])
        elif line.strip() and not line.startswith("#"):
            raise Unfit(f"{where}: expected 'mutant:', 'breaks:', 'caught-by:', 'in:', or a line "
                        "that starts with '-', '+' or a space")
    for each in mutants:
        if not (each.breaks and each.caught_by and each.edits):
            raise Unfit(f"{path}:{each.line}: {each.name} needs 'breaks:', 'caught-by:' and 'in:'")
    return mutants


def read_all(root):
    """Every mutant of the tree; names are unique."""
    found = {}
    for path in lint.tree(root):
        if not re.match(r"tests/mutants/[^/]+\.txt$", path):
            continue
        for mutant in read_area(root, path):
            if mutant.name in found:
                raise Unfit(f"{path}:{mutant.line}: {mutant.name} is also in "
                            f"{found[mutant.name].path}")
            found[mutant.name] = mutant
    return list(found.values())


def tokens(text):
    return re.findall(r"\w+|[^\w\s]", text)


def search_for(lines):
    """A pattern for the lines in which white space does not count."""
    found = tokens("\n".join(lines))
    if not found:
        return None
    pattern = re.escape(found[0])
    for before, after in zip(found, found[1:]):
        apart = re.match(r"\w", before[-1]) and re.match(r"\w", after[0])
        pattern += (r"\s+" if apart else r"\s*") + re.escape(after)
    return re.compile((r"\b" if re.match(r"\w", found[0]) else "") + pattern +
                      (r"\b" if re.match(r"\w", found[-1][-1]) else ""))


class Tree:
    """The files that faults are planted in, and where each name is defined."""

    def __init__(self, root):
        self.root = root
        self.paths = [path for path in lint.tree(root) if path.startswith(PLACES)]
        self.text = {}
        self.where = {}
        for path in self.paths:
            if not lint.is_c(path):
                continue
            self.text[path] = lint.read(root, path)
            for name, start, end in lint.items(self.text[path]):
                self.where.setdefault(name, []).append((path, start, end))

    def spans(self, edit):
        """Places that the anchor names."""
        fits = lambda path: ("/" + path).endswith("/" + edit.file)  # noqa: E731
        if edit.anchor:
            return [span for span in self.where.get(edit.anchor, [])
                    if not edit.file or fits(span[0])]
        return [(path, 0, None) for path in self.paths if fits(path)]

    def plant(self, mutant):
        """{path: new text}. Unfit."""
        changed = {}
        for edit in mutant.edits:
            pattern = search_for(edit.old)
            name = f"{edit.anchor} ({edit.file})" if edit.file else edit.anchor
            if not pattern:
                raise Unfit(f"{mutant.name}: nothing to search for in {name}")
            spans = self.spans(edit)
            # A name may be declared in one place and defined in another: what is searched for
            # tells them apart.
            hits = []
            for path, start, end in spans:
                text = changed.get(path) or self.text.get(path) or lint.read(self.root, path)
                if path in changed:  # an edit before this one moved what lies behind it
                    again = [(start, end)] if end is None else \
                        [span[1:] for span in lint.items(text) if span[0] == edit.anchor]
                else:
                    again = [(start, end)]
                for first, last in again:
                    last = len(text) if last is None else last
                    hits += [(path, text, match) for match in pattern.finditer(text, first, last)]
            if len(hits) != 1:
                if not spans:
                    raise Unfit(f"{mutant.name}: no definition of {name}")
                raise Unfit(f"{mutant.name}: {name} has {len(hits) or 'no'} place"
                            f"{'s' if len(hits) > 1 else ''} with: {edit.old[0].strip()}")
            path, text, match = hits[0]
            changed[path] = text[:match.start()] + "\n".join(edit.new).strip() + \
                text[match.end():]
        return changed


class Copy:
    """A copy of what git tracks or would, built; one fault at a time is planted in it."""

    def __init__(self, place):
        self.place = place
        self.clean = set()
        self.log = os.path.join(place, "test.log")
        for path in lint.tree(ROOT):
            os.makedirs(os.path.dirname(os.path.join(place, path)), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, path), os.path.join(place, path))
        self.tree = Tree(place)

    def run(self, *command, **more):
        env = dict(os.environ, TEST_LONG="1")  # every case, the one that notices among them
        env.update(more)
        with open(self.log, "w", encoding="utf-8") as log:
            return subprocess.run(command, cwd=self.place, env=env, stdout=log,
                                  stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL).returncode

    def last(self, pattern):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            lines = [line.strip() for line in log if re.search(pattern, line)]
        return lines[0] if lines else ""

    def setup(self):
        return self.run("meson", "setup", "build", "-Dbuildtype=debugoptimized") == 0

    def test(self, name):
        """True: passes, False: fails, None: did not run (build, name, skip)."""
        if name.endswith(".py"):
            if self.run("ninja", "-C", "build", *STAND_INS) != 0:
                return None
            python = sys.executable
            if subprocess.run([python, "-c", "import pytest"], capture_output=True).returncode:
                python = "/usr/bin/python3"
            done = self.run(python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
                            "tests/system/" + name, TEST_LONG="0",
                            TCPX_TOOL=os.path.join(self.place, "build/tools/tcpx"))
            return {0: True, 1: False}.get(done)
        results = os.path.join(self.place, "build/meson-logs/testlog.json")
        if os.path.exists(results):
            os.unlink(results)
        self.run("meson", "test", "-C", "build", name)
        if not os.path.exists(results):
            return None
        with open(results, encoding="utf-8") as lines:
            verdicts = {json.loads(line)["result"] for line in lines if line.strip()}
        if verdicts & {"FAIL", "TIMEOUT", "ERROR", "INTERRUPT"}:
            return False
        return True if "OK" in verdicts else None

    def judge(self, mutant):
        """(noticed, unsure, text). The test runs without the fault, then with it: only the change
        of its verdict counts. Unsure: with the machine to itself the verdict may be another."""
        if mutant.caught_by not in self.clean:
            if self.test(mutant.caught_by) is not True:
                return False, True, f"{mutant.caught_by} does not pass on the tree as it is"
            self.clean.add(mutant.caught_by)
        try:
            changed = self.tree.plant(mutant)
        except Unfit as error:
            return False, False, str(error)
        for path, text in changed.items():
            self.write(path, text)
        verdict = self.test(mutant.caught_by)
        broken = self.last("error:") if verdict is None else ""
        for path in changed:
            self.write(path, self.tree.text.get(path) or lint.read(ROOT, path))
        if verdict is False:
            return True, False, f"{mutant.breaks}; caught by {mutant.caught_by}"
        if verdict is True:
            return False, True, f"{mutant.breaks}; {mutant.caught_by} does not notice"
        return False, False, f"does not build: {broken}"

    def write(self, path, text):
        with open(os.path.join(self.place, path), "w", encoding="utf-8") as file:
            file.write(text)


def run_all(mutants, jobs, place):
    """Judges the mutants in jobs copies; returns {name: (noticed, unsure, text)}."""
    verdicts, lock, waiting = {}, threading.Lock(), list(mutants)

    def work(number):
        copy = Copy(os.path.join(place, str(number)))
        if not copy.setup():
            print(f"FAIL setup: {copy.last('ERROR') or copy.log}", flush=True)
            return
        while True:
            with lock:
                if not waiting:
                    break
                mutant = waiting.pop(0)
            verdict = copy.judge(mutant)
            with lock:
                verdicts[mutant.name] = verdict
                if verdict[0] or not verdict[1] or jobs == 1:
                    print("ok" if verdict[0] else "FAIL", f"{mutant.name}: {verdict[2]}",
                          flush=True)
        shutil.rmtree(copy.place, ignore_errors=True)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return verdicts


def main():
    names = sys.argv[1:]
    try:
        mutants = read_all(ROOT)
    except Unfit as error:
        sys.exit(f"mutants: {error}")
    unknown = sorted(set(names) - {mutant.name for mutant in mutants})
    if unknown:
        sys.exit(f"mutants: no mutant is called {', '.join(unknown)}; see tests/mutants/")
    mutants = [mutant for mutant in mutants if not names or mutant.name in names]
    jobs = min(int(os.environ.get("JOBS") or 2 * (os.cpu_count() or 1)), len(mutants))
    with tempfile.TemporaryDirectory(prefix="tcpx-mutants.") as place:
        verdicts = run_all(mutants, jobs, place)
        again = [mutant for mutant in mutants if verdicts.get(mutant.name, (0, 0))[1]]
        if again and jobs > 1:
            verdicts.update(run_all(again, 1, os.path.join(place, "again")))
    noticed = sum(1 for verdict in verdicts.values() if verdict[0])
    print(f"{noticed} passed, {len(mutants) - noticed} failed, 0 skipped")
    sys.exit(0 if mutants and noticed == len(mutants) else 1)


if __name__ == "__main__":
    main()
