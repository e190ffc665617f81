#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runs of accept-a3.sh and their verdicts; start that one.

Both ends go through the same list of runs. Rank 0, the server's end, has the results of all ranks
and judges. A rate is judged only where hardware made it.
"""
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOOL = os.environ.pop("TCPX_TOOL")
# What it starts ends with it.
TETHER = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
# For NCCL's run alone: ours are two ends by hand.
HOSTS = {name: os.environ.pop(name) for name in ("HOSTFILE", "TCPX_HOSTFILE")
         if name in os.environ}
NICS, CHANNELS = 4, 64
NIC_LIMIT = 25.0  # GB/s of 200 Gbit/s, for two GPUs
FULL = {"size": "64M", "iters": "20", "memory": "256M"}
SMALL = {"size": "256K", "iters": "4", "memory": "512K"}
SPACING = 100  # ports between runs: a port of the one before may still be closing
LIMIT = 600  # seconds of a run: a guard against hanging


class Side:
    """One end, or in a dry run both, of every run."""

    def __init__(self, role, host, port, reach):
        self.role, self.host, self.port, self.reach = role, host, port, reach
        self.dry = role == "dry"
        self.roles = ["server", "client"] if self.dry else [role]

    def run(self, commands, env=None):
        """The command of each role here at once: [(exit code, output)], the server's first."""
        running = [subprocess.Popen([*TETHER, *commands[role]], stdin=subprocess.DEVNULL, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    env={**os.environ, **(env or {})}) for role in self.roles]
        done = []
        for process in running:
            try:
                out = process.communicate(timeout=LIMIT)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                out = process.communicate()[0]
            done.append((process.returncode, out))
        return done

    def node(self, gpus, sizes, **more):
        """A run of tcpx node: exit codes, the server's output and its document (or None)."""
        self.port += SPACING
        options = {"launcher": "none", "gpus": gpus, "channels": "8", "transport": "gpudirect",
                   "port-base": str(self.port), **sizes, **more}
        argv = [TOOL, "node", *self.reach]
        for name, value in options.items():
            argv += [f"--{name}", value]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "node.json"
            done = self.run({"server": [*argv, "--json", str(path)],
                             "client": [*argv, "--quiet", self.host]})
            found = json.loads(path.read_text(encoding="utf-8")) \
                if path.exists() and path.stat().st_size else None
        return [code for code, _ in done], done[0][1], found


class Report:
    def __init__(self, dry):
        self.dry, self.failed = dry, False

    def line(self, good, criterion, value, source):
        """good: True, False, or None where it was not measured."""
        word = {True: "PASS", False: "FAIL", None: "NOT MEASURED"}[good]
        self.failed |= good is False
        print(f"{word:<13} {criterion:<46} {value:<48} {source}", flush=True)

    def rate(self, good, criterion, value, source):
        if self.dry:
            good, value = None, "the emulator's rates are no measure"
        self.line(good, criterion, value, source)


def last(text):
    return text.strip().splitlines()[-1][:70] if text.strip() else "no output"


def gpu_rates(found, rank=0):
    return [gpu["rate_out"] / 1e9 for gpu in found["ranks"][rank]["gpus"]]


def nic_rates(found):
    """GB/s in each direction of the slowest NIC, and its name."""
    sums = {}
    for rank in found["ranks"]:
        for gpu in rank["gpus"]:
            for way in ("out", "in"):
                key = (gpu["nic"], rank["rank"], way)
                sums[key] = sums.get(key, 0) + gpu[f"rate_{way}"] / 1e9
    key = min(sums, key=sums.get)
    return sums[key], key[0]


def judge_all(report, codes, out, found):
    """All GPUs at once."""
    source = "tcpx node, 8 GPUs at once"
    ready = "=== ALL GPUs READY ===" in out and f"accepted {CHANNELS}/{CHANNELS}" in out
    report.line(ready, "READY with 64 channels",
                f"{CHANNELS}/{CHANNELS} channels" if ready else last(out), source)
    if any(codes) or not found:
        for criterion in ("rx_devmem_pkts rises on every NIC", "rates of 8 GPUs"):
            report.line(False, criterion, last(out), source)
        return
    counts = [count for rank in found["ranks"] for count in rank["rx_devmem_pkts"].values()]
    known = len(counts) == NICS * len(found["ranks"])
    report.line(all(counts) if known else None, "rx_devmem_pkts rises on every NIC",
                f"least +{min(counts)} packets" if known else "not available", source)
    least = min(rate for rank in (0, 1) for rate in gpu_rates(found, rank))
    for limit in (5, 10):
        report.rate(least > limit, f"> {limit} GB/s per GPU, 8 at once",
                    f"slowest {least:.2f} GB/s", source + ", of 12.5 possible")
    report.line(None, "> 15 GB/s per GPU, 8 at once",
                "4 NICs of 25 GB/s are 12.5 a GPU", "arithmetic")
    worst, nic = nic_rates(found)
    report.rate(worst > 20, "> 20 GB/s per NIC (two GPUs, > 10 each)",
                f"slowest {nic} {worst:.2f} GB/s", f"{source}, of {NIC_LIMIT:g} possible")
    total = min(sum(gpu_rates(found, rank)) for rank in (0, 1))
    report.rate(total > 80, "> 80 GB/s per node (four NICs)", f"{total:.2f} GB/s", source)


