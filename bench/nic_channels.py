#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""1, 2, 4 and 8 channels on one NIC: whether more of them are slower.

Two hosts as namespaces with a cable that is shaped to --rate, over tcp; and one process pair over
the TCPX emulator with one NIC. Runs take turns; the ratio is to one channel of the same turn. Needs
root and the build."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess

import store

TOP = pathlib.Path(__file__).resolve().parents[1]
COUNTS = [1, 2, 4, 8]


def sh(*argv, **more):
    return subprocess.run([str(part) for part in argv], check=True, text=True, **more)


class Cable:
    """Two namespaces with a veth pair, shaped at both ends."""

    def __init__(self, rate):
        self.names = [f"tcpx-nic-{os.getpid()}-{side}" for side in "ab"]
        for name in self.names:
            sh("ip", "netns", "add", name)
        sh("ip", "link", "add", "eth1", "netns", self.names[0], "type", "veth",
           "peer", "name", "eth1", "netns", self.names[1])
        for last, name in enumerate(self.names, 1):
            sh("ip", "-n", name, "addr", "add", f"10.98.0.{last}/24", "dev", "eth1")
            sh("ip", "-n", name, "link", "set", "lo", "up")
            sh("ip", "-n", name, "link", "set", "eth1", "up")
            sh("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "eth1", "root", "tbf",
               "rate", rate, "burst", "256kb", "latency", "20ms")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in self.names:
            sh("ip", "netns", "del", name)

    def argv(self, side):
        return ["ip", "netns", "exec", self.names[side]]


def measure(o, serve, perf, env=None):
    """One serve, one perf: GB/s."""
    tool = str(pathlib.Path(o.build) / "tools/tcpx")
    server = subprocess.Popen([*serve[0], tool, "serve", "--once", "--quiet", "--insecure",
                               *serve[1]], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, env=env)
    try:
        where = server.stdout.readline().split()[1]
        done = sh(*perf[0], tool, "perf", where, "--insecure", "--size", o.size, "--time",
                  o.seconds, "--json", "-", *perf[1], stdout=subprocess.PIPE,
                  stderr=subprocess.DEVNULL, env=env)
    finally:
        server.terminate()
        server.wait()
    rows = json.loads(done.stdout)["results"]
    return rows[0]["bytes_per_second"] / 1e9


def emulated():
    """The emulator's environment: one NIC, host memory, nothing that its steering would refuse."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("NCCL_")}
    env.update(TCPXEMU_STEER="off", TCPX_PLUGIN_HOST="1", NCCL_DYNAMIC_CHUNK_SIZE="524288")
    return env


def report(name, rates):
    print(f"\n{name}\nchannels  GB/s median [min .. max]      of one channel")
    for count in COUNTS:
        values = rates[count]
        ratio = statistics.median(v / one for v, one in zip(values, rates[1]))
        print(f"{count:8}  {statistics.median(values):7.3f} [{min(values):.3f} .. "
              f"{max(values):.3f}]  {ratio:10.3f}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=TOP / "build")
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--seconds", default="1")
    p.add_argument("--size", default="16M")
    p.add_argument("--rate", default="4gbit", help="of the cable [4gbit]")
    p.add_argument("--store", action="store_true", help="keep the tables in bench/results")
    o = p.parse_args()
    rates = {kind: {count: [] for count in COUNTS} for kind in ("cable", "emulator")}
    plugin = str(pathlib.Path(o.build) / "emu/tcpxemu/libnccl-net-tcpxemu.so")
    with Cable(o.rate) as cable:
        for turn in range(o.repeat):
            for count in COUNTS[turn % 4:] + COUNTS[:turn % 4]:
                many = ["--channels", str(count)]
                rates["cable"][count].append(measure(
                    o, (cable.argv(1), ["--bind", "10.98.0.2", *many]), (cable.argv(0), many)))
                messages = ["--transport", "plugin", "--plugin", plugin,
                            "--plugin-channels", str(count)]
                rates["emulator"][count].append(measure(
                    o, ([], messages), ([], messages), emulated()))
    report(f"tcp over a cable of {o.rate}", rates["cable"])
    report("messages over the emulator, one NIC", rates["emulator"])
    if o.store:
        store.keep({f"nic-channels-{name}": {
            "title": f"Channels of one NIC: {name}", "repetitions": o.repeat,
            "columns": store.columns("channels", "GB/s"),
            "rows": [[count, *store.spread(values)] for count, values in counts.items()]}
                    for name, counts in rates.items()})


if __name__ == "__main__":
    main()
