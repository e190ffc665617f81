#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ratios of what bench/gpu_all.sh measured: its folder in, a table out (markdown, on stdout).

A line is the median of its ratios, one for each repetition; both sides of a ratio are of the same
repetition. perf.json is of gpu_rows.py, nccl.jsonl (where there is one) of nccl_p2p.py."""
import json
import os
import re
import statistics
import sys

import store

KIB, MIB = 1 << 10, 1 << 20
SIZES = {4 * KIB: "4 KiB", 64 * KIB: "64 KiB", MIB: "1 MiB", 16 * MIB: "16 MiB",
         64 * MIB: "64 MiB", 256 * MIB: "256 MiB"}
# least share of the ceiling by (size, depth)
SHARES = {(64 * MIB, 4): 0.93, (64 * MIB, 8): 0.93, (256 * MIB, 4): 0.93, (256 * MIB, 8): 0.93,
          (64 * MIB, 1): 0.85, (256 * MIB, 1): 0.85, (16 * MIB, 8): 0.75, (MIB, 8): 0.4}


def load(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        if name.endswith(".jsonl"):
            return [json.loads(line) for line in f]
        return json.load(f)


class Perf:
    """Rows by case, size and repetition."""

    def __init__(self, document):
        self.rows, self.sums = {}, {}
        for run in document["runs"]:
            for row in run["rows"][0]:
                self.rows[run["case"], row["size"], run["repetition"]] = row
            self.sums.setdefault(run["case"], []).append(
                sum(rows[0]["bytes_per_second"] for rows in run["rows"]))
        self.repetitions = sorted({key[2] for key in self.rows})

    def values(self, function, *cells):
        """function(row, ...) of each repetition that has all the cells (case, size)."""
        out = []
        for index in self.repetitions:
            rows = [self.rows.get((*cell, index)) for cell in cells]
            if all(rows):
                try:
                    out.append(function(*rows))
                except (KeyError, TypeError, ZeroDivisionError):
                    pass # not measured
        return out


def rate(row):
    return row["bytes_per_second"]


def share(row):
    return rate(row) / row["ceiling_bytes_per_second"]


def of_peer(row):
    return rate(row) / row["ceilings"]["peer"]


def cpu(row):
    return sum(row["cpu_seconds_per_gb"].values())


def ratio(a, b):
    return rate(a) / rate(b)


class Table:
    """Markdown, row by row."""

    def __init__(self):
        self.lines, self.missed, self.kept = [], 0, {}

    def head(self, title, unit):
        self.kept[title] = []
        self.lines += ["", f"### {title}", "", f"| line | must | median | least … most | {unit} | "
                       "runs | |", "|---|---|---|---|---|---|---|"]

    def add(self, title, values, must="", absolute=()):
        """must: '>= 0.9', '<= 0.4' or nothing."""
        if not values:
            if must:
                self.lines.append(f"| {title} | {must} | – | – | – | 0 | not measured |")
            return
        median, verdict = statistics.median(values), "for scale"
        if must:
            sign, bound = must.split()
            met = median >= float(bound) if sign == ">=" else median <= float(bound)
            verdict = "pass" if met else "miss"
            self.missed += not met
        scale = f"{statistics.median(absolute):.2f}" if absolute else ""
        self.kept[list(self.kept)[-1]].append(
            [title, *store.spread(values),
             round(statistics.median(absolute), 6) if absolute else None])
        self.lines.append(f"| {title} | {must} | {median:.3f} | {min(values):.3f} … "
                          f"{max(values):.3f} | {scale} | {len(values)} | {verdict} |")

    def text(self):
        return "\n".join(self.lines) + "\n"


def gb(perf, *cell):
    return [value / 1e9 for value in perf.values(rate, cell)]


def contiguous(table, perf):
    for op in ("write", "read"):
        table.head(f"GPU to GPU, {op.upper()}, tcp, of the ceiling", "GB/s")
        for depth in (1, 4, 8):
            for size, name in SIZES.items():
                cell = (f"{op} depth {depth}", size)
                must = SHARES.get((size, depth))
                table.add(f"{name} x {depth}", perf.values(share, cell),
                          f">= {must}" if must else "", gb(perf, *cell))


def costs(table, perf):
    table.head("CPU seconds per GB, both ends; READ of WRITE", "GB/s")
    for depth in (4, 8):
        cell = (f"write depth {depth}", 64 * MIB)
        table.add(f"CPU s/GB, 64 MiB x {depth}", perf.values(cpu, cell), "<= 0.40",
                  gb(perf, *cell))
    for size in (MIB, 16 * MIB, 64 * MIB, 256 * MIB):
        cells = ("read depth 4", size), ("write depth 4", size)
        table.add(f"READ of WRITE, {SIZES[size]} x 4", perf.values(ratio, *cells),
                  ">= 0.9" if size >= 64 * MIB else "", gb(perf, *cells[0]))


def scattered(table, perf):
    table.head("scattered lists, of one piece of 64 MiB x 4", "GB/s")
    for op in ("write", "read"):
        for name, must in (("64K x 1024", 0.9), ("4K x 16384", 0.85)):
            cell = (f"{op} scattered {name}", 64 * MIB)
            table.add(f"{op.upper()} {name}",
                      perf.values(ratio, cell, (f"{op} depth 4", 64 * MIB)), f">= {must}",
                      gb(perf, *cell))


def mixes(table, perf):
    table.head("with host memory, both directions, local transport", "GB/s")
    for op in ("write", "read"):
        for way in ("host to GPU", "GPU to host"):
            cell = (f"{op} {way}", 64 * MIB)
            table.add(f"{op.upper()} {way}, of the ceiling", perf.values(share, cell),
                      ">= 0.9" if op == "write" else "", gb(perf, *cell))
    for title in ("host to host", "both directions", "same GPU"):
        table.add(f"{title}, of the ceiling", perf.values(share, (title, 64 * MIB)), "",
                  gb(perf, title, 64 * MIB))
    for size in (64 * MIB, 256 * MIB):
        cell = ("local GPU to GPU", size)
        values = perf.values(of_peer, cell)
        table.add(f"local GPU to GPU, {SIZES[size]}, of a peer copy", values,
                  ">= 0.9" if values and size == 256 * MIB else "", gb(perf, *cell))
        if not values:
            table.add(f"local GPU to GPU, {SIZES[size]}, of the ceiling",
                      perf.values(share, cell), "", gb(perf, *cell))
        for way in ("host to GPU", "GPU to host"):
            cell = (f"local {way}", size)
            table.add(f"local {way}, {SIZES[size]}, of the ceiling", perf.values(share, cell), "",
                      gb(perf, *cell))
    for title in ("two pairs at once", "ring of four"):
        one = gb(perf, "write depth 4", 64 * MIB)
        if one and title in perf.sums:
            sums = [value / 1e9 for value in perf.sums[title]]
            table.add(f"{title}, of one pair",
                      [value / statistics.median(one) for value in sums], "", sums)


def latency(table, perf, nccl):
    table.head("ping-pong of WRITE with a notification: round trip, us", "of a plain socket")
    for kind in ("sleeping", "spinning"):
        for transport in ("tcp", "local"):
            for size in (8, 64):
                cell = (f"pingpong {kind} {transport}", size)
                trips = perf.values(lambda row: 2e6 * row["time"]["p50"], cell)
                plain = perf.values(lambda row: row["time"]["p50"] / row["ceiling_one_way"], cell)
                table.add(f"{kind}, {transport}, {size} B", trips, "", plain)
    theirs = [line["rtt_us_p50"] for line in nccl if line["mode"] == "pingpong"]
    if theirs:
        table.add("NCCL, 8 to 64 B, the best", [min(theirs)])
        ours = perf.values(lambda row: 2e6 * row["time"]["p50"] / min(theirs),
                           ("pingpong spinning tcp", 8))
        table.add("ours, spinning over tcp, of NCCL's", ours, "<= 1.0")


def beside_nccl(table, perf, nccl):
    """Windows of 8, separate or grouped, against depth 8."""
    table.head("of NCCL's socket transport, WRITE, depth 8", "NCCL GB/s")
    for size, name in SIZES.items():
        lines = [line for line in nccl if line["bytes"] == size and
                 line["mode"] in ("separate", "grouped")]
        for title, some, must in (
                ("default", [line for line in lines if line["label"] == "default"], 10),
                ("best tuning", lines, 1.25)):
            if not some:
                continue
            best = max(line["gb_per_s"] for line in some)
            table.add(f"{name}, {title}",
                      perf.values(lambda row, best=best: rate(row) / 1e9 / best,
                                  ("write depth 8", size)),
                      f">= {must}" if size >= 64 * MIB else "", [best])


def main():
    keep = "--store" in sys.argv
    rest = [word for word in sys.argv[1:] if word != "--store"]
    if len(rest) != 1 or rest[0].startswith("-"):
        print("usage: gpu_table.py [--store] FOLDER", file=sys.stderr)
        return 2
    folder = rest[0]
    document = load(folder, "perf.json")
    if not document:
        print(f"gpu_table.py: no perf.json in {folder}: run bench/gpu_all.sh", file=sys.stderr)
        return 2
    perf, nccl = Perf(document), load(folder, "nccl.jsonl") or []
    table = Table()
    table.lines.append(f"{document['gpus']} GPUs, {len(perf.repetitions)} repetitions"
                       + ("" if document.get("complete", True) else ", cut short by --limit"))
    if document["gpus"] == 1:
        table.lines.append("\nBoth ends on the one GPU: its bus carries both directions at once.")
    contiguous(table, perf)
    costs(table, perf)
    scattered(table, perf)
    mixes(table, perf)
    latency(table, perf, nccl)
    if nccl:
        beside_nccl(table, perf, nccl)
    else:
        table.lines += ["", "NCCL: not measured."]
    for name in document["left_out"]:
        table.lines.append(f"\nLeft out, not enough GPUs: {name}.")
    for name, why in document["problems"].items():
        table.lines.append(f"\nFailed: {name}: {why}")
    print(table.text())
    if keep:
        store.keep({re.sub(r"\W+", "-", title.lower()): {
            "title": title, "rows": rows, "repetitions": len(perf.repetitions),
            "columns": store.columns("line") + [{"name": "absolute", "digits": 2}]}
                    for title, rows in table.kept.items() if rows})
    return int(bool(table.missed or document["problems"]))


if __name__ == "__main__":
    sys.exit(main())
