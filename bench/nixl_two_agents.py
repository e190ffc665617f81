#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two NIXL agents in two processes move checked data over any backend, and tell how fast.

Needs a NIXL in this Python (a released wheel, and numpy). Each row is measured in turn for all
backends named, as many times as --repeat says, so that they meet the same machine."""
import argparse
import ctypes
import importlib.metadata
import json
import math
import multiprocessing
import os
import re
import resource
import socket
import statistics
import sys
import time

import numpy

import store

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
HANG_S = 120 # a guard, never a verdict
# Of the backend "UCX+tuned": larger calls of its sockets, which gained most of what was tried.
TUNED = {"UCX_TCP_TX_SEG_SIZE": "256K", "UCX_TCP_RX_SEG_SIZE": "256K"}


def size_of(text):
    number = text.rstrip("KMGiB")
    return int(number) * UNITS[text[len(number):][:1]]


def options():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--backend", default="TCPX",
                   help="comma list, e.g. TCPX,UCX+tuned,UCX; tuned: " + ", ".join(
                       "=".join(pair) for pair in TUNED.items()) + " [TCPX]")
    p.add_argument("--op", default="READ,WRITE", help="[READ,WRITE]")
    p.add_argument("--shape", default="64Kx1024,1M,16M,64M",
                   help="comma list of BLOCK or BLOCKxCOUNT [64Kx1024,1M,16M,64M]")
    p.add_argument("--mem", default="DRAM", help="the initiator's: DRAM, or VRAM[:GPU] [DRAM]")
    p.add_argument("--remote-mem", help="the target's [as --mem]")
    p.add_argument("--mode", default="best,default",
                   help="best: no progress thread, both spin; default: a progress thread and looks "
                        "every 50 us; the better one counts [best,default]")
    p.add_argument("--repeat", type=int, default=5, help="repetitions [5]")
    p.add_argument("--seconds", type=float, default=0.5, help="of each measurement [0.5]")
    p.add_argument("--param", action="append", default=[], metavar="KEY=VALUE",
                   help="init parameter of TCPX")
    p.add_argument("--latency", action="store_true", help="notifications one way, and idle agents")
    p.add_argument("--post", type=int, default=0, metavar="N",
                   help="also: a post of N descriptors, and N registrations")
    p.add_argument("--json", metavar="FILE", help="all values")
    p.add_argument("--store", action="store_true", help="keep the rates in bench/results")
    return p.parse_args()


class Memory:
    """Memory to register: of the host, or of a GPU. If segment_bytes is not 0, GPU memory is mapped
    in allocations of that many bytes, as PyTorch's expandable segments are."""

    def __init__(self, where, length, segment_bytes=0):
        self.kind, _, gpu = where.partition(":")
        self.gpu, self.length = int(gpu or 0), length
        if self.kind == "DRAM":
            self.array = numpy.zeros(length, dtype=numpy.uint8)
            self.address = self.array.ctypes.data
            return
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context, address = ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.gpu)
        self.call("cuCtxSetCurrent", context)
        if segment_bytes:
            self.map_segments(address, segment_bytes)
        else:
            self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(length))
        self.context, self.address = context, address.value

    def map_segments(self, address, segment):
        """Maps adjacent allocations that other processes can open. Sets `address`."""
        place = [1, self.gpu] # CU_MEM_LOCATION_TYPE_DEVICE
        # CUmemAllocationProp: pinned, exportable as a descriptor, on the GPU, no flags
        prop = (ctypes.c_int * 8)(1, 1, *place)
        access = (ctypes.c_int * 3)(*place, 3) # CUmemAccessDesc: read and write
        count = -(-self.length // segment)
        self.call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(count * segment),
                  ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
        for i in range(count):
            at, part = ctypes.c_uint64(address.value + i * segment), ctypes.c_uint64()
            self.call("cuMemCreate", ctypes.byref(part), ctypes.c_size_t(segment), prop,
                      ctypes.c_uint64(0))
            self.call("cuMemMap", at, ctypes.c_size_t(segment), ctypes.c_size_t(0), part,
                      ctypes.c_uint64(0))
            self.call("cuMemSetAccess", at, ctypes.c_size_t(segment), access, ctypes.c_size_t(1))

    def call(self, name, *args):
        if code := getattr(self.cuda, name)(*args):
            raise RuntimeError(f"{name}: CUDA error {code}")

    def write(self, data):
        if self.kind == "DRAM":
            self.array[:] = data
        else:
            self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address),
                      ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(self.length))

    def read(self):
        if self.kind == "DRAM":
            return self.array
        data = numpy.empty(self.length, dtype=numpy.uint8)
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(data.ctypes.data),
                  ctypes.c_uint64(self.address), ctypes.c_size_t(self.length))
        return data

    def differ(self, seed, length):
        """Bytes of the first length that are not the pattern's."""
        return int((self.read()[:length] != pattern(self.length, seed)[:length]).sum())


