#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""C files are as clang-format 14 leaves them ('make format' does it), and it knows our loops."""
import re
import shutil
import subprocess

import lint

VERSION = 14


def find():
    """The clang-format of the version the .clang-format is written for."""
    for name in (f"clang-format-{VERSION}", "clang-format"):
        if shutil.which(name):
            text = subprocess.run([name, "--version"], text=True, capture_output=True).stdout
            found = re.search(r"version (\d+)", text)
            if found and int(found[1]) == VERSION:
                return name
    return None


def known_loops(root):
    """The loop macros that .clang-format knows; None: the tree has no such file."""
    try:
        text = lint.read(root, ".clang-format")
    except OSError:
        return None
    return set(re.findall(r"\w+", "".join(re.findall(r"^ForEachMacros:(.*)$", text, re.M))))


def check_loops(report, root, names):
    """A loop macro that it does not know is laid out like a call with a block behind it."""
    known = known_loops(root)
    for name in names if known is not None else []:
        text = lint.read(root, name)
        for found in re.finditer(r"^#define (\w*FOREACH\w*|\w*for_each\w*)\(", text, re.M):
            if found[1] not in known:
                report.add("format", name, lint.line_of(text, found.start()),
                           f"{found[1]} is not in ForEachMacros of .clang-format")


def main():
    root = lint.options(__doc__).root
    tool = find()
    if not tool:
        lint.skip(f"no clang-format {VERSION}")
    report = lint.Report("format", root)
    names = [name for name in lint.tree(root) if name.endswith((".c", ".h", ".cpp", ".hpp"))]
    report.checked = len(names)
    check_loops(report, root, names)
    seen = set()
    for start in range(0, len(names), 50):
        part = names[start:start + 50]
        done = subprocess.run([tool, "--dry-run", "-Werror", *part], cwd=root, text=True,
                              capture_output=True)
        for path, line in re.findall(r"^(.+?):(\d+):\d+: error:", done.stderr, re.M):
            if path not in seen:
                report.add("format", path, int(line), "not as clang-format leaves it: make format")
            seen.add(path)
    report.end()


if __name__ == "__main__":
    main()
