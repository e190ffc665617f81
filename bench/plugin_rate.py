#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Channels of messages beside what they are made of: the emulator's own calls, and plain tcp.

In turn, --repeat times: bench's bare driver of the TCPX emulator (tests/emu/emu_rate), 'tcpx perf'
over the plugin with each number of channels, and over tcp with as many sockets; host memory, cpu
mode, the chunk 512 KiB. Prints medians, their spread and ratios, CPU seconds per GB beside GB/s.
Also 8-byte WRITEs (they ride on tcp) as a ratio to those of a peer without a plugin.
With --gpus FROM,TO GPU memory over gpudirect, the emulator's pools in GPU memory: beside its own
calls each way of unpacking, and, where those are two GPUs, all that arrives relayed from the other.
Exit: 0; 1 when something could not be measured.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import store

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CHUNK = "524288"
ENV = {**os.environ, "NCCL_DYNAMIC_CHUNK_SIZE": CHUNK, "TCPXEMU_STEER": "off",
       "TCPXEMU_POISON": "0", "TCPX_LOG": os.environ.get("TCPX_LOG", "error")}


def raw(args, env, *of):
    """GB/s and CPU s/GB of both ends; of: host, or two GPUs."""
    done = subprocess.run([args.raw, str(args.time), *of], text=True, stdout=subprocess.PIPE,
                          env={**env, "TCPXEMU_LIBRARY": args.emulator}, check=True).stdout
    rate, send, recv = re.search(r"([\d.]+) GB/s, CPU s/GB: ([\d.]+) sending, ([\d.]+)",
                                 done).groups()
    return float(rate), float(send) + float(recv)


def perf(args, env, size, *more):
    argv = [args.tool, "perf", "--loopback", "--size", size, "--time", str(args.time),
            "--no-check", "--json", "-", *more]
    done = subprocess.run(argv, env=env, text=True, stdout=subprocess.PIPE,
                          stderr=args.said, check=True).stdout
    row = json.loads(done)["results"][0]
    return row["bytes_per_second"] / 1e9, sum(row["cpu_seconds_per_gb"].values())


def median(values):
    rates = [rate for rate, _ in values]
    return (statistics.median(rates), min(rates), max(rates),
            statistics.median(cpu for _, cpu in values))


def host_rows(args):
    env = {**ENV, "TCPX_PLUGIN_HOST": "1"}
    over = ("--transport", "plugin", "--plugin", args.emulator)
    for _ in range(args.repeat):
        yield "emulator alone", raw(args, env, "host")
        for count in args.channels:
            yield f"plugin, {count} channels", perf(args, env, "64M", *over, "--plugin-channels",
                                                    count)
            yield f"tcp, {count} channels", perf(args, env, "64M", "--transport", "tcp",
                                                 "--channels", count)
        yield "8 bytes, with a plugin", perf(args, env, "8", *over)
        yield "8 bytes, tcp", perf(args, env, "8", "--transport", "tcp")


def machine(root, addresses):
    """A tree like sysfs in which GPU n lies under one switch with NIC eth<n + 1>; the emulator's
    topology of the same."""
    topology = "eth0=127.0.0.1"

    def put(folder, **files):
        os.makedirs(f"{root}/{folder}", exist_ok=True)
        for name, value in files.items():
            with open(f"{root}/{folder}/{name}", "w", encoding="ascii") as file:
                file.write(value + "\n")

    def link(folder, name, target):
        os.makedirs(f"{root}/{folder}", exist_ok=True)
        os.symlink(target, f"{root}/{folder}/{name}")

    for n, gpu in enumerate(addresses):
        at = f"devices/pci0000:{n + 1:02x}/0000:{n + 1:02x}:01.0"
        nic = f"0000:e{n}:00.0"
        put(f"{at}/{gpu}", **{"class": "0x030200", "vendor": "0x10de", "numa_node": "0"})
        put(f"{at}/{nic}", **{"class": "0x020000", "vendor": "0x1ae0", "numa_node": "0"})
        put(f"{at}/{nic}/net/eth{n + 1}", address="42:01:0a:80:00:02", mtu="8244", operstate="up",
            speed="200000")
        for device in (gpu, nic):
            link("bus/pci/devices", device, f"../../../{at}/{device}")
        link(f"{at}/{nic}/net/eth{n + 1}", "device", f"../../../{nic}")
        link("class/net", f"eth{n + 1}", f"../../{at}/{nic}/net/eth{n + 1}")
        topology += f";eth{n + 1}=127.0.{n + 1}.1:e{n}:00.0:f{n}"
    return topology


