#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each emulator exports one table and tcpxemu_* alone, and needs no driver to be loaded.

Usage: emu_exports.py LIBRARY...
"""
import re
import subprocess
import sys

OWN = {"tcpxemu_get_gpu", "tcpxemu_set_gpu", "tcpxemu_stats", "tcpxemu_stats_wait",
       "tcpxemu_violations", "tcpxemu_write_stats"}


def lines(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()


def main():
    wrong = []
    for path in sys.argv[1:]:
        version = re.search(r"-v(\d+)\.so$", path)
        table = f"ncclNetPlugin_v{version[1] if version else 7}"
        names = {line.split()[-1] for line in lines("nm", "-D", "--defined-only", path)}
        if names != OWN | {table}:
            wrong.append(f"{path}: exports {sorted(names ^ (OWN | {table}))}")
        for line in lines("readelf", "-d", path):
            if "(NEEDED)" in line and re.search(r"cuda|nvidia", line):
                wrong.append(f"{path}: {line.strip()}")
    print("\n".join(wrong))
    sys.exit(1 if wrong or len(sys.argv) < 2 else 0)


if __name__ == "__main__":
    main()
