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
STATUS = re.compile(r'^\tX\((\w+), (-?\d+), "([^"]*)",[\s\\]+"([^"]*)"\)', re.M)
LOSSES = [(-1, "misuse of the call"), (-20, "resources of this process"), (-40, "one request"),
          (-60, "a channel"), (-70, "the peer"), (-90, "the session")]


# Purposes in the order of the page, each with a pattern of the names without TCPX_. The first that
# matches counts.
GROUPS = [
    ("NIXL", r"NIXL_"),
    ("Logs, traces and measurements", r"LOG|TRACE|PERF|RECIPE_FILE"),
    ("Launchers", r"RANK|SIZE|LOCAL_RANK|LOCAL_SIZE|JOB|RENDEZVOUS|HOSTFILE"),
    ("Security", r"KEY_FILE|IDENTITY_FILE|CRYPTO_LIBRARY|PLUGIN_TRUST_PEERS"),
    ("ncclNet plugins and GPUDirect-TCPX",
     r"PLUGIN|NIC|PAIRING|GPUDIRECT|DEVMEM|MESSAGE|MAX_(SEND|RECV)|UNPACK|HOST_RECV|LOCAL_DEVICE|"
     r"SYSFS"),
    ("Addresses and ports", r"BIND|PORT_|OOB_PORT|SOURCE_PORTS|ADVERTISE|CTRL_IP"),
    ("The same host", r"LOCAL$|ONE_COPY|GPU_PEER|GPU_SMS"),
    ("GPU memory", r"STAGING|CUDA_LIBRARY|NVML_LIBRARY|GPU_COPY|SPIN_US"),
    ("Failures and limits", r"\w+_MS$|MAX_PEERS|\w+_BUDGET_BYTES|STRICT_CANCEL"),
    ("Speed", r"CHANNELS|CHUNK_BYTES|WORKERS|PIN|INLINE_BYTES|BUSY_POLL|TCP_SPLICE|CONGESTION"),
]
SHOWN = ["Addresses and ports", "Security", "Speed", "The same host", "GPU memory",
         "Failures and limits", "NIXL", "ncclNet plugins and GPUDirect-TCPX", "Launchers",
         "Logs, traces and measurements"]
HEAD_ENVIRONMENT = """# Environment

Every option is a variable. A command-line flag or a field of `tcpx_session_opts` wins over the
variable, the variable over its older names (aliases). `tcpx info --env` lists all of them with the
value in force and names unknown ones with the nearest; NIXL takes them as parameters in lower
case without `TCPX_`. Sizes take K, M and G, powers of 1024.

This page is written by `scripts/reference.py` from `tcpx info --env`."""
HEAD_OPTIONS = """| variable | default | range | meaning | aliases |
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


def group_of(name):
    for title, pattern in GROUPS:
        if re.match(pattern, name.removeprefix("TCPX_")):
            return title
    raise SystemExit(f"{name} is in no group: add it to GROUPS in scripts/reference.py")


def environment(tool):
    env = {name: value for name, value in os.environ.items()
           if not re.match("(UCCL_)?TCPX_|NCCL_", name)}
    done = subprocess.run([tool, "info", "--json", "-"], env=env, check=True, text=True,
                          capture_output=True)
    groups = {title: [] for title in SHOWN}
    for row in json.loads(done.stdout)["options"]:
        alias = " ".join(f"`{name}`" for name in row["alias"].split())
        default = f"`{row['default']}`" if row["default"] else "empty"
        groups[group_of(row["name"])].append(
            f"| `{row['name']}` | {default} | {cell(row['range'])} | {cell(row['help'])} | "
            f"{alias} |")
    out = [HEAD_ENVIRONMENT]
    for title, rows in groups.items():
        out += ["", f"## {title}", "", HEAD_OPTIONS, *rows]
    return "\n".join(out) + "\n"


def errors():
    with open(os.path.join(TOP, "include/tcpx/types.h"), encoding="utf-8") as file:
        text = file.read()
    rows = STATUS.findall(text)
    if len(rows) != len(re.findall(r"^\tX\(\w+, -?\d+, ", text, re.M)):
        sys.exit("scripts/reference.py: a row of the status codes is not understood")
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
