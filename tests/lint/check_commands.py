#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands, options, variables and error texts that the guide names are there.

Each command block says in a comment above it how tests/system/test_docs.py runs it, or why not."""
import re

import lint
import pages

HOW = re.compile(r"run(: (two hosts|library(, two hosts)?|nixl|mpirun|make))?|not run: \S.*")
LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')
SOURCES = ("src", "tools", "plugins", "include")


def check_block(report, name, block, root, manual):
    if not HOW.fullmatch(block.how):
        report.add("commands", name, block.line, "no comment '<!-- run -->' above the block, or "
                   f"one that is unknown: '{block.how}'")
    text = "\n".join(block.lines)
    if block.how == "run: make":
        makefile = lint.read(root, "Makefile")
        tried = lint.read(root, "scripts/try-readme.sh") + "test" # which try-fresh.sh runs
        for target in re.findall(r"^make ([a-z-]+)", text, re.M):
            if not re.search(rf"^{target}:", makefile, re.M):
                report.add("commands", name, block.line, f"no target {target} in Makefile")
            elif not re.search(rf"\b{target}\b", tried):
                report.add("commands", name, block.line, f"try-readme.sh runs no make {target}")
    for command, rest in re.findall(r"(?<![\w/-])tcpx ([a-z-]+)([^\n|&;]*)", text):
        page = manual.get(f"docs/man/tcpx-{command}.1")
        if page is None:
            report.add("commands", name, block.line, f"no command tcpx {command}")
            continue
        ours = rest.split("#")[0].split(" -- ")[0]
        for option in re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", ours):
            if not re.search(rf"(?<![\w-]){option}(?![\w-])", page):
                report.add("commands", name, block.line, f"tcpx {command} has no {option}")


def check_words(report, name, text, variables, literals):
    """Variables anywhere; error texts and check ids in the page that explains them."""
    for number, line in enumerate(text.splitlines(), 1):
        for word in re.findall(r"\bTCPX_[A-Z0-9_]*[A-Z0-9]\b", line):
            if word not in variables:
                report.add("commands", name, number, f"nothing reads {word}")
        row = re.match(r"\| (`[^|]*`(?:, then `[^|]*`)?) \|", line)
        if name.endswith("troubleshooting.md") and row:
            for said in re.findall(r"`([^`]*)`", row[1]):
                if not all(part.strip() in literals for part in said.split("…")):
                    report.add("commands", name, number, f"no message says '{said}'")


def main():
    root = lint.options(__doc__).root
    report = lint.Report("commands", root)
    files = lint.tree(root)
    manual = {name: lint.read(root, name).replace("\\-", "-") for name in files
              if name.startswith("docs/man/")}
    sources = [lint.read(root, name) for name in files
               if lint.is_c(name) and name.split("/")[0] in SOURCES]
    scripts = [lint.read(root, name) for name in files if name.startswith("scripts/")]
    variables = set(re.findall(r"\bTCPX_[A-Z0-9_]*[A-Z0-9]\b", "\n".join(sources + scripts)))
    literals = "\n".join("".join(LITERAL.findall(re.sub(r'"\s*\n\s*"', "", text)))
                         for text in sources) + "\n".join(manual.values())
    for name in files:
        if not pages.COMMANDS.fullmatch(name):
            continue
        text = lint.read(root, name)
        report.checked += 1
        for block in pages.commands(text):
            check_block(report, name, block, root, manual)
        check_words(report, name, text, variables, literals)
    doctor = set(re.findall(r'"(D\d\d)"', "\n".join(sources)))
    page = "docs/guide/troubleshooting.md"
    if page in files:
        listed = set(re.findall(r"^\| (D\d\d) \|", lint.read(root, page), re.M))
        for one in sorted(doctor ^ listed):
            report.add("commands", page, 1, f"check {one} is in one of doctor and page alone")
    report.end()


if __name__ == "__main__":
    main()
