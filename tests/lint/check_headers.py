#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone; the public ones as C99, C11 and C++11, pedantically. Public structs
begin with their size, and say yes or no by a uint32_t."""
import os
import re
import shutil
import subprocess

import lint

WARN = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
LANGUAGES = [("c99", ["-x", "c", "-std=c99", "-Wstrict-prototypes"]),
             ("c11", ["-x", "c", "-std=c11"]), ("c++11", ["-x", "c++", "-std=c++11"])]
# Public structs whose layout never changes.
FIXED = {"tcpx_peer", "tcpx_region", "tcpx_request", "tcpx_segment"}
INTERNAL = ["-x", "c", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
            "-Wno-unused-function", "-Wno-missing-field-initializers", "-fsyntax-only"]


def compilers(language):
    """What is there of gcc and clang for the language."""
    names = ["c++", "clang++"] if "++" in language else ["cc", "clang"]
    found = []
    for name in names:
        probe = [name, "-x", "c++" if "++" in language else "c", "-fsyntax-only", "-"]
        source = b"#include <cstdint>\n" if "++" in language else b"#include <stdint.h>\n"
        if shutil.which(name) and subprocess.run(probe, input=source,
                                                 capture_output=True).returncode == 0:
            found.append(name)
    return found


def compile_alone(report, root, name, include, compiler, flags):
    argv = [compiler] + flags + ["-I", os.path.join(root, "include"), "-I",
                                 os.path.join(root, "src"), "-"]
    # Twice: the guard is part of the promise.
    source = f"#include {include}\n#include {include}\n"
    done = subprocess.run(argv, input=source, text=True, capture_output=True)
    report.checked += 1
    if done.returncode:
        rows = done.stderr.strip().splitlines()
        first = ([row for row in rows if "error:" in row] or rows or ["?"])[0]
        report.add("alone", name, 1, f"{compiler} {' '.join(flags[:3])}: {first}")


def check_sizes(report, name, text):
    """Every struct that crosses the ABI begins with its size, but for those that never change."""
    for match in re.finditer(r"^typedef struct (\w+) \{\s*([^;]*;)", lint.bare(text), re.M):
        report.checked += 1
        if match[1] not in FIXED and match[2] != "size_t sz;":
            report.add("sizes", name, lint.line_of(text, match.start()),
                       f"{match[1]} does not begin with 'size_t sz;'")
    flags = r"^\t(?!uint32_t )(\w+) \w+;\s*/\*\*< 1: |^\t(_?[Bb]ool) \w+;"
    for match in re.finditer(flags, text, re.M):
        report.add("flags", name, lint.line_of(text, match.start()),
                   f"yes or no is uint32_t in a struct, not {match[1] or match[2]}")


def main():
    root = lint.options(__doc__).root
    report = lint.Report("headers", root)
    names = lint.tree(root)
    languages = [(compiler, flags) for name, flags in LANGUAGES for compiler in compilers(name)]
    for name in names:
        if name.startswith("include/tcpx/") and name.endswith(".h"):
            check_sizes(report, name, lint.read(root, name))
            for compiler, flags in languages:
                compile_alone(report, root, name, f"<{name[8:]}>", compiler, flags + WARN)
        elif name.startswith("src/") and name.endswith(".h"):
            compile_alone(report, root, name, f'"{name[4:]}"', "cc", INTERNAL)
    report.end()


if __name__ == "__main__":
    main()