def gpu_addresses(args):
    said = subprocess.run([args.tool, "info"], text=True, capture_output=True, check=True).stdout
    return re.findall(r"^  cuda:\d+ +.*?\b([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b", said,
                      re.M)


def gpu_rows(args, root):
    start, end = args.gpus.split(",")
    addresses = gpu_addresses(args)
    env = {**ENV, "TCPXEMU_MEM": "cuda-dev-bounce", "TCPX_SYSFS": root,
           "TCPXEMU_TOPO": machine(root, addresses), "TCPX_GPUDIRECT_SAME_HOST": "1",
           "TCPX_GPUDIRECT_COVER": "0",
           "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX": root}
    over = ("--transport", "gpudirect", "--plugin", args.emulator, "--mem", f"cuda:{start}",
            "--remote-mem", f"cuda:{end}")
    for _ in range(args.repeat):
        yield "emulator alone", raw(args, env, start, end)
        for count in args.channels:
            more = (*over, "--plugin-channels", count)
            for way in ("kernel", "none"):
                yield f"{way}, {count} channels", perf(args, env, "64M", *more, "--unpack", way)
            if start != end:
                yield f"relayed, {count} channels", perf(args, env, "64M", *more, "--nic",
                                                         f"eth{int(start) + 1}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(TOP, "build"))
    parser.add_argument("--tool", help="[BUILD/tools/tcpx]")
    parser.add_argument("--raw", help="the emulator's bare driver [BUILD/tests/emu/emu_rate]")
    parser.add_argument("--emulator", help="its v7 object [BUILD/emu/tcpxemu/...]")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--time", type=float, default=1.0)
    parser.add_argument("--channels", default="1,2,4")
    parser.add_argument("--gpus", help="FROM,TO: their memory instead of the host's")
    parser.add_argument("--store", action="store_true", help="keep the table in bench/results")
    parser.add_argument("--verbose", action="store_true", help="what the tool says, too")
    args = parser.parse_args()
    args.tool = args.tool or f"{args.build}/tools/tcpx"
    args.raw = args.raw or f"{args.build}/tests/emu/emu_rate"
    args.emulator = args.emulator or f"{args.build}/emu/tcpxemu/libnccl-net-tcpxemu.so"
    args.channels = args.channels.split(",")
    args.said = None if args.verbose else subprocess.DEVNULL
    rows = {}
    with tempfile.TemporaryDirectory() as root:
        for name, value in gpu_rows(args, root) if args.gpus else host_rows(args):
            rows.setdefault(name, []).append(value)
    table = {name: median(values) for name, values in rows.items()}
    print(f"{'':28}{'GB/s':>9}{'least':>9}{'most':>9}{'CPU s/GB':>10}")
    for name, (mid, low, high, cpu) in table.items():
        print(f"{name:28}{mid:9.4g}{low:9.4g}{high:9.4g}{cpu:10.3g}")
    if args.store:
        store.keep({"plugin-gpu" if args.gpus else "plugin-emulator": {
            "title": "Channels of messages over the TCPX emulator", "repetitions": args.repeat,
            "columns": store.columns("path", "GB/s", 2) + [
                {"name": "CPU", "unit": "s/GB", "digits": 2}],
            "rows": [[name, *(round(value, 6) for value in values)]
                     for name, values in table.items()]}})
    alone = table.pop("emulator alone")[0]
    if args.gpus:
        for name, (mid, *_) in table.items():
            print(f"{name} / emulator alone: {mid / alone:.3f}")
        return 0
    best = max(table[f"plugin, {count} channels"][0] for count in args.channels)
    print(f"best plugin / emulator alone: {best / alone:.3f}")
    for count in args.channels:
        ratio = table[f"plugin, {count} channels"][0] / table[f"tcp, {count} channels"][0]
        print(f"plugin / tcp, {count} channels: {ratio:.3f}")
    print("8 bytes, plugin / tcp: "
          f"{table['8 bytes, with a plugin'][0] / table['8 bytes, tcp'][0]:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
