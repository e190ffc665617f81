#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library exports what the headers declare and imports nothing that harms its host process;
and the NIXL plugin its entry points, and needs nothing that a host may lack.

Usage: check_symbols.py exports|imports|shipped|glibc|internal|link|plugin|stays FILE
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lint"))
import api # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FORBIDDEN = {"exit", "_exit", "_Exit", "quick_exit", "abort", "raise", "__assert_fail", "printf",
             "vprintf", "puts", "putchar", "__printf_chk", "__vprintf_chk", "perror", "stdout",
             "system", "popen", "fork", "vfork", "execv", "execve", "execvp", "setenv", "unsetenv",
             "putenv", "clearenv", "chdir", "signal", "sigaction", "sigprocmask", "setlocale"}
GLIBC_MAX = (2, 31) # Debian 11; a build there has the older versions of what is in both
# Newer names that the headers or the compiler's runtime bring, each with an older one in its place,
# and what the code has a branch without.
NEWER = {"stat", "lstat", "fstat", "fstatat", "stat64", "lstat64", "fstat64", "fstatat64", "mknod",
         "mknodat", "__libc_single_threaded", "_dl_find_object", "arc4random", "strerrordesc_np"}
ENTRIES = {"nixl_plugin_init", "nixl_plugin_fini"}
# And what unwinds the stack, one for all of a process, which every host written in C++ has.
C_LIBRARY = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2",
             "libgcc_s.so.1"}


def nm(*argv):
    done = subprocess.run(["nm", *argv], text=True, capture_output=True, check=True)
    return [line.split() for line in done.stdout.splitlines() if line.strip()]


def case(name, wrong):
    print(f"{'FAIL' if wrong else 'ok'} {name}{': ' + ', '.join(sorted(wrong)) if wrong else ''}")
    return bool(wrong)


def exports(path):
    have = {row[-1].split("@")[0] for row in nm("-D", "--defined-only", path)} - {"TCPX_0.1"}
    want = set(api.functions(TOP))
    with open(os.path.join(TOP, "src/libtcpx.map"), encoding="utf-8") as source:
        named = set(re.findall(r"^\t([^\s;]+);$", source.read().split("local:")[0], re.M))
    bad = case("the map names what the headers declare, one by one", named ^ want)
    bad = case("every declared function is exported", want - have) or bad
    return case("nothing else is exported", have - want) or bad


def imported(path):
    return [row[-1] for row in nm("-D", "--undefined-only", path)]


def old_enough(rows):
    """A name that the C library has in no version that old either cannot be had there."""
    def split(row):
        found = re.match(r"([^@]+)@+GLIBC_(\d+)\.(\d+)", row)
        return found and (found[1], (int(found[2]), int(found[3])))

    libc = subprocess.run([os.environ.get("CC", "cc"), "-print-file-name=libc.so.6"], text=True,
                          capture_output=True, check=True).stdout.strip()
    have = filter(None, (split(row[-1]) for row in nm("-D", "--defined-only", libc)))
    old = NEWER | {name for name, version in have if version <= GLIBC_MAX}
    newer = {name for name, version in filter(None, map(split, rows))
             if version > GLIBC_MAX and name not in old and not name.startswith("__isoc23_")}
    return case(f"nothing that glibc {GLIBC_MAX[0]}.{GLIBC_MAX[1]} lacks is needed", newer)


def shipped(path):
    """Filters that damage traffic and the memory kind "slow" are in test programs only."""
    names = {row[-1] for row in nm("--defined-only", path)}
    bad = case("symbols of the tests' parts are not in it",
               {name for name in names
                if re.match(r"filter_(wrap|choose|fault|check)|mem_slow", name)})
    with open(path, "rb") as file:
        content = file.read()
    return case("nor are their texts", {text for text in ("filter fault", "memory kind slow")
                                        if text.encode() in content}) or bad


def imports(path):
    rows = imported(path)
    bad = case("nothing imported ends or talks over the host process",
               {row.split("@")[0] for row in rows} & FORBIDDEN)
    return old_enough(rows) or bad


def glibc(path):
    return old_enough(imported(path))


def plugin(path):
    have = {row[-1] for row in nm("-D", "--defined-only", path)}
    bad = case("the entry points are exported and nothing else is", have ^ ENTRIES)
    done = subprocess.run(["readelf", "-dW", path], text=True, capture_output=True, check=True)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", done.stdout))
    bad = case("the C library alone is needed", needed - C_LIBRARY) or bad
    flags = re.search(r"\(FLAGS_1\)(.*)", done.stdout)
    bad = case("it stays when it is unloaded",
               () if flags and "NODELETE" in flags[1] else {"no NODELETE"}) or bad
    return old_enough(imported(path)) or bad


def internal(path):
    names = {row[2] for row in nm("--defined-only", "--extern-only", path) if len(row) == 3}
    return case("internal names never start with tcpx_",
                {name for name in names if name.startswith("tcpx_")} - set(api.functions(TOP)))


def link(path):
    """A program that takes the address of every public function links and runs."""
    rows = "".join(f"\t(any_fn){name},\n" for name in sorted(api.functions(TOP)))
    source = ("#include <tcpx/tcpx.h>\ntypedef void (*any_fn)(void);\n"
              f"any_fn volatile all[] = {{\n{rows}}};\n"
              "int main(void)\n{\n\tfor (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)\n"
              "\t\tif (!all[i])\n\t\t\treturn 1;\n\treturn 0;\n}\n")
    folder = os.path.dirname(os.path.abspath(path))
    with tempfile.TemporaryDirectory() as place:
        program = os.path.join(place, "link")
        done = subprocess.run([os.environ.get("CC", "cc"), "-std=c99", "-x", "c", "-", "-I",
                               os.path.join(TOP, "include"), "-o", program, "-L", folder, "-ltcpx",
                               f"-Wl,-rpath,{folder}"], input=source, text=True,
                              capture_output=True)
        print("\n".join(done.stderr.splitlines()[:8]))
        bad = case("every public function links", {"see above"} if done.returncode else ())
        return bad or case("and the program runs", {"it does not"}
                           if subprocess.run([program]).returncode else ())


def stays(path):
    """Threads of its own run its code yet when a host has let go of it, as Python's may."""
    source = ("#include <dlfcn.h>\nint main(int argc, char **argv)\n{\n"
              "\tvoid *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : 0;\n"
              "\treturn !library || dlclose(library) || !dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);"
              "\n}\n")
    with tempfile.TemporaryDirectory() as place:
        program = os.path.join(place, "stays")
        done = subprocess.run([os.environ.get("CC", "cc"), "-x", "c", "-", "-o", program, "-ldl"],
                              input=source, text=True, capture_output=True)
        print("\n".join(done.stderr.splitlines()[:8]))
        return case("it stays in the process", {"it does not"} if done.returncode or
                    subprocess.run([program, os.path.abspath(path)]).returncode else ())


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("exports", "imports", "shipped", "glibc",
                                                 "internal", "link", "plugin", "stays"):
        sys.exit(__doc__)
    sys.exit(int(globals()[sys.argv[1]](sys.argv[2])))
