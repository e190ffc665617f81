#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No file names the folder this checkout lies in or a home folder: such a path is one machine's."""
import os
import re

import lint


def main():
    root = lint.options(__doc__).root
    report = lint.Report("paths", root)
    places = {os.path.expanduser("~") + "/"} - {"/", "//"}
    if os.path.realpath(root).count("/") > 1: # one word is not telling enough
        places.add(os.path.realpath(root) + "/")
    pattern = re.compile("|".join(re.escape(place) for place in sorted(places)))
    for name in lint.tree(root):
        report.checked += 1
        for number, line in enumerate(lint.read(root, name).splitlines(), 1):
            if pattern.search(line):
                report.add("paths", name, number, "a path of one machine")
    report.end()


if __name__ == "__main__":
    main()
