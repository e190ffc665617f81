#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads and writes of a paged KV cache through NIXL, as an inference engine makes them.

Two agents in two processes have a cache of --layers tensors each. A request moves blocks at random
places of one cache to random places of the other, spread over the layers, with a notification. It
is timed from the post until it is DONE at the initiator and its notification is seen at the target;
making the request is timed apart. Every byte is compared. All backends run in turns.

Needs a NIXL in this Python (a released wheel, and numpy); GPU memory needs libcuda.so.1."""
import argparse
import ctypes
import json
import math
import multiprocessing
import os
import statistics
import sys
import time

import numpy

import store
from nixl_two_agents import Agent, HANG_S, Memory, cpu, pattern, size_of

PIPE_S = 200e-6 # between looks at the pipe of commands
# What each backend is told about the way to go.
PATHS = {
    "host": {"TCPX": {"TCPX_LOCAL": "1"}, "UCX": {}},
    "tcp": {"TCPX": {"TCPX_LOCAL": "0"}, "UCX": {"UCX_TLS": "tcp,cuda_copy,self"}},
}


def options():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--backend", default="TCPX", help="comma list, e.g. TCPX,UCX [TCPX]")
    p.add_argument("--path", default="host", help="comma list of host (same host), tcp [host]")
    p.add_argument("--op", default="READ", help="comma list [READ]")
    p.add_argument("--layers", type=int, default=32, help="tensors of a cache [32]")
    p.add_argument("--request", default="64Kx32,64Kx512,64Kx2048",
                   help="comma list of BLOCKxCOUNT [64Kx32,64Kx512,64Kx2048]")
    p.add_argument("--cache", type=int, default=2,
                   help="times the largest request that a cache holds [2]")
    p.add_argument("--mem", default="DRAM", help="the initiator's: DRAM, or VRAM[:GPU] [DRAM]")
    p.add_argument("--remote-mem", help="the target's [as --mem]")
    p.add_argument("--own-gpu-only", action="store_true",
                   help="each process sees its own GPU alone, by CUDA_VISIBLE_DEVICES")
    p.add_argument("--segments", type=int, default=0, metavar="MIB",
                   help="GPU memory is mapped in allocations of so many MiB, as PyTorch's "
                   "expandable segments (20); 0: cuMemAlloc [0]")
    p.add_argument("--depth", type=int, default=1, help="requests in flight [1]")
    p.add_argument("--gap-ms", type=float, default=0,
                   help="rest before a request is made, which is posted at once [0]")
    p.add_argument("--requests", type=int, default=20, help="of each measurement [20]")
    p.add_argument("--repeat", type=int, default=5, help="repetitions [5]")
    p.add_argument("--limit", type=float, default=math.inf, metavar="S",
                   help="begin no repetition that would end later than after so many seconds")
    p.add_argument("--param", action="append", default=[], metavar="KEY=VALUE",
                   help="init parameter of TCPX")
    p.add_argument("--json", metavar="FILE", help="all values")
    p.add_argument("--store", action="store_true", help="keep the results in bench/results")
    p.add_argument("--table", default="nixl-kv", help="of --store: its name there [nixl-kv]")
    return p.parse_args()


class Cache:
    """A cache of one side: tensors, registered in one call."""

    def __init__(self, agent, where, o, layer_bytes):
        self.agent, self.layer_bytes = agent, layer_bytes
        self.tensors = [Memory(where, layer_bytes, o.segments << 20) for _ in range(o.layers)]
        self.kind, self.gpu = self.tensors[0].kind, self.tensors[0].gpu
        rows = [(t.address, t.length, t.gpu, "") for t in self.tensors]
        began = time.perf_counter()
        agent.agent.register_memory(rows, self.kind, backends=[agent.backend])
        self.registered_s = time.perf_counter() - began

    def fill(self, seed):
        for i, tensor in enumerate(self.tensors):
            tensor.write(pattern(self.layer_bytes, seed + i))

    def read(self):
        return [tensor.read().copy() for tensor in self.tensors]


def places(seed, layers, layer_blocks, count):
    """Layer and block index of each block of a request: random, and none twice."""
    rng = numpy.random.default_rng(seed)
    per_layer = -(-count // layers)
    order = [rng.permutation(layer_blocks)[:per_layer] for _ in range(layers)]
    return [(i % layers, int(order[i % layers][i // layers])) for i in range(count)]


def expected(before, source_seed, moves, block, layer_bytes):
    """What the destination holds after the moves (from, to)."""
    after = [layer.copy() for layer in before]
    sources = {}
    for (from_layer, from_block), (to_layer, to_block) in moves:
        if from_layer not in sources:
            sources[from_layer] = pattern(layer_bytes, source_seed + from_layer)
        after[to_layer][to_block * block:(to_block + 1) * block] = \
            sources[from_layer][from_block * block:(from_block + 1) * block]
    return after


def side(where, alone, path, backend):
    """The environment of a process, before it loads anything; the memory as it then sees it."""
    os.environ.update(PATHS[path].get(backend, {}))
    kind, _, gpu = where.partition(":")
    if kind == "VRAM" and alone:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu or "0"
        where = "VRAM:0"
    if kind == "VRAM":
        Memory(where, 4096) # UCX knows GPU memory only if a context is current when it starts
    return where


def target(pipe, o, path, backend, params, layer_bytes):
    """Answers commands; between them it looks at its notifications, as an engine does."""
    os.dup2(2, 1) # what backends print is no result
    where = side(o.remote_mem or o.mem, o.own_gpu_only, path, backend)
    me = Agent("target", backend, "best", params)
    cache = Cache(me, where, o, layer_bytes)
    pipe.send((me.agent.get_agent_metadata(), [t.address for t in cache.tensors], cache.kind,
               cache.gpu, cache.registered_s))
    me.agent.add_remote_agent(pipe.recv())
    pipe.send(None)
    seen, asked = [], 0
    while True:
        look(me, seen)
        # A look at the pipe takes as long as many at the notifications.
        if time.perf_counter() < asked + PIPE_S:
            continue
        asked = time.perf_counter()
        if pipe.poll(0):
            what, *args = pipe.recv()
            if what == "fill":
                cache.fill(args[0])
                pipe.send(None)
            elif what == "read":
                pipe.send(cache.read())
            elif what == "cpu":
                pipe.send(cpu())
            elif what == "seen":
                if len(seen) < args[0]:
                    wait = time.monotonic() + HANG_S
                    while len(seen) < args[0] and time.monotonic() < wait:
                        look(me, seen)
                pipe.send(list(seen))
                seen.clear()
            else:
                break
    pipe.send(None)


def look(agent, seen):
    for messages in agent.agent.get_new_notifs().values():
        seen.extend([time.perf_counter()] * len(messages))


class Pair:
    """An initiator here, a target there."""

    def __init__(self, o, path, backend, where, layer_bytes):
        params = dict(text.split("=", 1) for text in o.param) if backend == "TCPX" else {}
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self.o, self.layer_bytes = o, layer_bytes
        self.process = context.Process(target=target, daemon=True,
                                       args=(far, o, path, backend, params, layer_bytes))
        self.process.start()
        self.me = Agent("initiator", backend, "best", params)
        self.cache = Cache(self.me, where, o, layer_bytes)
        metadata, self.addresses, self.far_kind, self.far_gpu, far_s = self.take()
        self.registered_s = max(self.cache.registered_s, far_s)
        self.me.agent.add_remote_agent(metadata)
        self.pipe.send(self.me.agent.get_agent_metadata())
        self.take()

    def take(self):
        if not self.pipe.poll(HANG_S):
            raise RuntimeError("the target does not answer")
        return self.pipe.recv()

    def ask(self, *what):
        self.pipe.send(what)
        return self.take()

    def descriptors(self, addresses, kind, gpu, where, block):
        rows = numpy.empty((len(where), 3), dtype=numpy.uint64)
        rows[:, 0] = [addresses[layer] + index * block for layer, index in where]
        rows[:, 1], rows[:, 2] = block, gpu
        return self.me.agent.get_xfer_descs(rows, kind)

    def request(self, op, block, near, far, note):
        mine = [t.address for t in self.cache.tensors]
        return self.me.agent.initialize_xfer(
            op, self.descriptors(mine, self.cache.kind, self.cache.gpu, near, block),
            self.descriptors(self.addresses, self.far_kind, self.far_gpu, far, block),
            "target", note)

    def rest(self):
        if self.o.gap_ms:
            time.sleep(self.o.gap_ms / 1e3)

    def run(self, handles):
        """Posts all, waits for all; the times of the first post and of the last DONE."""
        began = time.perf_counter()
        states = [self.me.agent.transfer(handle) for handle in handles]
        while "PROC" in states:
            states = [self.me.agent.check_xfer_state(h) if s == "PROC" else s
                      for h, s in zip(handles, states)]
        ended = time.perf_counter()
        if set(states) != {"DONE"}:
            raise RuntimeError(f"a request ended {states}")
        return began, ended

    def measure(self, op, block, count, seed):
        """Times of requests, each with places of its own; compares all bytes at the end."""
        o, blocks = self.o, self.layer_bytes // block
        source_seed, times, prepared, moves = seed * 1000, [], [], []
        begin = source_seed + 500
        self.pipe.send(("fill", begin if op == "WRITE" else source_seed))
        self.cache.fill(source_seed if op == "WRITE" else begin)
        self.take()
        used = cpu() + self.ask("cpu")
        for i in range(o.requests):
            handles = []
            for k in range(o.depth):
                near = places(seed + 2 * (i * o.depth + k), o.layers, blocks, count)
                far = places(seed + 2 * (i * o.depth + k) + 1, o.layers, blocks, count)
                moves += zip(near, far) if op == "WRITE" else zip(far, near)
                handles.append((near, far))
            self.rest()
            made = time.perf_counter()
            handles = [self.request(op, block, near, far, b"%d" % i) for near, far in handles]
            prepared.append(time.perf_counter() - made)
            began, ended = self.run(handles)
            noted = self.ask("seen", o.depth)
            if len(noted) != o.depth:
                raise RuntimeError(f"{len(noted)} notifications, not {o.depth}")
            times.append(max([ended, *noted]) - began)
            for handle in handles:
                self.me.agent.release_xfer_handle(handle)
        used = cpu() + self.ask("cpu") - used
        self.compare(op, begin, source_seed, moves, block)
        moved = block * count * o.depth
        ordered = sorted(times)
        return {"us": statistics.median(times) * 1e6, "first_us": times[0] * 1e6,
                "p99_us": ordered[len(times) * 99 // 100] * 1e6,
                "GBps": moved / statistics.median(times) / 1e9,
                "prepare_us": statistics.median(prepared) * 1e6,
                "cpu_s_per_GB": used / (moved * len(times)) * 1e9}

    def compare(self, op, begin, source_seed, moves, block):
        before = [pattern(self.layer_bytes, begin + i) for i in range(self.o.layers)]
        want = expected(before, source_seed, moves, block, self.layer_bytes)
        got = self.ask("read") if op == "WRITE" else self.cache.read()
        for layer, (w, g) in enumerate(zip(want, got)):
            if not numpy.array_equal(w, g):
                raise RuntimeError(f"{int((w != g).sum())} wrong bytes in layer {layer}")

    def close(self):
        self.pipe.send(("end",))
        self.take()
        del self.me
        self.process.join(HANG_S)


def initiator(pipe, o, path, backend, shapes, layer_bytes, repeat):
    """One pair of agents, all shapes: in a process of its own, whose environment fits."""
    os.dup2(2, 1)
    where = side(o.mem, o.own_gpu_only, path, backend)
    pair = Pair(o, path, backend, where, layer_bytes)
    rows = {("register", ): {"ms": pair.registered_s * 1e3}}
    for block, count in shapes:
        for op in o.op.split(","):
            rows[(op, block, count)] = pair.measure(op, block, count, repeat * 100 + 1)
    pair.close()
    pipe.send(rows)


def copy_rates(pipe, o, totals):
    """GB/s of copies of so many bytes from one GPU to the other by the driver."""
    near = Memory(o.mem, max(totals))
    far = Memory(o.remote_mem or o.mem, max(totals))
    if near.gpu != far.gpu:
        near.call("cuCtxSetCurrent", near.context)
        near.call("cuCtxEnablePeerAccess", far.context, 0)
    rates = []
    for total in totals:
        times = []
        for _ in range(20):
            began = time.perf_counter()
            near.call("cuMemcpyAsync", ctypes.c_uint64(near.address),
                      ctypes.c_uint64(far.address), ctypes.c_size_t(total), None)
            near.call("cuCtxSynchronize")
            times.append(time.perf_counter() - began)
        rates.append(total / statistics.median(times) / 1e9)
    pipe.send(rates)


def in_process(function, *args):
    """The result of function(pipe, *args) in a process of its own; None: it failed."""
    context = multiprocessing.get_context("spawn")
    near, far = context.Pipe()
    process = context.Process(target=function, args=(far, *args))
    process.start()
    far.close()
    try:
        result = near.recv()
    except EOFError:
        result = None
    process.join(HANG_S)
    return result


def spread(values):
    return f"{statistics.median(values):.1f} [{min(values):.1f}-{max(values):.1f}]"


def text_of(key):
    if key[0] == "register":
        return "register the cache"
    op, block, count = key
    return f"{'one copy of' if op == 'copy' else op} {count} × {block >> 10} KiB"


def row_name(key, path, backend):
    if key[0] == "copy":
        return f"{text_of(key)}, by the driver"
    return f"{text_of(key)}, {'same host' if path == 'host' else path}, {backend}"


def tables(o, rows, repetitions):
    """What --store keeps: rates and times of the requests, and times of the registration. Not the
    CPU time: both ends look without a break, also during the rest."""
    where = {o.mem, o.remote_mem or o.mem}
    gpus = sum(w.startswith("VRAM") for w in where)
    memory = f"{gpus} GPU{'s'[:gpus - 1]}" if gpus == len(where) else " and ".join(sorted(where))
    memory = "host memory" if not gpus else memory
    memory += f", in segments of {o.segments} MiB" if o.segments else ""
    flight = "one request" if o.depth == 1 else f"{o.depth} requests"
    rest = f"after {o.gap_ms:g} ms of rest" if o.gap_ms else "at a time"
    kept = {o.table: {
        "title": f"Paged KV cache, {memory}, {flight} {rest}",
        "repetitions": repetitions,
        "columns": store.columns("request, path, backend", "GB/s", 2) +
                   store.columns("", "ms", 3)[1:],
        "rows": []},
        f"{o.table}-register": {
        "title": f"Registering {o.layers} tensors through NIXL, the slower end",
        "repetitions": repetitions,
        "columns": store.columns("path, backend", "ms", 1),
        "rows": []}}
    for (key, path, backend), values in sorted(rows.items()):
        if key[0] == "register":
            kept[f"{o.table}-register"]["rows"].append(
                [f"{path} {backend}", *store.spread([v["ms"] for v in values])])
            continue
        cells = store.spread([v["GBps"] for v in values])
        times = [v["us"] for v in values if "us" in v]
        kept[o.table]["rows"].append([row_name(key, path, backend), *cells,
                                      *(store.spread(times, 1e-3) if times else [None] * 3)])
    return kept


def main():
    o = options()
    shapes = [(size_of(block), int(count)) for block, _, count in
              (text.partition("x") for text in o.request.split(","))]
    largest = max(-(-count // o.layers) * block for block, count in shapes) * o.cache
    unit = max(block for block, _ in shapes)
    layer_bytes = -(-largest // unit) * unit
    rows, failed, done, began = {}, 0, 0, time.monotonic()
    for repeat in range(o.repeat):
        if (time.monotonic() - began) * (done + 1) > o.limit * done > 0:
            break
        for path in o.path.split(","):
            for backend in o.backend.split(","):
                got = in_process(initiator, o, path, backend, shapes, layer_bytes, repeat)
                failed += got is None
                for key, value in (got or {}).items():
                    rows.setdefault((key, path, backend), []).append(value)
                print(f"nixl_kv.py: repetition {repeat + 1} of {o.repeat}, {path}, {backend}: "
                      f"{time.monotonic() - began:.0f} s after the start", file=sys.stderr)
        if o.mem.startswith("VRAM") and (o.remote_mem or o.mem).startswith("VRAM"):
            rates = in_process(copy_rates, o, [block * count for block, count in shapes])
            failed += rates is None
            for (block, count), rate in zip(shapes, rates or []):
                rows.setdefault((("copy", block, count), "driver", "-"), []).append({"GBps": rate})
        done += 1
    for (key, path, backend), values in sorted(rows.items()):
        told = "  ".join(f"{name} {spread([v[name] for v in values])}" for name in values[0])
        print(f"{text_of(key):24} {path:6} {backend:5} {told}", flush=True)
    if o.store:
        store.keep(tables(o, rows, done))
    if o.json:
        with open(o.json, "w", encoding="utf-8") as file:
            json.dump([{"row": text_of(key), "path": path, "backend": backend, "values": values}
                       for (key, path, backend), values in rows.items()], file, indent=1)
    if failed:
        print(f"nixl_kv.py: {failed} measurements failed; their messages are above",
              file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
