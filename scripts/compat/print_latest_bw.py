#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Table of the newest logs: for each GPU what server and client said last, and the averages.

usage: print_latest_bw.py [DIR] [GPU,...]     DIR: default $LOG_DIR, else logs
Reads logs of run_p2p_fullmesh.sh, run_p2p_singleproc.sh and bench_p2p.sh, and those of the
predecessor. GB/s are 10^9 bytes; what an older log counted in 2^30 is converted and has a '*'.
"""
import os
import pathlib
import re
import sys

AVERAGE = re.compile(r"\[PERF\]\s*Avg(?:\s*\([^)]*\))?:\s*([\d.]+)\s*ms,\s*BW:\s*([\d.]+)\s*GB/s")
GPU = re.compile(r"\[PERF\]\s*GPU:\s*(\d+)")
NAME = re.compile(r"(?:fullmesh|singleproc|bench)_(server|client)_(?:gpu(\d+)_)?.*\.log$")
DECIMAL = re.compile(r"10\^9 bytes")
GIBI = 2 ** 30 / 1e9
ROLES = ("server", "client")


def fail(text):
    print(f"print_latest_bw.py: {text}", file=sys.stderr)
    sys.exit(2)


def read_log(path, gpu):
    """{GPU: (ms, GB/s, is old)} of a log; gpu is that of its name, for lines before any other."""
    text = path.read_text(encoding="utf-8", errors="replace")
    old = not DECIMAL.search(text)
    found = {}
    for line in text.splitlines():
        named = GPU.search(line)
        average = AVERAGE.search(line)
        if named:
            gpu = int(named[1])
        elif average:
            rate = float(average[2])
            found[gpu or 0] = (float(average[1]), rate * GIBI if old else rate, old)
    return found


def newest(folder):
    """{(role, GPU): (ms, GB/s, is old, name)}, the newest log that says something."""
    logs = {}
    for path in sorted(folder.glob("*.log"), key=lambda one: (one.stat().st_mtime_ns, one.name)):
        name = NAME.match(path.name)
        if not name:
            continue
        for gpu, row in read_log(path, int(name[2]) if name[2] else None).items():
            logs[name[1], gpu] = (*row, path.name)
    return logs


def cells(row):
    if not row:
        return ["?", "?", "-"]
    return [f"{row[0]:.3f}", f"{row[1]:.2f}{'*' if row[2] else ''}", row[3]]


def averages(logs, role, gpus):
    rows = [logs[role, gpu] for gpu in gpus if (role, gpu) in logs]
    if not rows:
        return ["-", "-", "-"]
    return [f"{sum(row[0] for row in rows) / len(rows):.3f}",
            f"{sum(row[1] for row in rows) / len(rows):.2f}", "-"]


def main():
    args = sys.argv[1:]
    if args and args[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    if len(args) > 2 or (len(args) > 1 and not re.fullmatch(r"\d+(,\d+)*", args[1])):
        fail("usage: print_latest_bw.py [DIR] [GPU,...]")
    folder = pathlib.Path(args[0] if args else os.environ.get("LOG_DIR") or "logs")
    if not folder.is_dir():
        fail(f"there is no folder {folder}; name the one of the logs")
    logs = newest(folder)
    gpus = [int(gpu) for gpu in args[1].split(",")] if len(args) > 1 else \
        sorted({gpu for _, gpu in logs})
    if not gpus:
        print(f"print_latest_bw.py: no log in {folder} has a [PERF] Avg line", file=sys.stderr)
        return 1
    table = [["GPU"] + [f"{role.capitalize()} {what}" for role in ROLES
                        for what in ("Avg ms", "BW", "Log")]]
    table += [[str(gpu)] + [cell for role in ROLES for cell in cells(logs.get((role, gpu)))]
              for gpu in gpus]
    table += [["AVG"] + [cell for role in ROLES for cell in averages(logs, role, gpus)]]
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    table.insert(1, ["-" * width for width in widths])
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    if any(logs.get((role, gpu), (0, 0, False))[2] for role in ROLES for gpu in gpus):
        print("* an older log, which counted 2^30 bytes: converted to 10^9")
    return 0


if __name__ == "__main__":
    sys.exit(main())
