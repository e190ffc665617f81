#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The style law: heads, sizes, names, widths, and what library code never does."""
import os
import re

import lint

FILE_LINES = 500
SOURCE_LINES = 800  # of a C file: more is a warning, for it is cut by type and not by size
FUNCTION_LINES = 80
NO_FUNCTION = re.compile(r"(class|struct|namespace|extern)\b[^()]*$")
COLUMNS = 100
TAB = 8
SOURCES = ("src", "include", "tools", "plugins", "examples", "tests", "fuzz", "bench", "emu")
SPDX = "SPDX-License-Identifier: Apache-2.0"

# What the library never does: end, talk over or change its host process.
NEVER = [
    (r"\b(_?exit|_Exit|quick_exit|abort|raise|assert|__builtin_(trap|abort))\s*\(",
     "ends the process"),
    (r"(?<!\w)(v?printf|puts|putchar|putc|perror)\s*\(|\bstdout\b", "prints"),
    (r"\b(setenv|unsetenv|putenv|clearenv|chdir|umask|setlocale)\s*\(", "changes the process"),
    (r"\b(system|popen|fork|vfork|exec[lv]\w*)\s*\(", "starts a process"),
    (r"\b(atomic_(thread|signal)_fence|__sync_\w+|__atomic_(thread|signal)_fence)\b",
     "fence: acquire and release on variables instead"),
    (r"\bMSG_WAITALL\b", "blocks: sockets are non-blocking"),
    (r"(?<!\w)(accept|pipe|dup|dup2|epoll_create|inotify_init)\s*\(",
     "leaks into children: use the CLOEXEC form"),
    (r"\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|alloca)\s*\(", "unbounded"),
]
CLOEXEC = re.compile(r"(?<![\w.>])(socket|socketpair|accept4|open|openat|epoll_create1|eventfd|"
                     r"memfd_create|timerfd_create|signalfd|pipe2|dup3|shm_open)\s*\(([^;]*);")
# A text for people, by the name of its buffer: cut in the middle it says something else.
CUTS = re.compile(r"\bv?snprintf\s*\(\s*(?:[\w.>-]*\b)?(what|why|said|lost|gone|failed|reason|"
                  r"there|hint|error_text)\b")
CLOSES = re.compile(r"(?<![\w.>*])close\([^()]+\);")
# The table itself; and descriptors of a message that are closed before they are entered.
CLOSERS = {"src/sys/fd.c", "src/sys/fd_pass.c"}
SENDS = re.compile(r"(?<![\w.>])(send|sendto|sendmsg|sendmmsg)\s*\(([^;]*);")


def check_head(report, name, lines):
    start = 1 if lines and lines[0].startswith("#!") else 0
    head = (lines + ["", "", ""])[start:]
    if SPDX not in head[0]:
        report.add("spdx", name, start + 1, f"the first line is not {SPDX}")
        return
    if lint.is_c(name):
        purpose = head[1] if head[1].strip() not in ("/*", "/**") else head[2]
        words = re.sub(r"[/*\s]+", " ", purpose).split()
        if not head[1].lstrip().startswith("/*") or len(words) < 2:
            report.add("purpose", name, start + 2, "the second line does not say what it is for")


def check_lines(report, name, lines):
    if name.endswith((".c", ".cu", ".cpp")):
        if len(lines) > SOURCE_LINES:
            print(f"warning: {name}: {len(lines)} lines, more than {SOURCE_LINES}")
    elif len(lines) > FILE_LINES:
        report.add("length", name, len(lines), f"{len(lines)} lines, at most {FILE_LINES}")
    for number, line in enumerate(lines, 1):
        if len(line.expandtabs(TAB)) > COLUMNS:
            report.add("columns", name, number, f"wider than {COLUMNS} columns")
        if line != line.rstrip():
            report.add("space", name, number, "space at the end")
        if lint.is_c(name) and re.match(r" {8,}[^ *]", line):
            report.add("tabs", name, number, "indented by spaces")
        if re.search(r"\b(T[O]DO|F[I]XME|X[X]X)\b", line):
            report.add("open", name, number, "left open in the code")


def check_functions(report, name, lines):
    """Bodies at the margin, and of methods within a class; a class is no function."""
    for indent in ("", "\t"):
        begin, before = None, ""
        for number, line in enumerate(lines, 1):
            if line == indent + "{" and begin is None and not NO_FUNCTION.match(before):
                begin = number
            elif line.startswith(indent + "}") and begin is not None:
                if number - begin + 1 > FUNCTION_LINES:
                    report.add("function", name, begin, f"{number - begin + 1} lines in one "
                               f"function, at most {FUNCTION_LINES}")
                begin = None
            before = line


def check_texts(report, name, text):
    for found in CUTS.finditer(text):
        report.add("cut", name, lint.line_of(text, found.start()),
                   f"{found[1]}: text_format() of base/text.h, which cuts between words")


def check_library(report, name, text):
    for pattern, why in NEVER:
        for found in re.finditer(pattern, text):
            word = found[0].strip().rstrip("(").strip()
            report.add("never", name, lint.line_of(text, found.start()), f"{word}: {why}")
    for found in CLOEXEC.finditer(text):
        if not re.search(r"CLOEXEC|\bflags\b|\btype\b", found[2]):
            report.add("cloexec", name, lint.line_of(text, found.start()),
                       f"{found[1]}() without CLOEXEC")
    if name.startswith("src/") and name not in CLOSERS:
        for found in CLOSES.finditer(text):
            report.add("close", name, lint.line_of(text, found.start()),
                       "close(): sys_fd_close() of sys/fd.h, or its entry outlives it")
    if SENDS.search(text) and "MSG_NOSIGNAL" not in text:
        found = SENDS.search(text)
        report.add("nosignal", name, lint.line_of(text, found.start()),
                   f"{found[1]}() in a file that never says MSG_NOSIGNAL")
    for found in re.finditer(r"^static\b[^;{=\n]*?\b(tcpx_\w+)\s*\(", text, re.M):
        report.add("prefix", name, lint.line_of(text, found.start()),
                   f"{found[1]}: internal names never start with tcpx_")


def check_unique(report, names):
    """One file of a name, so that a name is a place. src/api/ mirrors the public headers."""
    seen = {}
    for name in names:
        if not lint.is_c(name) or name.startswith(("include/", "src/api/")):
            continue
        base = os.path.basename(name)
        if base in seen:
            report.add("unique", name, 1, f"the same file name as {seen[base]}")
        seen.setdefault(base, name)


def main():
    root = lint.options(__doc__).root
    report = lint.Report("style", root)
    names = [name for name in lint.tree(root)
             if name.split("/")[0] in SOURCES + ("scripts", ".ci") or name == "Makefile"]
    check_unique(report, names)
    for name in names:
        script = name.endswith((".py", ".sh")) or name in ("Makefile", ".ci/run") or \
            name.startswith("scripts/compat/tests/")
        if not (lint.is_c(name) or script or name.endswith("meson.build")):
            continue
        report.checked += 1
        text = lint.read(root, name)
        lines = text.splitlines()
        check_head(report, name, lines)
        if not name.endswith("meson.build"):
            check_lines(report, name, lines)
        if not lint.is_c(name):
            continue
        if not text.endswith("\n"):
            report.add("space", name, len(lines), "no newline at the end")
        plain = lint.bare(text)
        check_functions(report, name, plain.splitlines())
        if name.startswith("src/"):
            check_library(report, name, plain)
        if name.startswith(("src/", "tools/")):
            check_texts(report, name, plain)
    report.end()


if __name__ == "__main__":
    main()
