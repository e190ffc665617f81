#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tcpx node costs as it grows: channels between two ranks, and ranks with a channel between
any two. For each: time to READY, and of rank 0 at rest threads, descriptors, memory, CPU.

Usage: bench/node_cost.py [--tool FILE] [--channels LIST] [--ranks LIST] [--repeat N]
       [--rest SECONDS] [--json FILE] [--plot FILE.svg]
Rank 0 is at rest while the others are stopped (SIGSTOP): its channels are up and nothing moves.
A channel's share of memory and descriptors is the slope from the smallest run of its table.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import store

HANG = 300
TICKS = os.sysconf("SC_CLK_TCK")


def proc(pid, name):
    return pathlib.Path(f"/proc/{pid}/{name}").read_text(encoding="ascii", errors="replace")


def field(pid, name):
    return int(re.search(rf"^{name}:\s+(\d+)", proc(pid, "status"), re.M)[1])


def cpu_s(pid):
    words = proc(pid, "stat").rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / TICKS


def at_rest(pid, seconds):
    """One process: threads, descriptors, bytes of its own, % of a core."""
    time.sleep(0.3)  # what READY set off is over
    cpu, began = cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    used = (cpu_s(pid) - cpu) / (time.monotonic() - began)
    return {"threads": field(pid, "Threads"), "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "bytes": field(pid, "RssAnon") * 1024, "idle": 100 * used}


def one_run(options, ranks, gpus, channels):
    """All ranks on this machine, met by a file."""
    with tempfile.TemporaryDirectory() as folder:
        args = [options.tool, "node", "--mem", "host", "--transport", "tcp", "--size", "4K",
                "--iters", "1", "--memory", "4K", "--gpus", f"0-{gpus - 1}", "--channels",
                str(channels), "--timeout", str(HANG)]
        running = []
        for rank in range(ranks):
            env = {**os.environ, "TCPX_RANK": str(rank), "TCPX_SIZE": str(ranks),
                   "TCPX_RENDEZVOUS": f"{folder}/meet"}
            running.append(subprocess.Popen(args, env=env, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, text=True))
        try:
            for line in running[0].stdout:
                if "READY" in line:
                    break
            for process in running[1:]:
                process.send_signal(signal.SIGSTOP)
            found = at_rest(running[0].pid, options.rest)
            for process in running[1:]:
                process.send_signal(signal.SIGCONT)
            text = running[0].communicate(timeout=HANG)[0]
            for process in running[1:]:
                process.communicate(timeout=HANG)
        finally:
            for process in running:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
    if any(process.returncode for process in running):
        sys.exit(f"{ranks} ranks, {gpus} GPUs, {channels} channels: a rank failed")
    found["ready"] = float(re.search(r"READY after ([\d.]+) s", text)[1])
    return found


def row(options, table, count, ranks, gpus, channels):
    runs = [one_run(options, ranks, gpus, channels) for _ in range(options.repeat)]
    middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    first = table[0] if table else None
    it = {"count": count, **middle, "least": min(run["ready"] for run in runs),
          "most": max(run["ready"] for run in runs)}
    more = count - first["count"] if first else 0
    it["bytes_each"] = (it["bytes"] - first["bytes"]) / more if more else 0
    it["descriptors_each"] = (it["descriptors"] - first["descriptors"]) / more if more else 0
    table.append(it)
    print(f"{count:8} {it['ready']:8.3f} {it['least']:7.3f} .. {it['most']:<7.3f} "
          f"{it['threads']:7.0f} {it['descriptors']:6.0f} {it['bytes'] / 2**20:9.1f} "
          f"{it['bytes_each'] / 1024:10.1f} {it['descriptors_each']:9.2f} {it['idle']:7.2f}",
          flush=True)


COLUMNS = [{"name": name, **({"unit": unit} if unit else {}), "digits": digits}
           for name, unit, digits in (
               ("READY", "s", 3), ("least", "s", 3), ("most", "s", 3), ("threads", "", 0),
               ("descriptors", "", 0), ("memory", "MiB", 1), ("memory of each", "KiB", 1),
               ("descriptors of each", "", 2), ("CPU at rest", "% of a core", 2))]


def stored(it):
    """A row of COLUMNS."""
    return [it["count"]] + [round(number, 6) for number in (
        it["ready"], it["least"], it["most"], it["threads"], it["descriptors"],
        it["bytes"] / 2**20, it["bytes_each"] / 1024, it["descriptors_each"], it["idle"])]


HEAD = (f"{'':8} {'READY s':>8} {'least .. most':^18} {'threads':>7} {'descr.':>6} "
        f"{'MiB':>9} {'KiB each':>10} {'descr. e.':>9} {'% idle':>7}")


def plot(path, tables):
    script = ["set terminal svg size 900,360 font 'sans,11'", f"set output '{path}'",
              "set multiplot layout 1,2", "set logscale xy", "set key left top", "set grid"]
    for title, name in (("channels of two ranks", "channels"), ("ranks", "ranks")):
        rows = tables[name]
        if not rows:
            continue
        data = "\n".join(f"{r['count']} {r['ready']} {r['bytes'] / 2**20}" for r in rows)
        script += [f"${name} << EOD", data, "EOD", f"set xlabel '{title}'",
                   f"plot ${name} using 1:2 with linespoints title 'READY, s', "
                   f"${name} using 1:3 with linespoints title 'memory of rank 0, MiB'"]
    subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default="build/tools/tcpx")
    parser.add_argument("--channels", default="1,8,64,256,1024")
    parser.add_argument("--ranks", default="2,4,8,16,32,64")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rest", type=float, default=3)
    parser.add_argument("--json")
    parser.add_argument("--store", action="store_true", help="keep the tables in bench/results")
    parser.add_argument("--plot")
    options = parser.parse_args()
    tables = {"channels": [], "ranks": []}
    print("channels" + HEAD[8:])
    for count in map(int, filter(None, options.channels.split(","))):
        gpus = max(1, count // 64)
        row(options, tables["channels"], count, 2, gpus, count // gpus)
    print("ranks   " + HEAD[8:])
    for count in map(int, filter(None, options.ranks.split(","))):
        row(options, tables["ranks"], count, count, 1, 1)
    if options.store:
        store.keep({f"node-cost-{name}": {
            "title": f"tcpx node, what rank 0 costs by {name}", "repetitions": options.repeat,
            "columns": [{"name": name}, *COLUMNS], "rows": [stored(it) for it in rows]}
                    for name, rows in tables.items() if rows})
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(tables, indent=1), encoding="ascii")
    if options.plot:
        plot(options.plot, tables)


if __name__ == "__main__":
    main()
