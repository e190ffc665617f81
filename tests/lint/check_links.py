#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relative links of Markdown pages lead to files that are there; tests they name exist."""
import os
import re

import lint


def main():
    root = lint.options(__doc__).root
    report = lint.Report("links", root)
    for name in lint.tree(root):
        if not name.endswith(".md"):
            continue
        report.checked += 1
        for number, line in enumerate(lint.read(root, name).splitlines(), 1):
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", line):
                if not os.path.exists(os.path.join(root, os.path.dirname(name), target)):
                    report.add("links", name, number, f"no file {target}")
            for target, case in re.findall(r"`((?:tests|fuzz)/[\w./-]+?)(?:::(\w+))?`", line):
                if not os.path.exists(os.path.join(root, target.rstrip("/"))):
                    if "*" not in target:
                        report.add("links", name, number, f"no file {target}")
                elif case and not re.search(rf"\b{case}\b", lint.read(root, target)):
                    report.add("links", name, number, f"no test {case} in {target}")
    report.end()


if __name__ == "__main__":
    main()
