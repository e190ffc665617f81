# SPDX-License-Identifier: Apache-2.0
"""What the lints share: the list of files, C text without comments, and the report."""
import argparse
import fnmatch
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SKIP = 77


def options(doc):
    """Parses --root DIR, the tree to look at: this one, or a fixture's."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(HERE)))
    parser.add_argument("rest", nargs="*")
    return parser.parse_args()


def tree(root):
    """Files of the tree, relative, sorted: what git tracks or would; else all below it."""
    try:
        done = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached",
                               "--others", "--exclude-standard"], cwd=root, capture_output=True)
        names = done.stdout.decode().split("\0") if done.returncode == 0 else []
    except OSError:
        names = []
    if not any(names):
        names = [os.path.relpath(os.path.join(folder, name), root)
                 for folder, folders, files in os.walk(root) for name in files
                 if not folders.sort()]
        names = [name for name in names if not re.match(r"(\.git|\.venv|build[^/]*)/", name)]
    return sorted({name for name in names if name and os.path.isfile(os.path.join(root, name))})


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def is_c(name):
    return name.endswith((".c", ".h", ".cu", ".cpp", ".hpp"))


def bare(text):
    """C text with the contents of comments and strings blanked, line numbers kept."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''

    def blank(match):
        found = match[0]
        if found[0] in "\"'":
            return found[0] + " " * (len(found) - 2) + found[0]
        return re.sub(r"[^\n]", " ", found)

    return re.sub(pattern, blank, text, flags=re.S)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def item_name(text):
    """What a definition at file level, comments blanked, gives a name to; "" when nothing."""
    macro = re.match(r"\s*#\s*define\s+(\w+)", text)
    if macro:
        return macro[1]
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)|__launch_bounds__\s*\([^)]*\)|alignas\s*\([^)]*\)",
                  " ", text, flags=re.S)
    head = text.split("{")[0]
    kind = re.match(r"\s*(?:typedef\s+)?(?:struct|enum|union|class)\s+(\w+)[^(=;]*$", head)
    if kind and "{" in text:
        return kind[1]
    before = re.split(r"=", head)[0]
    function = re.search(r"([\w:~]+|operator\S+)\s*\(", before)
    if function:
        return function[1]
    variable = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*;?\s*$", before)
    return variable[1] if variable else ""


def items(text):
    """(name, start, end) of each definition at file level."""
    plain = bare(text)
    depth, start, offset, macro = 0, None, 0, False
    for line in plain.split("\n"):
        end = offset + len(line)
        stripped = line.strip()
        if macro or (depth == 0 and start is None and stripped.startswith("#")):
            if start is None:
                start = offset
            macro = stripped.endswith("\\")
            if not macro:
                if re.match(r"\s*#\s*define", plain[start:end]):
                    yield item_name(plain[start:end]), start, end
                start = None
        elif depth == 0 and start is None and \
                re.match(r'(extern "[^"]*"|(inline )?namespace\b[^;={]*)? *\{?$', stripped):
            pass  # what is inside is at file level too; its closing brace stands alone
        elif stripped.startswith("#"):
            pass
        elif stripped or depth:
            if depth == 0 and start is None and stripped in ("}", "};"):
                offset = end + 1
                continue
            if start is None:
                start = offset
            depth += line.count("{") - line.count("}")
            if depth == 0 and stripped.endswith((";", "}")):
                yield item_name(plain[start:end]), start, end
                start = None
        offset = end + 1


class Report:
    """Collects breaches; a rule may be lifted for a file by tests/lint/exempt.txt."""

    def __init__(self, name, root):
        self.name = name
        self.rows = []
        self.checked = 0
        self.exempt = []
        path = os.path.join(root, "tests/lint/exempt.txt")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as lines:
                rows = [line.split("#")[0].split() for line in lines]
                self.exempt = [row for row in rows if len(row) == 2]

    def lifted(self, rule, path):
        return any(rule == row[0] and fnmatch.fnmatch(path, row[1]) for row in self.exempt)

    def add(self, rule, path, line, text):
        if self.lifted(rule, path):
            return
        self.rows.append(f"{path}:{line}: {text} [{rule}]")

    def end(self):
        """Prints the breaches and a case line; exits 0 or 1."""
        for row in self.rows:
            print(row)
        if not self.checked:
            print(f"FAIL {self.name} looked at nothing")
            sys.exit(1)
        print(f"{'FAIL' if self.rows else 'ok'} {self.name}: {self.checked} looked at, "
              f"{len(self.rows)} breaches")
        sys.exit(1 if self.rows else 0)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)
