#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Channels of messages beside what they are made of: the emulator's own calls, and plain tcp.

In turn, --repeat times: bench's bare driver of the TCPX emulator (tests/emu/emu_rate), 'tcpx perf'
over the plugin with each number of channels, and over tcp with as many sockets; host memory, cpu
mode, the chunk 512 KiB. Prints medians, their spread and ratios, CPU seconds per GB beside GB/s.
Also 8-byte WRITEs (they ride on tcp) as a ratio to those of a peer without a plugin.
Exit: 0; 1 when something could not be measured.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CHUNK = "524288"
ENV = {**os.environ, "NCCL_DYNAMIC_CHUNK_SIZE": CHUNK, "TCPXEMU_STEER": "off",
       "TCPXEMU_POISON": "0", "TCPX_PLUGIN_HOST": "1", "TCPX_LOG": "error"}


def raw(build, seconds):
    out = subprocess.run([f"{build}/tests/emu/emu_rate", str(seconds), "host"], env=ENV, text=True,
                         capture_output=True, check=True).stdout
    rate, send, recv = re.search(r"([\d.]+) GB/s, CPU s/GB: ([\d.]+) sending, ([\d.]+)",
                                 out).groups()
    return float(rate), float(send) + float(recv)


def perf(build, size, seconds, *more):
    argv = [f"{build}/tcpx", "perf", "--loopback", "--size", size, "--time", str(seconds),
            "--no-check", "--json", "-", *more]
    done = subprocess.run(argv, env=ENV, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True).stdout
    row = json.loads(done)["results"][0]
    return row["bytes_per_second"] / 1e9, sum(row["cpu_seconds_per_gb"].values())


def median(values):
    rates = [rate for rate, _ in values]
    return (statistics.median(rates), min(rates), max(rates),
            statistics.median(cpu for _, cpu in values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(TOP, "build"))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--time", type=float, default=1.0)
    parser.add_argument("--channels", default="1,2,4")
    args = parser.parse_args()
    plugin = f"{args.build}/emu/tcpxemu/libnccl-net-tcpxemu.so"
    counts = args.channels.split(",")
    rows = {"emulator alone": []}
    for _ in range(args.repeat):
        rows["emulator alone"].append(raw(args.build, args.time))
        for count in counts:
            rows.setdefault(f"plugin, {count} channels", []).append(
                perf(args.build, "64M", args.time, "--transport", "plugin", "--plugin", plugin,
                     "--plugin-channels", count))
            rows.setdefault(f"tcp, {count} channels", []).append(
                perf(args.build, "64M", args.time, "--transport", "tcp", "--channels", count))
        rows.setdefault("8 bytes, with a plugin", []).append(
            perf(args.build, "8", args.time, "--transport", "plugin", "--plugin", plugin))
        rows.setdefault("8 bytes, tcp", []).append(
            perf(args.build, "8", args.time, "--transport", "tcp"))
    table = {name: median(values) for name, values in rows.items()}
    print(f"{'':28}{'GB/s':>9}{'least':>9}{'most':>9}{'CPU s/GB':>10}")
    for name, (mid, low, high, cpu) in table.items():
        print(f"{name:28}{mid:9.4g}{low:9.4g}{high:9.4g}{cpu:10.3g}")
    best = max(table[f"plugin, {count} channels"][0] for count in counts)
    print(f"best plugin / emulator alone: {best / table['emulator alone'][0]:.3f}")
    for count in counts:
        ratio = table[f"plugin, {count} channels"][0] / table[f"tcp, {count} channels"][0]
        print(f"plugin / tcp, {count} channels: {ratio:.3f}")
    print("8 bytes, plugin / tcp: "
          f"{table['8 bytes, with a plugin'][0] / table['8 bytes, tcp'][0]:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
