#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public function has a man page, sections stand in order, mandoc has no warning."""
import os
import re
import shutil
import subprocess

import api
import lint

ORDER = ["NAME", "SYNOPSIS", "DESCRIPTION", "ARGUMENTS", "OPTIONS", "RETURN VALUE", "EXIT STATUS",
         "ERRORS", "ENVIRONMENT", "FILES", "NOTES", "EXAMPLES", "SEE ALSO"]
NEEDED = {"3": ["NAME", "SYNOPSIS", "DESCRIPTION", "RETURN VALUE", "ERRORS", "NOTES", "EXAMPLES",
                "SEE ALSO"]}
# What the examples of section 3 are cut out of: each is the body of a function of this kind.
PRELUDE = """#include <inttypes.h>
#include <stdio.h>
#include <tcpx/tcpx.h>
void send_to_the_other_side(const void *info, size_t len);
void to_my_log(void *arg, enum tcpx_log_level level, const char *line);
void finish(void *user, tcpx_status status);
int example(tcpx_session *session, tcpx_peer peer, tcpx_region mine, tcpx_region theirs,
	    void *buffer, uint64_t bytes, tcpx_request request, const void *info, size_t len);
int example(tcpx_session *session, tcpx_peer peer, tcpx_region mine, tcpx_region theirs,
	    void *buffer, uint64_t bytes, tcpx_request request, const void *info, size_t len)
{
	{
%s
	}
	return 0;
}
"""


def sections(text):
    return [found.strip('" ') for found in re.findall(r"^\.SH +(.*)$", text, re.M)]


def check_page(report, name, text):
    kind = name.rsplit(".", 1)[1]
    have = sections(text)
    for section in NEEDED.get(kind, ["NAME", "DESCRIPTION", "SEE ALSO"]):
        if section not in have:
            report.add("man", name, 1, f"no section {section}")
    known = [section for section in have if section in ORDER]
    if known != sorted(known, key=ORDER.index):
        report.add("man", name, 1, f"sections out of order: {', '.join(known)}")


def check_mandoc(report, root, name):
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", os.path.join(root, name)],
                          text=True, capture_output=True)
    for row in done.stdout.splitlines():
        found = re.match(r"mandoc: .*?:(\d+):\d+: (.*)", row)
        if found and "referenced manual not found" not in row:
            report.add("mandoc", name, int(found[1]), found[2])


def check_examples(report, root, name, text):
    """C code between .nf and .fi of EXAMPLES compiles against the headers."""
    include = os.path.join(root, "include")
    if not shutil.which("cc") or not os.path.exists(os.path.join(include, "tcpx/tcpx.h")):
        return
    section = text.partition(".SH EXAMPLES")[2].partition(".SH ")[0]
    for body in re.findall(r"^\.nf\n(.*?)^\.fi", section, re.M | re.S):
        code = PRELUDE % re.sub(r"\\(.)", lambda m: {"e": "\\"}.get(m[1], m[1]), body)
        done = subprocess.run(["cc", "-std=c11", "-fsyntax-only", "-w", f"-I{include}", "-xc", "-"],
                              input=code, text=True, capture_output=True)
        if done.returncode:
            report.add("man", name, 1, f"an example does not compile: {done.stderr.strip()}")


def main():
    root = lint.options(__doc__).root
    report = lint.Report("man", root)
    pages = {name: lint.read(root, name) for name in lint.tree(root)
             if re.match(r"docs/man/.*\.[1-8]$", name)}
    threes = {name: text for name, text in pages.items() if name.endswith(".3")}
    for function, header in sorted(api.functions(root).items()):
        report.checked += 1
        # in NAME, so that makewhatis and an installed link find it
        if not any(re.search(rf"\b{function}\b", text.split(".SH SYNOPSIS")[0])
                   for text in threes.values()):
            report.add("man", header, 1, f"{function} is in the NAME of no page of section 3")
        elif not any(re.search(rf"\b{function}\b", text.partition(".SH SYNOPSIS")[2])
                     for text in threes.values()):
            report.add("man", header, 1, f"{function} is described on no page")
    links = os.path.join(root, "docs/man/meson.build")
    if os.path.exists(links):
        listed = lint.read(root, "docs/man/meson.build")
        for function in sorted(api.functions(root)):
            if f"'{function[5:]}'" not in listed:
                report.add("man", "docs/man/meson.build", 1, f"no link for {function}")
    known = set(api.functions(root))
    for name, text in pages.items():
        report.checked += 1
        check_page(report, name, text)
        if name in threes:
            check_examples(report, root, name, text)
        for word in set(re.findall(r"\b(tcpx_\w+)\\?(?:fR)?\(3\)", text)) - known:
            if f"docs/man/{word}.3" not in pages:
                report.add("man", name, 1, f"{word}(3) is no function and no page")
        if shutil.which("mandoc"):
            check_mandoc(report, root, name)
    report.end()


if __name__ == "__main__":
    main()
