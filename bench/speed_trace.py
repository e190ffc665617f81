# SPDX-License-Identifier: Apache-2.0
"""What tracing costs: a recorded call, goodput with it and without, the time to read traces."""
import json
import os
import shutil
import statistics
import tempfile
import time

PAIRS = 9 # of runs with and without a trace, in turn: the machine drifts
MILLION, GIGABYTE = 1000448, 16777216 # records: whole blocks of the maker


def cost(env, r):
    for clock in ("tsc", "clock"):
        out = env.program("trace_cost", *([] if clock == "tsc" else ["clock"]))
        r[f"trace.{clock}"], r[f"trace.{clock}.empty"] = out["call_ns"], out["empty_test_ns"]


def reading(env, r):
    """Of the whole tool: it opens, decodes and prints."""
    folder = tempfile.mkdtemp(prefix="tcpx-trace-")
    make = os.path.join(env.build, "bench/trace_cost")
    try:
        for name, records in (("a", MILLION), ("b", MILLION), ("large", GIGABYTE)):
            env.run("lo", make, "make", f"{folder}/{name}.tct", records)
        for key, argv in (("diff", ["diff", "a.tct", "b.tct"]), ("show", ["show", "large.tct"])):
            begin = time.monotonic()
            env.run("lo", env.tcpx, "trace", argv[0], *[f"{folder}/{name}" for name in argv[1:]])
            r["trace." + key] = time.monotonic() - begin
    finally:
        shutil.rmtree(folder)


def goodput(env, r, key, transport, more, *argv):
    """Pairs of runs in turn. The median of their ratios: the machine's speed changes between pairs,
    less within one."""
    rates = {"off": [], "on": []}
    folder = tempfile.mkdtemp(prefix="tcpx-trace-")
    try:
        for pair in range(1 if env.quick else PAIRS):
            for state in ("off", "on") if pair % 2 else ("on", "off"):
                trace = {"TCPX_TRACE": f"{folder}/%p.tct"} if state == "on" else {}
                out = env.run("lo", env.tcpx, "perf", "--loopback", "--transport", transport,
                              "--time", env.seconds(1.0), "--json", "-", *argv,
                              env={**more, **trace})
                rates[state].append(json.loads(out)["results"][0]["bytes_per_second"])
    finally:
        shutil.rmtree(folder)
    r[f"trace.{key}"] = statistics.median(
        on / off for on, off in zip(rates["on"], rates["off"]))


def goodput_tcp(env, r):
    goodput(env, r, "tcp", "tcp", {}, "--size", "4M", "--depth", 4)


def goodput_plugin(env, r):
    emulator = os.path.join(env.build, "emu/tcpxemu/libnccl-net-tcpxemu.so")
    goodput(env, r, "plugin", "plugin",
            {"TCPX_PLUGIN": emulator, "NCCL_DYNAMIC_CHUNK_SIZE": "524288", "TCPXEMU_STEER": "off"},
            "--size", "4M", "--depth", 4)


def lines(line, value):
    """The rows of the table, made by speed_lines.py's own types."""
    return [
        line("trace", "a recorded call by the TSC, ns beyond it", value("trace.tsc"), "≤", 50),
        line("trace", "a recorded call by clock_gettime, ns beyond it", value("trace.clock"), "≤",
             100),
        line("trace", "a test that finds nothing, by the TSC, ns", value("trace.tsc.empty"), "",
             None),
        line("trace", "goodput with a trace of without, tcp", value("trace.tcp"), "≥", 0.99),
        line("trace", "goodput with a trace of without, emulated plugin", value("trace.plugin"),
             "≥", 0.99),
        line("trace", "diff of two traces of 10^6 records, s", value("trace.diff"), "≤", 5),
        line("trace", "show of 1 GB of records, s", value("trace.show"), "≤", 3),
    ]
