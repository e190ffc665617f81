#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relative links of Markdown pages lead to files and headings that are there; tests and source
files that they name exist."""
import os
import re

import lint
import pages

LINK = re.compile(r"\]\(([^)\s]+)\)|<(?:img|source)[^>]*(?:src|srcset)=\"([^\"]+)\"")


def check_target(report, root, name, number, target):
    path, _, anchor = target.partition("#")
    if re.match(r"[a-z]+:", path):
        return # a URL: nothing is asked over the network
    place = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
    if not os.path.exists(os.path.join(root, place)):
        report.add("links", name, number, f"no file {path}")
    elif anchor and place.endswith(".md") and anchor not in pages.anchors(lint.read(root, place)):
        report.add("links", name, number, f"no heading {anchor} in {place}")


def main():
    root = lint.options(__doc__).root
    report = lint.Report("links", root)
    names = lint.tree(root)
    files = {os.path.basename(name) for name in names}
    for name in names:
        if not name.endswith(".md"):
            continue
        report.checked += 1
        for number, line in enumerate(pages.outside(lint.read(root, name)), 1):
            for link in LINK.findall(re.sub(r"`[^`]*`", "``", line)):
                check_target(report, root, name, number, link[0] or link[1])
            for source in re.findall(r"`(?:src/)?[\w/]*?(\w+\.[ch])`", line):
                if source not in files:
                    report.add("links", name, number, f"no file {source}")
            for target, case in re.findall(r"`((?:tests|fuzz)/[\w./-]+?)(?:::(\w+))?`", line):
                if not os.path.exists(os.path.join(root, target.rstrip("/"))):
                    if "*" not in target:
                        report.add("links", name, number, f"no file {target}")
                elif case and not re.search(rf"\b{case}\b", lint.read(root, target)):
                    report.add("links", name, number, f"no test {case} in {target}")
    report.end()


if __name__ == "__main__":
    main()
