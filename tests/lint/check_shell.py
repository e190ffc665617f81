#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shell scripts pass shellcheck."""
import shutil
import subprocess

import lint


def main():
    root = lint.options(__doc__).root
    if not shutil.which("shellcheck"):
        lint.skip("no shellcheck")
    report = lint.Report("shell", root)
    for name in lint.tree(root):
        if not (name.endswith(".sh") or name == ".ci/run" or
                name.startswith("scripts/compat/tests/")):
            continue
        report.checked += 1
        done = subprocess.run(["shellcheck", "-x", "-f", "gcc", name], cwd=root, text=True,
                              capture_output=True)
        for row in done.stdout.splitlines():
            path, line, _, text = row.split(":", 3)
            report.add("shell", path, int(line), text.strip())
    report.end()


if __name__ == "__main__":
    main()
