#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What messages name is there: each TCPX_ variable is read, each --option is on a page."""
import re

import lint

# Options of commands of others, which messages quote with their command.
FOREIGN = {"--client", "--mpi", "--network", "--server", "--set-priv-flags", "--set-rxfh-indir",
           "--to"}
LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')


def main():
    root = lint.options(__doc__).root
    report = lint.Report("advice", root)
    files = lint.tree(root)
    texts = {name: lint.read(root, name) for name in files
             if lint.is_c(name) and name.split("/")[0] in ("src", "tools", "plugins", "include")}
    pages = "".join(lint.read(root, name) for name in files if name.startswith("docs/man/"))
    options = set(re.findall(r"--[a-z][a-z0-9-]+", pages.replace("\\-", "-")))
    names = set()
    for name, text in texts.items():
        if name.startswith("include/"):
            names.update(re.findall(r"\bTCPX_\w+", text))
        for literal in LITERAL.findall(text): # one that is read, or of a table's row
            if re.fullmatch(r"[A-Z0-9_ ]+", literal):
                names.update(literal.split())
    for name, text in texts.items():
        report.checked += 1
        for number, line in enumerate(text.splitlines(), 1):
            for literal in LITERAL.findall(line):
                for word in re.findall(r"\b(?:UCCL_)?TCPX_[A-Z0-9_]*[A-Z0-9]\b", literal):
                    if word not in names:
                        report.add("advice", name, number, f"nothing reads {word}")
                for word in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", literal):
                    if word not in options | FOREIGN:
                        report.add("advice", name, number, f"no page has {word}")
    report.end()


if __name__ == "__main__":
    main()
