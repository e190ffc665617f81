# SPDX-License-Identifier: Apache-2.0
"""What tracing costs: a recorded call, goodput with it and without, the time to read traces."""
import json
import os
import shutil
import tempfile
import time

GOODPUT_SECONDS = 50.0
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


def goodput(env, r, key, *plugin, **settings):
    """One process, in which recording is switched on and off in turn."""
    folder = tempfile.mkdtemp(prefix="tcpx-trace-")
    try:
        out = json.loads(env.run(
            "lo", os.path.join(env.build, "bench/trace_goodput"), f"{folder}/a.tct",
            env.seconds(GOODPUT_SECONDS), *plugin, env=settings))
    finally:
        shutil.rmtree(folder)
    r[f"trace.{key}"], r[f"trace.{key}.error"] = out["ratio"], out["error"]


def goodput_tcp(env, r):
    goodput(env, r, "tcp")


def goodput_plugin(env, r):
    goodput(env, r, "plugin", os.path.join(env.build, "emu/tcpxemu/libnccl-net-tcpxemu.so"),
            # Its NICs are stand-ins: without pairing it is not asked for those of real GPUs.
            NCCL_DYNAMIC_CHUNK_SIZE="524288", TCPXEMU_STEER="off", TCPX_PAIRING="0")


def lines(line, value):
    """The rows of the table, made by speed_lines.py's own types."""
    return [
        line("trace", "a recorded call by the TSC, ns beyond it", value("trace.tsc"), "≤", 50),
        line("trace", "a recorded call by clock_gettime, ns beyond it", value("trace.clock"), "≤",
             100),
        line("trace", "a test that finds nothing, by the TSC, ns", value("trace.tsc.empty"), "",
             None),
        line("trace", "goodput with a trace of without, tcp", value("trace.tcp"), "≥", 0.99),
        line("trace", "standard error of it", value("trace.tcp.error"), "", None),
        line("trace", "goodput with a trace of without, emulated plugin", value("trace.plugin"),
             "≥", 0.99),
        line("trace", "standard error of it", value("trace.plugin.error"), "", None),
        line("trace", "diff of two traces of 10^6 records, s", value("trace.diff"), "≤", 5),
        line("trace", "show of 1 GB of records, s", value("trace.show"), "≤", 3),
    ]