def judge_one(report, codes, out, found):
    """One GPU, a transfer at a time. Answers its GB/s."""
    source = "tcpx node --gpus 0, one transfer each way at a time"
    if any(codes) or not found:
        report.line(False, "one GPU alone", last(out), source)
        return None
    gpu = found["ranks"][0]["gpus"][0]
    rate = gpu["rate_out"] / 1e9
    for limit in (5, 9, 10, 15):
        report.rate(rate > limit, f"> {limit} GB/s per GPU alone", f"{rate:.2f} GB/s", source)
    ms = found["size"] / gpu["rate_out"] * 1e3 if gpu["rate_out"] else float("inf")
    report.rate(ms <= 8, "64 MB (2^26 bytes) in <= 8 ms", f"{ms:.2f} ms", source)
    return rate


def why_not_the_plugin(text):
    """Why NCCL's log does not show that all went through the TCPX plugin, or None."""
    networks = re.findall(r"NCCL INFO Using network (\S+)", text)
    ways = {way for way in re.findall(r"NCCL INFO Channel .* via (\S+)", text)
            if not way.startswith("NET/")}
    if len(networks) < 2:
        return "NCCL's log lacks a rank's network"
    others = ways | {name for name in networks if "GPUDirectTCPX" not in name}
    return f"NCCL went by {', '.join(sorted(others))}, not by TCPX" if others else None


def judge_nccl(report, side, rate):
    criterion = "within 20 % of NCCL"
    print("# the 19.176 GB/s of old documents are an all-reduce's bus bandwidth; what compares is\n"
          "# NCCL send/recv between two GPUs over the same plugin")
    if side.dry or rate is None:
        report.line(None, criterion, "no hardware" if side.dry else "our run failed", "-")
        return
    env = {**os.environ, **HOSTS, "TCPX_TOOL": TOOL, "NCCL_DEBUG": "INFO",
           "NCCL_DEBUG_SUBSYS": "INIT,NET,P2P,SHM"}
    env.pop("NCCL_DEBUG_FILE", None)
    done = subprocess.run([*TETHER, HERE / "compat/run_nccl_test_tcpx.sh", "nccl", "2", "1", "2"],
                          text=True, capture_output=True, check=False, env=env)
    found = re.search(r"Avg bus bandwidth\s*:\s*([\d.]+)", done.stdout)
    large = re.findall(r"^\s*67108864\s.*?\s([\d.]+)\s+\S+\s*$", done.stdout, re.M)
    if done.returncode or not found or not large:
        report.line(None, criterion, "no run of nccl-tests: " + last(done.stderr), "-")
        return
    why = why_not_the_plugin(done.stdout + done.stderr)
    if why:
        report.line(None, criterion, why, "NCCL_DEBUG=INFO of sendrecv_perf")
        return
    theirs = float(large[-1])
    report.line(rate >= 0.8 * theirs, criterion,
                f"{rate:.2f} of {theirs:.2f} GB/s, {100 * rate / theirs:.0f} %",
                "sendrecv_perf, 64 MB, bus bandwidth")


def fullmesh(side, sizes):
    side.port += SPACING
    script = str(HERE / "compat/run_p2p_fullmesh.sh")
    env = {"TCPX_TOOL": TOOL, "TCPX_COMPAT_TRANSPORT": "gpudirect", "TCPX_OOB_PORT":
           str(side.port), "TCPX_PERF_SIZE": sizes["size"], "TCPX_PERF_ITERS": sizes["iters"]}
    if "--insecure" in side.reach:
        env["TCPX_COMPAT_INSECURE"] = "1"
    return side.run({"server": [script, "server"], "client": [script, "client", side.host]}, env)


def main():
    role, host, runs, port, *reach = sys.argv[1:]
    side, report = Side(role, host, int(port), reach), Report(role == "dry")
    sizes = SMALL if side.dry else FULL
    every = side.node("0-7", sizes)
    one = side.node("0", {**sizes, "memory": sizes["size"]})
    mesh = fullmesh(side, sizes)
    stable = [side.node("0-7", sizes) for _ in range(int(runs))]
    if role == "client":
        bad = sum(any(codes) for codes, _, _ in (every, one, *stable)) + any(
            code for code, _ in mesh)
        print(f"{bad} of {len(stable) + 3} runs failed here; the server's end has the verdict")
        return 1 if bad else 0
    judge_all(report, *every)
    rate = judge_one(report, *one)
    judge_nccl(report, side, rate)
    codes = [code for code, _ in mesh]
    report.line(not any(codes), "fallback: 8 processes, one a GPU",
                "all ended well" if not any(codes) else last(mesh[0][1]),
                "run_p2p_fullmesh.sh, logs/")
    good = [found for codes, _, found in stable if not any(codes) and found]
    totals = sorted(found["rate"] / 1e9 for found in good)
    value = f"{len(good)} of {len(stable)} exit 0"
    if totals:
        middle = statistics.median(totals)
        spread = 100 * (totals[-1] - totals[0]) / middle
        value += f", median {middle:.3g} GB/s, spread {spread:.1f} %"
    report.line(len(good) == len(stable), f"{len(stable)} stable runs", value,
                "tcpx node, 8 GPUs at once, " + ("emulator" if side.dry else "both hosts"))
    documents = [found for _, _, found in (every, one, *stable) if found]
    wrong = sum(found["wrong"] for found in documents)
    checked = sum(gpu["checked"] for found in documents for rank in found["ranks"]
                  for gpu in rank["gpus"])
    report.line(wrong == 0 and checked > 0, "0 wrong bytes", f"{wrong} of {checked}",
                f"{len(documents)} runs, every byte compared")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
