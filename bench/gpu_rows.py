#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every row of 'tcpx perf' that a machine with GPUs should show, again and again, into a file.

Each repetition runs everything once in random order, so that what the machine does meanwhile hits
all alike. The file holds each row of each run; gpu_table.py makes ratios of it."""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

KIB, MIB = 1 << 10, 1 << 20
SIZES = [4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB]
HANG = 180 # a guard, never a verdict
# Between GPUs a window is long enough that its start and its end do not show.
LONG = ["--working-set", "2G"]


class Case:
    """One run of perf, or several at once; name says what it is for gpu_table.py."""

    def __init__(self, name, *ends, gpus=1, args=(), seconds=0.25):
        self.name, self.ends, self.gpus = name, ends, gpus
        self.args, self.seconds = list(args), seconds

    def commands(self, tool):
        for local, remote in self.ends:
            yield [tool, "perf", "--loopback", "--mem", local, "--remote-mem", remote,
                   "--time", str(self.seconds), "--timeout", str(HANG), *self.args]


def sizes(*values):
    return ["--size", ",".join(map(str, values))]


def main_cases(ends, short):
    """WRITE and READ by size and depth, scattered lists."""
    pick = [MIB, 16 * MIB, 64 * MIB] if short else SIZES
    tcp = ["--transport", "tcp", "--ceiling", *LONG]
    for op in ("write", "read"):
        for depth in (1, 4, 8):
            yield Case(f"{op} depth {depth}", ends,
                       args=[*tcp, "--op", op, "--depth", str(depth), *sizes(*pick)])
        for piece, count in ((64 * KIB, 1024), (4 * KIB, 16384)):
            yield Case(f"{op} scattered {piece // KIB}K x {count}", ends,
                       args=[*tcp, "--op", op, "--depth", "4", "--batch", str(count),
                             *sizes(piece * count)])


def other_cases(gpus, ends, short):
    """Mixes with host memory, the local transport, both directions, latency."""
    tcp = ["--transport", "tcp", "--ceiling", "--depth", "4", *sizes(64 * MIB)]
    first = ends[0]
    for op in ("write",) if short else ("write", "read"):
        yield Case(f"{op} host to GPU" if op == "write" else f"{op} GPU to host",
                   ("host", first), args=[*tcp, "--op", op])
        yield Case(f"{op} GPU to host" if op == "write" else f"{op} host to GPU",
                   (first, "host"), args=[*tcp, "--op", op])
    yield Case("host to host", ("host", "host"), args=tcp)
    local = ["--transport", "local", "--ceiling", "--depth", "4", *sizes(64 * MIB, 256 * MIB)]
    # As long at 400 GB/s; and the first transfers are staged, until the peer has opened the memory.
    yield Case("local GPU to GPU", ends, args=[*local, "--working-set", "8G"], seconds=1)
    yield Case("local host to GPU", ("host", first), args=local)
    yield Case("local GPU to host", (first, "host"), args=local)
    yield Case("both directions", ends, args=[*tcp, *LONG, "--bidir"])
    for poll in ([], ["--busy-poll"]):
        name = "pingpong spinning" if poll else "pingpong sleeping"
        for transport in ("tcp", "local"):
            yield Case(f"{name} {transport}", ends, seconds=0.5,
                       args=["--transport", transport, "--op", "pingpong", "--ceiling",
                             *sizes(8, 64), *poll])
    if gpus >= 2:
        yield Case("same GPU", (first, first), args=[*tcp, *LONG])


def wide_cases():
    """More than one pair at once; several processes, so their windows only roughly coincide."""
    args = ["--transport", "tcp", "--depth", "4", *LONG, *sizes(64 * MIB)]
    ring = [(f"cuda:{i}", f"cuda:{(i + 1) % 4}") for i in range(4)]
    yield Case("two pairs at once", ("cuda:0", "cuda:1"), ("cuda:2", "cuda:3"), gpus=4,
               args=args, seconds=2)
    yield Case("ring of four", *ring, gpus=4, args=args, seconds=2)


def cases(gpus, short):
    ends = ("cuda:0", "cuda:1" if gpus >= 2 else "cuda:0")
    return [*main_cases(ends, short), *other_cases(gpus, ends, short), *wide_cases()]


BYTES = {"K": KIB, "M": MIB, "G": 1 << 30, "T": 1 << 40, "": 1}


def from_table(text):
    """The rows of a tool that was built without JSON."""
    ceilings = {"tcp": None, "d2h": None, "h2d": None, "peer": None}
    names = {"by the copy engine, GPU to host": "d2h", "by the copy engine, host to GPU": "h2d",
             "by a copy from GPU to GPU": "peer"}
    rows = []
    for line in text.splitlines():
        found = re.match(r"# ceiling: ([\d.]+) GB/s (by .*)$", line)
        if found:
            name = "tcp" if "plain sockets" in found[2] else names[found[2]]
            ceilings[name] = float(found[1]) * 1e9
            continue
        found = re.match(r" +(\d+)([KMGT]?) +(\d+) +" + r"([\d.]+|-) +" * 6 + r"(\d+|-)$", line)
        if not found:
            continue
        size, unit, iters, took, rate, p50, p99, cpu, share, wrong = found.groups()
        row = {"size": int(size) * BYTES[unit], "iters": int(iters), "ceilings": ceilings,
               "bytes_per_second": float(rate) * 1e9, "wrong_bytes": int(wrong),
               "time": {"mean": float(took) / 1e6, "p50": float(p50) / 1e6,
                        "p99": float(p99) / 1e6}}
        if cpu != "-":
            row["cpu_seconds_per_gb"] = {"local": float(cpu), "remote": 0}
        if share != "-" and float(share) and ceilings["tcp"]:
            row["ceiling_bytes_per_second"] = row["bytes_per_second"] * 100 / float(share)
        elif share != "-": # of a ping-pong
            row["ceiling_one_way"] = row["time"]["p50"] * float(share) / 100
        rows.append(row)
    return rows


class Runner:
    """Runs cases with one tool."""

    def __init__(self, tool):
        self.tool = tool
        self.json = not subprocess.run([tool, "version", "--json", "-"], capture_output=True,
                                       check=False).returncode

    def rows(self, done, path):
        if not self.json:
            return from_table(done)
        with open(path, encoding="utf-8") as f:
            return json.load(f)["results"]

    def run(self, case):
        """[rows of each process] or the text of the failure."""
        with tempfile.TemporaryDirectory() as folder:
            paths, running = [], []
            for i, command in enumerate(case.commands(self.tool)):
                paths.append(os.path.join(folder, str(i)))
                more = ["--json", paths[-1]] if self.json else []
                running.append(subprocess.Popen([*command, *more], stdout=subprocess.PIPE,
                                                stderr=subprocess.PIPE, text=True))
            outs = [process.communicate() for process in running]
            for process, (_, err) in zip(running, outs):
                if process.returncode:
                    return f"exit {process.returncode}: {err.strip()[-300:]}"
            return [self.rows(out, path) for (out, _), path in zip(outs, paths)]


def options():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tool", required=True, help="the tcpx binary")
    p.add_argument("--gpus", type=int, required=True, help="how many there are")
    p.add_argument("--out", required=True, metavar="FILE", help="every row, as JSON")
    p.add_argument("--repeat", type=int, default=5, help="repetitions [5]")
    p.add_argument("--short", action="store_true", help="fewer sizes and depths")
    p.add_argument("--limit", type=float, default=0, metavar="S",
                   help="begin nothing more after so many seconds")
    p.add_argument("--only", metavar="TEXT", help="cases whose name holds it")
    return p.parse_args()


def main():
    args = options()
    end = time.time() + args.limit if args.limit else float("inf")
    runner = Runner(args.tool)
    chosen = [c for c in cases(args.gpus, args.short) if not args.only or args.only in c.name]
    left_out = [c.name for c in chosen if c.gpus > args.gpus]
    chosen = [c for c in chosen if c.gpus <= args.gpus]
    result = {"gpus": args.gpus, "repeat": args.repeat, "short": args.short, "left_out": left_out,
              "runs": [], "problems": {}}
    for name in left_out:
        print(f"left out: {name} (not enough GPUs)", file=sys.stderr)
    for index in range(args.repeat):
        order = list(chosen)
        random.Random(index).shuffle(order)
        for case in order:
            if time.time() > end or case.name in result["problems"]:
                continue
            rows = runner.run(case)
            if isinstance(rows, str): # it would fail again
                result["problems"][case.name] = rows
                print(f"{case.name}: {rows}", file=sys.stderr)
            else:
                result["runs"].append({"case": case.name, "repetition": index, "rows": rows})
        print(f"repetition {index + 1} of {args.repeat}", file=sys.stderr)
    result["complete"] = time.time() <= end
    with open(args.out, "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
    return int(bool(result["problems"]))


if __name__ == "__main__":
    sys.exit(main())
