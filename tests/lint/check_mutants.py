#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each fault of tests/mutants still fits the code that it is planted in: one that code has left
behind tests nothing. scripts/mutants.py says what a fault looks like, and plants them."""
import os
import re
import sys

import lint

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(lint.HERE)), "scripts"))
import mutants  # noqa: E402


def main():
    root = lint.options(__doc__).root
    report = lint.Report("mutants", root)
    tree = mutants.Tree(root)
    try:
        faults = mutants.read_all(root)
    except mutants.Unfit as error:
        report.add("mutants", "tests/mutants", 1, str(error))
        faults = []
    known = set(re.findall(r"\w+", "".join(lint.read(root, name) for name in lint.tree(root)
                                            if lint.is_c(name))))
    for fault in faults:
        report.checked += 1
        planted = "\n".join(line for edit in fault.edits for line in edit.new
                            if not edit.file.endswith("meson.build"))
        for call in set(re.findall(r"\b([a-z_]\w*)\(", planted)) - known:
            if not re.search(rf"(status|define) {call}\(", planted): # the fault's own
                report.add("mutants", fault.path, fault.line,
                           f"{fault.name} calls {call}, which is nowhere")
        try:
            tree.plant(fault)
        except mutants.Unfit as error:
            report.add("mutants", fault.path, fault.line, str(error))
    report.end()


if __name__ == "__main__":
    main()
