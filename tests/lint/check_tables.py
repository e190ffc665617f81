#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables and plots of the documents are what bench/render.py writes from the stored results."""
import os
import subprocess
import sys

import lint


def main():
    root = lint.options(__doc__).root
    report = lint.Report("tables", root)
    if sys.version_info < (3, 11):
        lint.skip("Python below 3.11 has no tomllib")
    done = subprocess.run([sys.executable, os.path.join(lint.HERE, "../../bench/render.py"),
                           "--root", root, "--check"], text=True, capture_output=True)
    report.checked = len(lint.tree(root))
    for row in (done.stdout + done.stderr).splitlines():
        report.add("tables", row.split(":")[0], 1, row.partition(": ")[2] or row)
    report.end()


if __name__ == "__main__":
    main()
