#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tcpx node between two processes of this machine: the sum of all GPUs and directions beside as
many plain sockets of the same run (--ceiling), median and spread of several runs.

Usage: bench/node.py --tool FILE [--mem host|cuda] [--gpus 0-1,...] [--ops LIST] [--peers LIST]
       [--transports LIST] [--channels LIST] [--size BYTES] [--iters N] [--memory BYTES]
       [--repeat N] [--base PORT] [-- OPTION of node...]
A --gpus list of several sets is separated by '/': 0/0-1.
"""
import argparse
import itertools
import re
import statistics
import subprocess
import sys

import store


def pair(tool, port, args):
    """The server's output of one run; None: it failed, and is shown."""
    argv = [tool, "node", "--port-base", str(port), "--ceiling", *args]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    client = subprocess.run([*argv, "127.0.0.1"], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=600)
    text = server.communicate(timeout=600)[0]
    if server.returncode or client.returncode:
        print(text[-1500:], client.stdout[-1500:], sep="\n", file=sys.stderr)
        return None
    return text


def figures(text):
    total = re.search(r"^sum ([\d.]+) GB/s +CPU ([\d.]+) s/GB +READY after ([\d.]+) s", text, re.M)
    ceiling = re.search(r"^ceiling ([\d.]+) GB/s", text, re.M)
    return float(total[1]), float(ceiling[1]), float(total[2]), float(total[3])


def words(values):
    middle = statistics.median(values)
    return f"{middle:8.3f} {min(values):8.3f} .. {max(values):<8.3f}"


def row(options, name, args):
    runs = []
    for i in range(options.repeat):
        text = pair(options.tool, options.base + 100 * (i % 50), args)
        if text:
            runs.append(figures(text))
    if not runs:
        print(f"{name:44} failed")
        return 1
    ratios = [rate / ceiling for rate, ceiling, _, _ in runs]
    options.kept.append([name, *store.spread([run[0] for run in runs]),
                         *(round(statistics.median(values), 6) for values in
                           (ratios, [run[2] for run in runs], [run[3] for run in runs]))])
    print(f"{name:44} {words([run[0] for run in runs])} {words(ratios)} "
          f"{statistics.median(run[2] for run in runs):7.3f} "
          f"{statistics.median(run[3] for run in runs):7.3f}", flush=True)
    return 0 if len(runs) == options.repeat else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default="build/tools/tcpx")
    parser.add_argument("--mem", default="auto")
    parser.add_argument("--gpus", default="0-1")
    parser.add_argument("--ops", default="write")
    parser.add_argument("--peers", default="same")
    parser.add_argument("--transports", default="tcp")
    parser.add_argument("--channels", default="8")
    parser.add_argument("--size", default="4M")
    parser.add_argument("--iters", default="64")
    parser.add_argument("--memory", default="256M")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--base", type=int, default=21000)
    parser.add_argument("--store", action="store_true", help="keep the table in bench/results")
    parser.add_argument("more", nargs="*")
    o = parser.parse_args()
    o.kept = []
    print(f"# {'transport op peers GPUs channels':42} {'sum GB/s':>8} {'least .. most':^21}"
          f"{'of ceiling':>8} {'least .. most':^21}  CPU/GB  READY s")
    failed = 0
    for transport, op, peers, gpus, channels in itertools.product(
            o.transports.split(","), o.ops.split(","), o.peers.split(","), o.gpus.split("/"),
            o.channels.split(",")):
        failed |= row(o, f"{transport} {op} {peers} {gpus} {channels}",
                      ["--mem", o.mem, "--transport", transport, "--op", op, "--peers", peers,
                       "--gpus", gpus, "--channels", channels, "--size", o.size, "--iters",
                       o.iters, "--memory", o.memory, *o.more])
    if o.store and o.kept:
        store.keep({"node": {
            "title": "Two tcpx node processes, both directions at once", "rows": o.kept,
            "repetitions": o.repeat,
            "columns": store.columns("transport, operation, peers, GPUs, channels", "GB/s", 1) + [
                {"name": "share of plain sockets", "digits": 3},
                {"name": "CPU", "unit": "s/GB", "digits": 2},
                {"name": "READY", "unit": "s", "digits": 2}]}})
    return failed


if __name__ == "__main__":
    sys.exit(main())
