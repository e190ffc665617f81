#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NCCL's socket transport between two GPUs of this host, as it comes and tuned, as one table.

Runs bench/nccl_p2p once with NCCL's defaults and once for each cell of a grid (channels, helper
threads x sockets, chunk), and prints per size the default, the best cell and what it costs.
Exit: 0; 77 when NCCL, the driver or a second GPU is missing; 1 when the default could not be
measured.
"""
import argparse
import glob
import itertools
import json
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ABSENT = 77
CHANNELS = [2, 4, 8]
SOCKETS = [None, (1, 4), (2, 2), (4, 1), (4, 4)]  # helper threads, sockets of each
CHUNKS = [128 << 10, 512 << 10, 2 << 20]
# A few from different corners, for a look of a minute: not what the best tuning is to be named by.
SHORT = [(4, (2, 2), 512 << 10), (4, (4, 1), 512 << 10), (8, (1, 4), 512 << 10),
         (8, (2, 2), 2 << 20), (8, None, 512 << 10), (8, None, 2 << 20)]


def setting(channels, sockets, chunk):
    """Label and environment of a cell. A chunk is clipped to an eighth of the buffer."""
    env = {"NCCL_NCHANNELS_PER_NET_PEER": channels, "NCCL_MIN_P2P_NCHANNELS": channels,
           "NCCL_P2P_NET_CHUNKSIZE": chunk, "NCCL_BUFFSIZE": max(4 << 20, chunk * 8)}
    if sockets:
        env["NCCL_SOCKET_NTHREADS"], env["NCCL_NSOCKS_PERTHREAD"] = sockets
    text = f"{sockets[0]}x{sockets[1]}" if sockets else "auto"
    label = f"{channels} channels, {text} sockets, {chunk >> 10}K chunks"
    return label, {name: str(value) for name, value in env.items()}


def find_nccl():
    """The library of a wheel, where the loader knows none."""
    for place in sys.path:
        found = glob.glob(os.path.join(place, "nvidia/nccl/lib/libnccl.so.2"))
        if found:
            return found[0]
    return None


def run(args, label, env, modes, out):
    """Rows of one setting; None where it failed. Exits when there is nothing to measure on."""
    argv = [args.binary, "--sizes", args.sizes, "--reps", str(args.reps), "--volume", args.volume,
            "--modes", modes, "--label", label, "--timeout", str(args.timeout)]
    argv += ["--nccl", args.nccl] if args.nccl else []
    argv += ["--gpus", args.gpus] if args.gpus else []
    done = subprocess.run(argv, env={**os.environ, **env}, text=True, capture_output=True)
    if done.returncode == ABSENT:
        if not args.nccl and "no NCCL" in done.stderr and find_nccl():
            args.nccl = find_nccl()
            return run(args, label, env, modes, out)
        print(done.stderr.strip(), file=sys.stderr)
        sys.exit(ABSENT)
    if out:
        out.write(done.stdout)
        out.flush()
    if done.returncode:
        why = done.stderr.strip().splitlines()
        print(f"{label}: failed: {'; '.join(why[:3])}", file=sys.stderr)
        return None
    return [json.loads(line) for line in done.stdout.splitlines()]


def size_text(size):
    for shift, unit in ((30, "G"), (20, "M"), (10, "K")):
        if size >> shift and not size & ((1 << shift) - 1):
            return f"{size >> shift}{unit}"
    return str(size)


def best(rows, size, modes=("separate", "grouped")):
    found = [row for row in rows if row["bytes"] == size and row["mode"] in modes]
    return max(found, key=lambda row: row["gb_per_s"]) if found else None


def cell(row):
    if not row:
        return f"{'-':>8} {'-':>7}"
    return f"{row['gb_per_s']:8.2f} {row['cpu_s_per_gb']:7.3f}"


def table(default, tuned):
    sizes = sorted({row["bytes"] for row in default + tuned if "gb_per_s" in row})
    print("GB/s (10^9 bytes, delivered) and CPU seconds per GB of both ranks; windows of 8, the "
          "better of separate calls and groups")
    print(f"{'size':>6} | {'default':>8} {'cpu':>7} | {'single':>8} {'cpu':>7} | "
          f"{'tuned':>8} {'cpu':>7} | ratio | setting")
    for size in sizes:
        plain, one, top = best(default, size), best(default, size, ("single",)), best(tuned, size)
        ratio = f"{top['gb_per_s'] / plain['gb_per_s']:5.2f}" if top and plain else "    -"
        print(f"{size_text(size):>6} | {cell(plain)} | {cell(one)} | {cell(top)} | {ratio} | " +
              (f"{top['label']}, {top['mode']}" if top else "-"))
    for row in default + tuned:
        if row["mode"] == "pingpong":
            print(f"ping-pong of {row['bytes']} B, {row['label']}: p50 {row['rtt_us_p50']:.1f} us "
                  f"there and back, p99 {row['rtt_us_p99']:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=os.path.join(TOP, "build/bench/nccl_p2p"))
    parser.add_argument("--nccl", help="path of libnccl.so.2")
    parser.add_argument("--gpus", help="A,B: ordinals of sender and receiver")
    parser.add_argument("--sizes", default="64K,1M,16M,64M,256M")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--volume", default="1G", help="bytes of a repetition")
    parser.add_argument("--grid", choices=["full", "short", "none"], default="full")
    parser.add_argument("--timeout", type=int, default=120, help="seconds of a setting")
    parser.add_argument("--out", help="file for the rows, JSON lines")
    args = parser.parse_args()
    cells = {"full": list(itertools.product(CHANNELS, SOCKETS, CHUNKS)), "short": SHORT,
             "none": []}[args.grid]
    out = open(args.out, "w", encoding="utf-8") if args.out else None
    default = run(args, "default", {}, "separate,grouped,single,pingpong", out) or []
    tuned = run(args, "LL buffers", {"NCCL_ALLOC_P2P_NET_LL_BUFFERS": "1"}, "pingpong", out) or []
    for number, one in enumerate(cells, 1):
        label, env = setting(*one)
        rows = run(args, label, env, "separate,grouped", out) or []
        tuned += rows
        if sys.stderr.isatty():
            print(f"{number} of {len(cells)}", end="\r", file=sys.stderr)
    if out:
        out.close()
    table(default, tuned)
    return 0 if default else 1


if __name__ == "__main__":
    sys.exit(main())