def pattern(length, seed):
    words = numpy.random.Generator(numpy.random.SFC64(seed)).integers(
        0, 1 << 64, length // 8 + 1, dtype=numpy.uint64) # ten times as fast as single bytes
    return words.view(numpy.uint8)[:length]


def scattered(count):
    """0 to count - 1 in an order in which none follows its neighbour: or a backend may move a list
    as one piece."""
    step = next(n for n in range(count * 3 // 8 + 2, count + 3) if math.gcd(n, count) == 1)
    return numpy.arange(count, dtype=numpy.uint64) * numpy.uint64(step) % numpy.uint64(count)


class Agent:
    """One end: an agent with one backend, its memory, and what it measures."""

    def __init__(self, name, backend, mode, params):
        nixl = import_nixl()
        config = nixl.nixl_agent_config(enable_prog_thread=mode == "default", backends=[])
        self.agent = nixl.nixl_agent(name, config)
        self.backend, self.pause = backend, 50e-6 if mode == "default" else 0
        self.agent.create_backend(backend, params)

    def register(self, memory):
        self.memory = memory
        self.agent.register_memory([(memory.address, memory.length, memory.gpu, "")],
                                   memory.kind, backends=[self.backend])

    def look(self):
        if self.pause:
            time.sleep(self.pause)

    def descriptors(self, memory_kind, address, block, count, gpu):
        rows = numpy.empty((count, 3), dtype=numpy.uint64)
        rows[:, 0] = address + scattered(count) * numpy.uint64(block)
        rows[:, 1], rows[:, 2] = block, gpu
        return self.agent.get_xfer_descs(rows, memory_kind)

    def run(self, handle):
        began = time.perf_counter()
        state = self.agent.transfer(handle)
        posted = time.perf_counter() - began
        while state == "PROC":
            self.look()
            state = self.agent.check_xfer_state(handle)
        if state != "DONE":
            raise RuntimeError(f"the transfer ended {state}")
        return posted


def import_nixl():
    for name in ("nixl_cu12", "nixl_cu13", "nixl"):
        try:
            return __import__(name + "._api", fromlist=["_api"])
        except ImportError:
            continue
    raise SystemExit("no NIXL in this Python: pip install --no-deps nixl-cu12 numpy")


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def target(pipe, backend, mode, params, where, length):
    """Answers commands; between them it lives as an application does: it looks at its notes."""
    os.dup2(2, 1) # what backends print is no result
    me = Agent("target", backend, mode, params)
    me.register(Memory(where, length))
    pipe.send((me.agent.get_agent_metadata(), me.memory.address))
    me.agent.add_remote_agent(pipe.recv())
    pipe.send(None)
    echo = False
    while True:
        if pipe.poll(0):
            what, *args = pipe.recv()
            if what == "fill":
                me.memory.write(pattern(length, args[0]))
                pipe.send(None)
            elif what == "check":
                pipe.send(me.memory.differ(*args))
            elif what == "cpu":
                pipe.send(cpu())
            elif what == "echo":
                echo = args[0]
                pipe.send(None)
            elif what == "sleep":
                time.sleep(args[0])
                pipe.send(cpu())
            else:
                break
        for sender, messages in me.agent.get_new_notifs().items():
            for message in messages if echo else ():
                me.agent.send_notif(sender, message)
        me.look()
    del me
    pipe.send(None)


def summary(times):
    times.sort()
    return {"p50_us": times[len(times) // 2], "p99_us": times[len(times) * 99 // 100]}


class Pair:
    """An initiator here, a target there."""

    def __init__(self, o, backend, mode, length):
        backend, _, tuned = backend.partition("+")
        params = dict(text.split("=", 1) for text in o.param) if backend == "TCPX" else {}
        for name, value in TUNED.items():
            os.environ.pop(name, None)
            if tuned:
                os.environ[name] = value # read when a backend is created, here and in the child
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self.length = length
        self.process = context.Process(target=target, daemon=True, args=(
            far, backend, mode, params, o.remote_mem or o.mem, length))
        self.process.start()
        self.me = Agent("initiator", backend, mode, params)
        self.me.register(Memory(o.mem, length))
        metadata, self.address = self.take()
        self.me.agent.add_remote_agent(metadata)
        self.pipe.send(self.me.agent.get_agent_metadata())
        self.take()
        self.remote = (o.remote_mem or o.mem).partition(":")

    def take(self):
        if not self.pipe.poll(HANG_S):
            raise RuntimeError("the target does not answer")
        return self.pipe.recv()

    def ask(self, *what):
        self.pipe.send(what)
        return self.take()

    def transfer(self, op, block, count):
        near = self.me.descriptors(self.me.memory.kind, self.me.memory.address, block, count,
                                   self.me.memory.gpu)
        far = self.me.descriptors(self.remote[0], self.address, block, count,
                                  int(self.remote[2] or 0))
        return self.me.agent.initialize_xfer(op, near, far, "target")

    def measure(self, op, block, count, seconds, seed):
        """GB/s, the median post in us, CPU seconds per GB of both; every byte is compared."""
        moved = block * count
        handle = self.transfer(op, block, count)
        self.me.memory.write(pattern(self.length, seed))
        self.ask("fill", seed + 1)
        self.me.run(handle)
        used, posts, began = cpu() + self.ask("cpu"), [], time.perf_counter()
        while not posts or time.perf_counter() - began < seconds:
            posts.append(self.me.run(handle))
        took = time.perf_counter() - began
        used = cpu() + self.ask("cpu") - used
        self.me.agent.release_xfer_handle(handle)
        if op == "WRITE":
            wrong = self.ask("check", seed, moved)
        else:
            wrong = self.me.memory.differ(seed + 1, moved)
        if wrong:
            raise RuntimeError(f"{wrong} wrong bytes")
        total = moved * len(posts)
        return {"GBps": total / took / 1e9, "post_us": statistics.median(posts) * 1e6,
                "cpu_s_per_GB": used / total * 1e9}

    def one_way(self, count=2000):
        """Half the way there and back of an 8-byte notification, us: median, 99th percentile."""
        self.ask("echo", True)
        times = []
        for i in range(count):
            began = time.perf_counter()
            self.me.agent.send_notif("target", b"%08d" % i)
            while not self.me.agent.get_new_notifs():
                self.me.look()
            times.append((time.perf_counter() - began) / 2 * 1e6)
        self.ask("echo", False)
        return summary(times)

    def idle(self, seconds=3):
        """Cores that two agents use while nobody asks them anything."""
        before = cpu() + self.ask("cpu")
        self.pipe.send(("sleep", seconds))
        time.sleep(seconds)
        return (cpu() + self.take() - before) / seconds

    def storms(self, count):
        """Posts of count descriptors of 64 bytes, us; and ms for as many registrations."""
        handle = self.transfer("WRITE", 64, count)
        posts = [self.me.run(handle) * 1e6 for _ in range(7)]
        self.me.agent.release_xfer_handle(handle)
        rows = [(self.me.memory.address + i * 64, 64, self.me.memory.gpu, "")
                for i in range(10000)]
        descs = self.me.agent.get_reg_descs(rows, self.me.memory.kind)
        began = time.perf_counter()
        self.me.agent.register_memory(descs, backends=[self.me.backend])
        took = time.perf_counter() - began
        self.me.agent.deregister_memory(descs, backends=[self.me.backend])
        return {"post_us": statistics.median(posts), "register_10000_ms": took * 1e3}

    def close(self):
        self.pipe.send(("end",))
        self.take()
        del self.me
        self.process.join(HANG_S)


def echo(port):
    """The other end of plain_one_way()."""
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := link.recv(64):
            link.sendall(data)


def plain_one_way(count=2000):
    """What one_way() is held against: two processes that block in recv() of one TCP connection."""
    times = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = multiprocessing.get_context("spawn").Process(
            target=echo, args=(server.getsockname()[1],), daemon=True)
        other.start()
        link = server.accept()[0]
    with link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(count):
            began = time.perf_counter()
            link.sendall(b"%08d" % i)
            if not link.recv(64):
                raise RuntimeError("the other end is gone")
            times.append((time.perf_counter() - began) / 2 * 1e6)
    other.join(HANG_S)
    return summary(times)


def spread(values):
    return f"{statistics.median(values):.2f} [{min(values):.2f}-{max(values):.2f}]"


def versions():
    """Of the NIXL in this Python and of the UCX in its wheel."""
    told = []
    for package in importlib.metadata.distributions():
        if re.fullmatch(r"nixl_cu\d+", package.metadata["Name"].replace("-", "_")):
            told.append(f"NIXL {package.version}")
            for file in package.files or []:
                if re.match(r"libucp[-.]", os.path.basename(file)):
                    library = ctypes.CDLL(str(package.locate_file(file)))
                    library.ucp_get_version_string.restype = ctypes.c_char_p
                    told.append(f"UCX {library.ucp_get_version_string().decode()}")
    return ", ".join(told)


def table(o, rows, shapes):
    """A row for each transfer: of each backend the mode with the better median, and the ratio of
    the first two backends' medians."""
    backends = o.backend.split(",")
    columns = [{"name": "transfer"}]
    for backend in backends:
        columns += [{"name": f"{backend}{what}", "unit": "GB/s", "digits": 2}
                    for what in ("", " least", " most")]
    if len(backends) > 1:
        columns.append({"name": " / ".join(backends[:2]), "digits": 2})
    lines = []
    for op in o.op.split(","):
        for block, count in shapes:
            line = [f"{op} {text_of(block)}" + (f" × {count}" if count > 1 else "")]
            for backend in backends:
                line += max((store.spread([v["GBps"] for v in values])
                             for (name, one, _), values in rows.items()
                             if name == f"{op} {block}x{count}" and one == backend))
            if len(backends) > 1:
                line.append(round(line[1] / line[4], 6))
            lines.append(line)
    return {"title": "Two NIXL agents, one transfer at a time", "repetitions": o.repeat,
            "versions": versions(), "columns": columns, "rows": lines}


def text_of(size):
    """65536: "64 KiB"."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def main():
    o = options()
    out = os.fdopen(os.dup(1), "w") # backends print to theirs
    os.dup2(2, 1)
    shapes = [(size_of(block), int(count or 1)) for block, _, count in
              (text.partition("x") for text in o.shape.split(","))]
    length = max([block * count for block, count in shapes] + [o.post * 64])
    rows = {}
    for repeat in range(o.repeat):
        if o.latency:
            rows.setdefault(("notification", "plain", "blocking"), []).append(plain_one_way())
        for mode in o.mode.split(","):
            for backend in o.backend.split(","):
                pair = Pair(o, backend, mode, length)
                for block, count in shapes:
                    for op in o.op.split(","):
                        seed = repeat * 100 + 1
                        value = pair.measure(op, block, count, o.seconds, seed)
                        rows.setdefault((f"{op} {block}x{count}", backend, mode), []).append(value)
                if o.latency:
                    rows.setdefault(("notification", backend, mode), []).append(pair.one_way())
                    rows.setdefault(("idle", backend, mode), []).append({"cores": pair.idle()})
                if o.post:
                    rows.setdefault(("storm", backend, mode), []).append(pair.storms(o.post))
                pair.close()
    for (name, backend, mode), values in sorted(rows.items()):
        told = "  ".join(f"{key} {spread([v[key] for v in values])}" for key in values[0])
        print(f"{name:18} {backend:5} {mode:8} {told}", file=out, flush=True)
    if o.store:
        store.keep({"nixl-two-agents" if o.mem == "DRAM" else "nixl-two-agents-gpu":
                    table(o, rows, shapes)})
    if o.json:
        with open(o.json, "w", encoding="utf-8") as file:
            json.dump([{"row": name, "backend": backend, "mode": mode, "values": values}
                       for (name, backend, mode), values in rows.items()], file, indent=1)
    out.flush()
    os._exit(0) # a backend that falls over at exit has been measured all the same


if __name__ == "__main__":
    sys.exit(main())
