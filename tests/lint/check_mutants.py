#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each fault of tests/mutants still fits the code that it is planted in, as scripts/mutants.sh does
it: a patch that code has left behind tests nothing."""
import os
import shutil
import subprocess

import lint


def main():
    root = lint.options(__doc__).root
    if not shutil.which("git"):
        lint.skip("no git")
    report = lint.Report("mutants", root)
    # A repository that this tree only lies in would not let its patches be looked at.
    env = dict(os.environ, GIT_CEILING_DIRECTORIES=os.path.dirname(os.path.realpath(root)))
    for name in lint.tree(root):
        if not (name.startswith("tests/mutants/") and name.endswith(".patch")):
            continue
        report.checked += 1
        done = subprocess.run(["git", "apply", "-C1", "--check", name], cwd=root, env=env,
                              text=True, capture_output=True)
        if done.returncode != 0:
            report.add("mutants", name, 1, done.stderr.splitlines()[0])
    report.end()


if __name__ == "__main__":
    main()
