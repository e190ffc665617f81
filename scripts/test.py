#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the suites, adds up their cases and ends in one plain line.

Usage: scripts/test.sh short|full [SUITE...]     the suites are named in the table SUITES
Exit: 0 all passed; 1 a failure, or with STRICT_SKIPS=1 a skip that tests/skips.txt does not name.
"""
import concurrent.futures
import fnmatch
import functools
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TAIL_LINES = 40
SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    # The longest history: a report whose stack it has forgotten matches no suppression.
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:history_size=7:suppressions=" +
                    os.path.join(TOP, "tests/support/tsan.supp"),
}
# Source lines in reports, no more: full debug information takes most of the compile time.
# And without nvcc: release tests that only on a machine that has no nvcc.
DEBUG = ["-Doptimization=1", "-Ddebug=false", "-Dc_args=-g1", "-Dcuda=disabled"]
MINIMAL = ["-Dcrypto=disabled", "-Dcuda=disabled", "-Djson=disabled", "-Dunit_tests=disabled",
           "-Dnixl=disabled", "-Dc_args=-DTCPX_OLD_GLIBC", "-Doptimization=1"]
# The core is the same without the parts, and release runs all of its simulations.
MINIMAL_TESTS = ["conform-errors", "conform-tcp", "conform-local-two", "sim_cases"]

# name: (build folder, meson options, suites of meson test, tests of the short form); None: all
BUILDS = {
    "release": ("build", [], None, None),
    "minimal": ("build-min", MINIMAL, ["conform", "sim"], MINIMAL_TESTS),
    "asan": ("build-asan", DEBUG + ["-Db_sanitize=address,undefined"],
             ["unit", "conform", "sim", "fuzz", "examples"], None),
    "tsan": ("build-tsan", DEBUG + ["-Djson=disabled", "-Db_sanitize=thread"],
             ["unit", "conform", "sim", "examples"], None),
    "clang": ("build-clang", ["-Dfuzzers=true", "-Dwerror=true"], ["unit", "sim", "fuzz"], None),
}
# Suites left out. Always: what only does more of the same (soak) runs in release. The simulator and
# the kernels' references have one thread, so a race detector finds nothing there, nor in a search
# of memory; and of torture it does not see that a loan of the local transport is over
# (tests/support/tsan.supp). In the short form of the conformance suite both sanitizers take a part
# (tests/conform/meson.build), and of torture nothing, which release runs.
WITHOUT = {"asan": ["soak"], "tsan": ["soak", "sim", "one-thread", "torture", "search"],
           "clang": ["soak"]}
# The NIXL plugin is driven over each transport in release, and over one of them in each sanitizer.
# Inputs of the fuzzers are replayed where a fault of theirs is seen.
SHORT_WITHOUT = {"release": ["fuzz"],
                 "asan": ["conform-most", "torture", "nixl-local", "nixl-one_copy", "sim-random"],
                 "tsan": ["conform-more", "nixl-tcp", "nixl-one_copy"]}
# The tool of that build, without nvcc and with AddressSanitizer, in the system tests of GPU memory.
NOCUDA, NOCUDA_TESTS = "asan", ["test_tool_gpu.py", "test_tool_messages.py"]
SHORT = ["release", "minimal", "asan", "nocuda", "tsan", "system"]
FULL = ["release", "minimal", "asan", "nocuda", "tsan", "clang", "system", "fuzz", "coverage",
        "mutants"]
# Many tests wait for most of their time, for a silence to be noticed or a process to end.
PROCESSES = (os.cpu_count() or 2) * 3 // 2 + 1
# Executions of each libFuzzer target; the stateful ones do more work in each.
FUZZ_RUNS, FUZZ_RUNS_STATEFUL = 10_000_000, 1_000_000
STATEFUL = ["fuzz_link", "fuzz_nixl", "fuzz_session"]


class Tally:
    """Counts of cases, names of skips, texts of failures."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.skips = []
        self.failures = []

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.skips += other.skips
        self.failures += other.failures

    def line(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def skip(self, name, why=""):
        self.skipped += 1
        self.skips.append((name, why))

    def fail(self, name, text):
        self.failed += 1
        self.failures.append((name, text))


def tail(text):
    lines = text.rstrip().splitlines()
    cut = [f"... {len(lines) - TAIL_LINES} lines before"] if len(lines) > TAIL_LINES else []
    return "\n".join(cut + lines[-TAIL_LINES:])


def run(argv, **more):
    return subprocess.run(argv, cwd=TOP, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", **more)


def cases_of(text):
    """Cases a program reported: tests/support/check.h lines, or cmocka's."""
    passed, failed, skips = 0, [], []
    for line in text.splitlines():
        own = re.match(r"(ok|skip|FAIL) +(\S.*?)(?: \([\d.]+ s\).*)?$", line)
        cmocka = re.match(r"\[ +(OK|SKIPPED|FAILED) +\] (?!\d+ test\(s\))(\S+)$", line)
        if own and own[1] == "ok" or cmocka and cmocka[1] == "OK":
            passed += 1
        elif own and own[1] == "skip":
            skips.append(own[2])
        elif cmocka and cmocka[1] == "SKIPPED" and cmocka[2] not in skips:
            skips.append(cmocka[2])
        elif own:
            failed.append(own[2])
        elif cmocka and cmocka[1] == "FAILED" and cmocka[2] not in failed:
            failed.append(cmocka[2])
    return passed, failed, skips


def skip_reason(text):
    found = re.findall(r"skipped: (.*)", text)
    return found[-1] if found else ""


def add_meson_test(tally, suite, row):
    """One line of testlog.json: a program with one case or many."""
    name = suite + "/" + re.sub(r"^.*? [-/] ", "", row["name"].replace("tcpx-p2p:", ""))
    text = (row.get("stdout") or "") + (row.get("stderr") or "")
    passed, failed, skips = cases_of(text)
    tally.passed += passed
    for case in skips:
        tally.skip(f"{name}/{case}", skip_reason(text))
    if row["result"] in ("OK", "EXPECTEDFAIL"):
        if not passed and not skips:
            tally.passed += 1
    elif row["result"] == "SKIP":
        if not skips:
            tally.skip(name, skip_reason(text))
    else:
        what = f"{row['result']} {', '.join(failed)}".strip()
        tally.fail(name, f"{what}\n$ {' '.join(row['command'])}\n{tail(text)}")
        tally.failed += max(0, len(failed) - 1)


def why_not(options):
    """Why a build with these options cannot be tested here, or None: no runtime of a sanitizer."""
    start = "-Db_sanitize="
    wanted = [option[len(start):] for option in options if option.startswith(start)]
    if "-Dfuzzers=true" in options and not shutil.which("clang"):
        return "no clang"
    for sanitizer in wanted:
        with tempfile.TemporaryDirectory() as place:
            program = os.path.join(place, "probe")
            built = subprocess.run(["cc", f"-fsanitize={sanitizer}", "-x", "c", "-o", program, "-"],
                                   input="int main(void) { return 0; }", text=True,
                                   capture_output=True)
            if built.returncode or subprocess.run([program], capture_output=True).returncode:
                return f"programs with -fsanitize={sanitizer} do not build or run here"
    return None


# What a test does not set is not set: a caller's variables are for his own programs.
CALLERS = re.compile("(UCCL_)?TCPX_(?!TEST_PLUGIN)|TCPXEMU_|FAKECUDA_|NCCL_|CUDA_VISIBLE_DEVICES")


def outside(long):
    return {**{name: value for name, value in os.environ.items() if not CALLERS.match(name)},
            "TEST_LONG": "1" if long else "0"}


def environment(suite, long):
    env = {**outside(long), **SANITIZER_ENV, "QUIET": "1"}
    if suite == "clang":
        env.update(CC="clang", CXX="clang++")
    return env


BUILDER = concurrent.futures.ThreadPoolExecutor(1)


@functools.lru_cache(None)
def build(suite, long):
    """What will have been built; one after the other, with what processors the tests leave."""
    folder, options, _, _ = BUILDS[suite]
    return BUILDER.submit(run, ["nice", "-n", "5", "scripts/build.sh", folder] + options,
                          env=environment(suite, long))


def run_meson(suite, long):
    folder, options, suites, names = BUILDS[suite]
    tally = Tally()
    reason = why_not(options)
    if reason:
        tally.skip(suite, reason)
        return tally
    built = build(suite, long).result()
    if built.returncode:
        tally.fail(suite + "/build", tail(built.stdout))
        return tally
    if built.stdout.strip():
        print(built.stdout, end="")
    argv = ["meson", "test", "-C", folder, "--no-rebuild", "--num-processes", str(PROCESSES)]
    argv += [part for name in suites or [] for part in ("--suite", name)]
    without = WITHOUT.get(suite, []) + ([] if long else ["long", *SHORT_WITHOUT.get(suite, [])])
    argv += [part for name in without for part in ("--no-suite", name)]
    argv += [] if long else names or []
    argv += ["--timeout-multiplier", "10" if long else "3" if suite in ("asan", "tsan") else "1"]
    log = os.path.join(TOP, folder, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.unlink(log)
    done = run(argv, env=environment(suite, long))
    if not os.path.exists(log):
        tally.fail(suite + "/meson test", tail(done.stdout))
        return tally
    with open(log, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            add_meson_test(tally, suite, json.loads(line))
    if done.returncode and not tally.failed:
        tally.fail(suite + "/meson test", tail(done.stdout))
    return tally


def find_python(*modules):
    """The first interpreter that has all modules, as scripts/packages.txt asks for them."""
    for python in (sys.executable, "/usr/bin/python3"):
        code = "import " + ", ".join(modules)
        if subprocess.run([python, "-c", code], capture_output=True).returncode == 0:
            return python
    return None


def run_nocuda(long):
    """System tests that touch GPU memory, of a tool built without nvcc."""
    folder, options, _, _ = BUILDS[NOCUDA]
    reason = why_not(options)
    if reason:
        tally = Tally()
        tally.skip("nocuda", reason)
        return tally
    if build(NOCUDA, long).result().returncode:
        return Tally() # said by the suite that builds it
    place = os.path.join(TOP, folder)
    return run_pytest("nocuda", place, NOCUDA_TESTS,
                      {**environment("nocuda", long), "TCPX_TOOL": os.path.join(place, "tcpx")})


# Files of tests/system that the short form runs in the network namespace of the machine, since they
# install packages, and those that it runs meanwhile in a namespace of their own. A third run has
# the rest, in another one, so that ports and abstract addresses do not meet. Each takes about a
# third of the time.
OUTER = ["test_nixl*", "test_doors*", "test_compat*", "test_tool_gpu*", "test_tool_perf*",
         "test_tool_trust*", "test_tool_diag*", "test_faults*"]
HOSTS = ["test_conform_hosts*", "test_tool_doctor*", "test_node*", "test_carrier*", "test_bind*",
         "test_path_mtu*", "test_rails*"]
INNER = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


def matching(files, patterns):
    return [name for name in files if any(fnmatch.fnmatch(name, row) for row in patterns)]


def run_system(long):
    files = sorted(os.path.basename(path)
                   for path in glob.glob(os.path.join(TOP, "tests/system/test_*.py")))
    outer, hosts = matching(files, OUTER), matching(files, HOSTS)
    rest = [name for name in files if name not in outer + hosts]
    place = os.path.join(TOP, "build")
    if long or run([*INNER, "true"]).returncode: # no root, or no ip
        return run_pytest("system", place, files, outside(long))
    # Made here: the inner namespaces have no network. What it says is said by the tests that ask.
    run(["scripts/nixl-venv.sh", os.path.join(place, "venv-nixl-cu12-1-5-1")])
    with concurrent.futures.ThreadPoolExecutor() as pool:
        others = [pool.submit(run_pytest, "system", place, part, outside(long), INNER)
                  for part in (hosts, rest)]
        tally = run_pytest("system", place, outer, outside(long))
        for other in others:
            tally.add(other.result())
    return tally


def run_pytest(suite, place, files, env, within=()):
    """The files of tests/system, over a build folder; within: a command that runs the command."""
    tally = Tally()
    python = find_python("pytest", "jsonschema", "yaml") or find_python("pytest")
    if not os.path.isdir(os.path.join(TOP, "tests/system")):
        return tally
    if not python:
        tally.skip(suite, "no pytest (package python3-pytest)")
        return tally
    report = os.path.join(place, f"{suite}-{files[0][:-3]}.xml")
    if os.path.exists(report):
        os.unlink(report)
    done = run([*within, python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junit-xml",
                report] +
               [os.path.join("tests/system", name) for name in files],
               env={**env, "PYTHONDONTWRITEBYTECODE": "1", "BUILD_DIR": place,
                    "TCPX_BUILD": place})
    if done.returncode == 5: # no test collected
        return tally
    if done.returncode not in (0, 1) or not os.path.exists(report):
        tally.fail(suite + "/pytest", tail(done.stdout))
        return tally
    for case in xml.parse(report).getroot().iter("testcase"):
        name = f"{suite}/{case.get('classname').split('.')[-1]}/{case.get('name')}"
        skipped = case.find("skipped")
        broken = case.find("failure")
        if broken is None:
            broken = case.find("error")
        if broken is not None:
            said = (broken.get("message") or "").splitlines()
            tally.fail(name, "\n".join(said[:1] + [tail(broken.text or "")]))
        elif skipped is not None:
            tally.skip(name, skipped.get("message") or "")
        else:
            tally.passed += 1
    return tally


def fuzz_one(program):
    """Runs one libFuzzer target beside its corpus; what it finds stays in its build folder."""
    name = os.path.basename(program)
    runs = FUZZ_RUNS_STATEFUL if name in STATEFUL else FUZZ_RUNS
    corpus = os.path.join(TOP, "fuzz/corpus", name[5:])
    with tempfile.TemporaryDirectory() as place:
        done = run([program, f"-runs={runs}", f"-artifact_prefix={program}-", place] +
                   ([corpus] if os.path.isdir(corpus) else []))
    return name, done


def run_fuzz(_long):
    """Every libFuzzer target, as long as the project's goal says; build-clang has them."""
    tally = Tally()
    found = sorted(glob.glob(os.path.join(TOP, "build-clang/fuzz/fuzz_*")))
    programs = [path for path in found if re.match(r"fuzz_\w+$", os.path.basename(path)) and
                not path.endswith("_corpus") and os.path.isfile(path)]
    if not programs:
        tally.skip("fuzz", "no libFuzzer targets: build-clang is missing")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, done in pool.map(fuzz_one, programs):
            if done.returncode:
                tally.fail("fuzz/" + name, tail(done.stdout))
            else:
                tally.passed += 1
    return tally


def run_coverage(_long):
    tally = Tally()
    done = run(["scripts/coverage-wire.sh", "--min", "90"])
    if done.returncode:
        tally.fail("coverage/wire", tail(done.stdout))
    else:
        tally.passed += 1
    return tally


def run_mutants(_long):
    tally = Tally()
    done = run(["scripts/mutants.sh"])
    passed, failed, skips = cases_of(done.stdout)
    tally.passed = passed
    for name in failed:
        tally.fail("mutants/" + name, "not caught")
    for name in skips:
        tally.skip("mutants/" + name)
    if done.returncode and not failed:
        tally.fail("mutants", tail(done.stdout))
    return tally


def listed_skips():
    """Patterns of tests/skips.txt: 'pattern  # reason'."""
    with open(os.path.join(TOP, "tests/skips.txt"), encoding="utf-8") as lines:
        rows = (line.split("#")[0].strip() for line in lines)
        return [row for row in rows if row]


def report(total, strict):
    unlisted = []
    listed = listed_skips()
    for name, text in total.failures:
        print(f"\nFAILED {name}\n{text}")
    if total.skips:
        print("\nskipped:")
    for name, why in total.skips:
        known = any(fnmatch.fnmatch(name, pattern) for pattern in listed)
        print(f"  {name}{': ' + why if why else ''}{'' if known else ' (not in tests/skips.txt)'}")
        unlisted += [] if known else [name]
    if strict and unlisted:
        print(f"{len(unlisted)} skips are not in tests/skips.txt: that fails a strict run")
    print("\n" + total.line())
    return 1 if total.failed or (strict and unlisted) else 0


def run_suite(suite, long):
    """One suite, and its line."""
    others = {"system": run_system, "nocuda": run_nocuda, "fuzz": run_fuzz,
              "coverage": run_coverage, "mutants": run_mutants}
    begin = time.monotonic()
    if sys.stderr.isatty():
        print(f"{suite} ...", end="\r", file=sys.stderr, flush=True)
    tally = run_meson(suite, long) if suite in BUILDS else others[suite](long)
    print(f"{suite:8} {tally.line()}  ({time.monotonic() - begin:.0f} s)", flush=True)
    for name, text in tally.failures: # the texts follow at the end, if that comes
        print(f"  FAILED {name}: {text.splitlines()[0][:120] if text else ''}", flush=True)
    return tally


def run_suites(suites, long):
    """One after the other, each while the next one is built. In the short form the system tests,
    which wait more than they work, run while the others do, once the build they drive is there."""
    beside = [suite for suite in suites if suite == "system" and "release" in suites and not long]
    for suite in suites:
        if suite in BUILDS and not why_not(BUILDS[suite][1]):
            build(suite, long)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        if beside:
            build("release", long).result()
        waiting = [pool.submit(run_suite, suite, long) for suite in beside]
        tallies = [run_suite(suite, long) for suite in suites if suite not in beside]
        return tallies + [one.result() for one in waiting]


def main(argv):
    if not argv or argv[0] not in ("short", "full"):
        print(__doc__, file=sys.stderr)
        return 2
    long = argv[0] == "full"
    suites = argv[1:] or (FULL if long else SHORT)
    for suite in suites:
        if suite not in FULL:
            print(f"no suite {suite}: {' '.join(FULL)}", file=sys.stderr)
            return 2
    total = Tally()
    try:
        for tally in run_suites(suites, long):
            total.add(tally)
    finally:
        BUILDER.shutdown(cancel_futures=True)
    return report(total, os.environ.get("STRICT_SKIPS") == "1")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
