#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference/environment.md from 'tcpx info --env' and errors.md from the status codes.

Usage: scripts/reference.py [--check] [TOOL]      TOOL: build/tcpx by default; it needs JSON
--check writes nothing and fails where a page is not what it would be."""
import argparse
import json
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STATUS = re.compile(r'^\tX\((\w+), (-?\d+), "([^"]*)", "([^"]*)"\)', re.M)
LOSSES = [(-1, "misuse of the call"), (-20, "resources of this process"), (-40, "one request"),
          (-60, "a channel"), (-70, "the peer"), (-90, "the session")]


HEAD_ENVIRONMENT = """# Environment

Every option is a variable. A command-line flag or a field of `tcpx_session_opts` wins over the
variable, the variable over its older names (aliases). `tcpx info --env` lists all of them with the
value in force and names unknown ones with the nearest; NIXL takes them as parameters in lower
case without `TCPX_`. Sizes take K, M and G, powers of 1024.

This page is written by `scripts/reference.py` from `tcpx info --env`.

| variable | default | range | meaning | aliases |
|---|---|---|---|---|"""
HEAD_ERRORS = """# Error codes

Every function returns a `tcpx_status`: 0 is success, 1 means that a wait is over and the
operation is not, negative values are errors in ranges by what is lost. `tcpx_last_error()` and
`tcpx_request_error()` name what failed, the values and the next step (`man 3 tcpx_log`).

This page is written by `scripts/reference.py` from `include/tcpx/types.h`.

| code | value | text | next step |
|---|--:|---|---|"""


def cell(text):
    return text.replace("|", "\\|")


def environment(tool):
    env = {name: value for name, value in os.environ.items()
           if not re.match("(UCCL_)?TCPX_|NCCL_", name)}
    done = subprocess.run([tool, "info", "--json", "-"], env=env, check=True, text=True,
                          capture_output=True)
    out = [HEAD_ENVIRONMENT]
    for row in json.loads(done.stdout)["options"]:
        alias = " ".join(f"`{name}`" for name in row["alias"].split())
        default = f"`{row['default']}`" if row["default"] else "empty"
        out.append(f"| `{row['name']}` | {default} | {cell(row['range'])} | {cell(row['help'])} | "
                   f"{alias} |")
    return "\n".join(out) + "\n"


def errors():
    with open(os.path.join(TOP, "include/tcpx/types.h"), encoding="utf-8") as file:
        rows = STATUS.findall(file.read())
    out = [HEAD_ERRORS]
    for name, value, text, step in rows:
        for first, what in LOSSES:
            if int(value) == first:
                out.append(f"| **{what}** | | | |")
        out.append(f"| `TCPX_{name}` | {value} | {text} | {step} |")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("tool", nargs="?", default=os.path.join(TOP, "build/tcpx"))
    args = parser.parse_args()
    stale = 0
    for name, text in (("environment", environment(args.tool)), ("errors", errors())):
        page = f"docs/reference/{name}.md"
        path = os.path.join(TOP, page)
        have = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                have = file.read()
        if have != text:
            stale += 1
            print(f"{page}: {'stale; run scripts/reference.py' if args.check else 'written'}")
            if not args.check:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
