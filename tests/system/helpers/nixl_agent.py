# SPDX-License-Identifier: Apache-2.0
"""One NIXL agent that lines of JSON drive: [method, arguments...] in, {"value"} or {"error"} out.

Runs in the environment of a released NIXL; knows nothing of the tests."""
import base64
import ctypes
import json
import multiprocessing
import os
import signal
import sys
import time

import numpy


def nixl():
    for name in ("nixl_cu12", "nixl_cu13"):
        try:
            return __import__(name + "._api", fromlist=["_api"])
        except ImportError:
            continue
    raise SystemExit("no NIXL in this Python")


class Host:
    """Bytes of the host."""

    def __init__(self, length):
        self.array = numpy.zeros(length, dtype=numpy.uint8)
        self.address = self.array.ctypes.data

    def fill(self, value, off, length):
        self.array[off:off + length] = value

    def read(self, off, length):
        return self.array[off:off + length]


class Gpu:
    """Bytes of a GPU of the stand-in, which lets nobody touch them by their address."""

    def __init__(self, length, gpu):
        self.cuda = ctypes.CDLL(os.environ["TCPX_CUDA_LIBRARY"])
        context, address = ctypes.c_void_p(), ctypes.c_uint64()
        assert not self.cuda.cuInit(0)
        assert not self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu)
        assert not self.cuda.cuCtxPushCurrent_v2(context)
        assert not self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(length))
        assert not self.cuda.cuCtxPopCurrent_v2(ctypes.byref(context))
        self.address = address.value

    def fill(self, value, off, length):
        data = bytes([value]) * length
        assert not self.cuda.fakecuda_write(ctypes.c_uint64(self.address + off), data,
                                            ctypes.c_size_t(length))

    def read(self, off, length):
        data = ctypes.create_string_buffer(length)
        assert not self.cuda.fakecuda_read(ctypes.c_uint64(self.address + off), data,
                                           ctypes.c_size_t(length))
        return numpy.frombuffer(data.raw, dtype=numpy.uint8)


class Commands:
    """What a line may ask for."""

    def __init__(self):
        self.api = nixl()
        self.agent, self.backend = None, None
        self.memory, self.kind, self.gpu, self.length = None, "DRAM", 0, 0
        self.handles = {}

    def create(self, name, backend, params, prog_thread=True):
        config = self.api.nixl_agent_config(enable_prog_thread=prog_thread, backends=[])
        self.agent, self.backend = self.api.nixl_agent(name, config), backend
        self.agent.create_backend(backend, params)
        return self.agent.get_plugin_list()

    def create_more(self, backend):
        self.agent.create_backend(backend)

    def options(self, backend):
        return self.agent.get_plugin_params(backend)

    def register(self, length, kind="DRAM", gpu=0):
        self.kind, self.gpu, self.length = kind, gpu, length
        self.memory = Host(length) if kind == "DRAM" else Gpu(length, gpu)
        self.agent.register_memory([(self.memory.address, length, gpu, "")], kind,
                                   backends=[self.backend])
        return self.memory.address

    def register_again(self):
        """The same memory: whatever still had it has let go."""
        rows = [(self.memory.address, self.length, self.gpu, "")]
        descs = self.agent.get_reg_descs(rows, self.kind)
        self.agent.deregister_memory(descs, backends=[self.backend])
        self.agent.register_memory(descs, backends=[self.backend])

    def unregister(self):
        rows = [(self.memory.address, self.length, self.gpu, "")]
        self.agent.deregister_memory(self.agent.get_reg_descs(rows, self.kind),
                                     backends=[self.backend])

    def register_as(self, length, kind):
        """Memory of the host, called another kind."""
        memory = Host(length)
        self.agent.register_memory([(memory.address, length, 0, "")], kind,
                                   backends=[self.backend])

    def metadata(self):
        return base64.b64encode(self.agent.get_agent_metadata()).decode()

    def know(self, metadata):
        name = self.agent.add_remote_agent(base64.b64decode(metadata))
        return name.decode() if isinstance(name, bytes) else name

    def forget(self, name):
        self.agent.remove_remote_agent(name)

    def connect(self, name):
        self.agent.make_connection(name)

    def fill(self, value, off, length):
        self.memory.fill(value, off, length)

    def count(self, value, off, length):
        return int((self.memory.read(off, length) == value).sum())

    def prepare(self, handle, op, peer, near, far, far_kind="DRAM", far_gpu=0, message=b""):
        """near: [[offset, length]...] here; far: [[address, length]...] there."""
        mine = self.agent.get_xfer_descs([(self.memory.address + off, length, self.gpu)
                                          for off, length in near], self.kind)
        theirs = self.agent.get_xfer_descs([(at, length, far_gpu) for at, length in far], far_kind)
        message = message.encode() if isinstance(message, str) else message
        self.handles[handle] = self.agent.initialize_xfer(op, mine, theirs, peer, message)

    def post(self, handle, message=None):
        return self.agent.transfer(self.handles[handle], *([message.encode()] if message else []))

    def state(self, handle):
        return self.agent.check_xfer_state(self.handles[handle])

    def end(self, handle):
        """Its state once it is no longer under way; NIXL has looks and no event."""
        while (state := self.agent.check_xfer_state(self.handles[handle])) == "PROC":
            os.sched_yield()
        return state

    def release(self, handle):
        self.agent.release_xfer_handle(self.handles[handle])

    def cost(self, handle):
        return self.agent.estimate_xfer_cost(self.handles[handle])[0]

    def notify(self, peer, message):
        self.agent.send_notif(peer, message.encode())

    def notes(self, count):
        """The next count of them, by sender, in order."""
        got = {}
        while sum(map(len, got.values())) < count:
            for sender, messages in self.agent.get_new_notifs().items():
                sender = sender.decode() if isinstance(sender, bytes) else sender
                got.setdefault(sender, []).extend(text.decode() for text in messages)
            os.sched_yield()
        return got

    def fork(self):
        """A worker of multiprocessing that only waits; its pid."""
        worker = multiprocessing.get_context("fork").Process(target=signal.pause)
        worker.start()
        return worker.pid

    def cpu(self):
        return time.process_time()

    def destroy(self):
        self.handles.clear()
        self.agent = None


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1) # NIXL prints there
    commands = Commands()
    for line in sys.stdin:
        method, *args = json.loads(line)
        try:
            answer = {"value": getattr(commands, method)(*args)}
        except Exception as error: # whatever it is, the test judges it
            answer = {"error": type(error).__name__, "text": str(error)}
        print(json.dumps(answer), file=out, flush=True)


main()
