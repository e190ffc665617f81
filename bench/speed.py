#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures every line of the speed goals beside its yardstick and says which are met.

Needs the build, the peers it compares with, and root (network namespaces) or --own-network."""
import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time

import speed_env
import speed_lines
import store

HERE = os.path.dirname(os.path.abspath(__file__))
NOISE_CORES = 0.2 # other processes used more: the verdict says so


def options():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(os.path.dirname(HERE), "build"),
                   help="build folder [build]")
    p.add_argument("--repeat", type=int, help="repetitions [5; quick 2]")
    p.add_argument("--quick", action="store_true", help="2 repetitions, short runs")
    p.add_argument("--only", action="append", default=[], metavar="NAME",
                   choices=list(speed_lines.GROUPS), help="these groups of lines: "
                   + ", ".join(speed_lines.GROUPS))
    p.add_argument("--own-network", action="store_true",
                   help="without root: the lines over loopback, with the congestion control and "
                   "the neighbours of this network")
    p.add_argument("--limit", type=float, default=0, metavar="S",
                   help="begin no further measurement after so many seconds")
    p.add_argument("--json", metavar="FILE", help="all values of all repetitions")
    p.add_argument("--store", action="store_true", help="keep the lines in bench/results")
    p.add_argument("--markdown", metavar="FILE", help="the table [stdout]")
    return p.parse_args()


def measure(env, function, r, why):
    """One measurement; what fails is written down and its lines have no value."""
    try:
        function(env, r)
    except speed_env.Missing as e:
        why[function.__name__] = f"not measured: {e}"
    except (RuntimeError, OSError, ValueError, KeyError, IndexError,
            subprocess.TimeoutExpired, subprocess.CalledProcessError) as e:
        text = f"{type(e).__name__}: {e}"
        why[function.__name__] = "failed: " + text[:200]
        print(f"  {function.__name__}: {text}", file=sys.stderr)


def repetition(env, groups, index, why, end):
    r = {}
    shuffle = random.Random(index)
    order = [g for g in groups if not (index and g in speed_lines.ONCE)]
    shuffle.shuffle(order)
    for group in order:
        functions = list(speed_lines.GROUPS[group])
        shuffle.shuffle(functions)
        begin, busy, own = time.time(), speed_env.busy_seconds(), env.own_cpu()
        for function in functions:
            if time.time() < end:
                measure(env, function, r, why)
        seconds = time.time() - begin
        others = speed_env.busy_seconds() - busy - (env.own_cpu() - own)
        r[f"others.{group}"] = max(0.0, others / seconds)
        print(f"  {index + 1}: {group} {seconds:.0f} s, others used {r[f'others.{group}']:.2f} "
              "cores", file=sys.stderr)
        if time.time() >= end:
            break
    return r


def values_of(line, reps):
    out = []
    for r in reps:
        try:
            out.append(line.value(r))
        except (KeyError, ZeroDivisionError):
            pass
    return out


def judge(line, reps, why):
    """{line, must, median, least, most, n, verdict} of a line."""
    values = values_of(line, reps)
    row = {"group": line.group, "line": line.title, "n": len(values),
           "must": f"{line.sign} {line.must:g}" if line.sign else ""}
    if not values:
        reasons = [why[f.__name__] for f in speed_lines.GROUPS[line.group] if f.__name__ in why]
        return {**row, "verdict": reasons[0] if reasons else "not measured"}
    median = statistics.median(values)
    verdict = "for scale"
    if line.sign:
        met = median >= line.must if line.sign == "≥" else median <= line.must
        verdict = "pass" if met else "miss"
    others = [r[f"others.{line.group}"] for r in reps if f"others.{line.group}" in r]
    if statistics.median(others) > NOISE_CORES:
        verdict += ", noise"
    return {**row, "median": median, "least": min(values), "most": max(values),
            "verdict": verdict}


def validity(reps):
    """The rule: the ceiling of a run is near the independent program's and above iperf3's."""
    rows = []
    for name, base, must in (("ceiling of raw_tcp, 2 sockets", "raw2", 0.95),
                             ("ceiling of iperf3 -P 1", "iperf", 1.2)):
        values = [r["w4.64.ceil"] / r[base] for r in reps if "w4.64.ceil" in r and base in r]
        if values:
            median = statistics.median(values)
            rows.append({"rule": name, "must": must, "median": median, "least": min(values),
                         "most": max(values), "n": len(values), "valid": median >= must})
    return rows


def number(x):
    return f"{x:.3f}" if abs(x) < 10 else f"{x:.1f}"


def table(rows, rules, reps):
    out = ["| line | must | median | least … most | runs | |", "|---|---|---|---|---|---|"]
    for row in rows:
        if "median" in row:
            out.append(f"| {row['line']} | {row['must']} | {number(row['median'])} | "
                       f"{number(row['least'])} … {number(row['most'])} | {row['n']} | "
                       f"{row['verdict']} |")
        else:
            out.append(f"| {row['line']} | {row['must']} | – | – | 0 | {row['verdict']} |")
    out.append("")
    for rule in rules:
        out.append(f"Validity: {rule['rule']} {number(rule['median'])} "
                   f"({number(rule['least'])} … {number(rule['most'])}), must be ≥ "
                   f"{rule['must']}: {'valid' if rule['valid'] else '**not valid**'}")
    keys = ["raw1", "raw2", "iperf", "w4.64", "w4.64.ceil", "local.64", "veth.64", "veth.64.ceil",
            "hot.write", "hot.read", "mpi.64", "peers.1"]
    medians = {k: [r[k] for r in reps if k in r] for k in keys}
    text = ", ".join(f"{k} {statistics.median(v) / 1e9:.2f}" for k, v in medians.items() if v)
    out += ["", f"Medians in GB/s (10^9 bytes): {text}."] if text else []
    waits = {k: [r[k] * 1e6 for r in reps if k in r]
             for k in ("lat.sleep", "lat.sleep.plain", "lat.spin", "lat.spin.plain", "lat.notify",
                       "ping.block", "ping.spin", "beside.p50", "beside.p99")}
    text = ", ".join(f"{k} {statistics.median(v):.2f}" for k, v in waits.items() if v)
    out += ["", f"Medians in µs, one way: {text}."] if text else []
    others = [v for r in reps for k, v in r.items() if k.startswith("others.")]
    out += ["", f"Other processes used {statistics.median(others):.2f} cores meanwhile (median; at "
            f"most {max(others):.2f})."]
    return "\n".join(out) + "\n"


def stored(rows, groups):
    """{table: what store.keep() takes} of the lines, a table for each group."""
    return {f"speed-{group}": {
        "title": f"bench/speed.py, {group}", "columns": store.columns("line"),
        "rows": [[row["line"], *(round(row[key], 6) for key in ("median", "least", "most"))]
                 for row in rows if row["group"] == group and "median" in row],
        "repetitions": max([row["n"] for row in rows if row["group"] == group])}
            for group in groups if any(row["group"] == group and "median" in row for row in rows)}


def run(args):
    groups = args.only or list(speed_lines.GROUPS)
    env = speed_env.Env(os.path.abspath(args.build), args.quick, args.own_network)
    reps, why = [], {}
    end = time.time() + args.limit if args.limit else float("inf")
    try:
        env.open()
        for index in range(args.repeat or (2 if args.quick else 5)):
            if time.time() < end:
                reps.append(repetition(env, groups, index, why, end))
    finally:
        env.close()
    rows = [judge(line, reps, why) for line in speed_lines.lines() if line.group in groups]
    rules = validity(reps)
    text = table(rows, rules, reps)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"date": time.strftime("%Y-%m-%d %H:%M"), "lines": rows, "validity": rules,
                       "problems": why, "repetitions": reps}, f, indent=1, ensure_ascii=False)
    if args.store:
        store.keep(stored(rows, groups))
    if args.markdown:
        with open(args.markdown, "w", encoding="utf-8") as f:
            f.write(text)
    else:
        print(text)
    return any(not row["verdict"].startswith(("pass", "for scale")) for row in rows)


def main():
    args = options()
    if os.geteuid() and not args.own_network:
        print("speed.py: needs root for network namespaces, or --own-network", file=sys.stderr)
        return 2
    if not os.path.exists(os.path.join(args.build, "bench", "raw_tcp")):
        print(f"speed.py: no build in {args.build}: --build DIR", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1)) # namespaces go with us
    return int(run(args))


if __name__ == "__main__":
    sys.exit(main())
