# SPDX-License-Identifier: Apache-2.0
"""A peer that was stopped, frozen or cut off lives on: the next request of a released NIXL finds it
without new metadata. And one that ends in order is gone, not refusing."""
import contextlib
import os
import pathlib
import signal
import subprocess

import pytest

from conftest import stop
from netns import LONG, hosts # noqa: F401
from test_nixl import (FORGETFUL, MIB, PLAIN, fixture_agents, fixture_nixl, # noqa: F401
                       fixture_plugin, meet, move) # noqa: F401

BIG = 16 * MIB
# The short form lowers the limits; the long one keeps the defaults, 10 s stopped and 5 s silent.
STOPPED = {} if LONG else {"stopped_ms": "3000"}
SILENT = {} if LONG else {"silent_ms": "1000"}
STOP_S, CUT_S = (14, 120) if LONG else (0, 0)


class Freezer:
    """A group of processes that the kernel freezes, of cgroup v2 or of v1."""

    def __init__(self, pid):
        name = f"tcpx-freezer-{pid}"
        for line in pathlib.Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
            _, where, kind, options = line.split()[:4]
            if kind != "cgroup2" and not (kind == "cgroup" and "freezer" in options.split(",")):
                continue
            self.folder = pathlib.Path(where) / name
            with contextlib.suppress(OSError):
                self.folder.mkdir()
                self.words = {"cgroup.freeze": ("1", "0"), "freezer.state": ("FROZEN", "THAWED")}
                for self.file, (self.freeze, self.thaw) in self.words.items():
                    if (self.folder / self.file).exists():
                        (self.folder / "cgroup.procs").write_text(str(pid), encoding="utf-8")
                        return
                self.folder.rmdir()
        pytest.skip("no cgroup freezer can be used here")

    def write(self, word):
        (self.folder / self.file).write_text(word, encoding="utf-8")

    def stop(self):
        self.write(self.freeze)

    def go_on(self):
        self.write(self.thaw)

    def end(self):
        self.go_on()
        procs = (self.folder / "cgroup.procs").read_text(encoding="utf-8").split()
        for pid in procs:
            (self.folder.parent / "cgroup.procs").write_text(pid, encoding="utf-8")
        self.folder.rmdir()


class Signals:
    """The same by SIGSTOP."""

    def __init__(self, pid):
        self.pid = pid

    def stop(self):
        stop(self.pid)

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)

    def end(self):
        self.go_on()


def under_way(near, at):
    """A request that ends with the link."""
    near("prepare", "lost", "READ", "far", [(0, BIG)], [(at, BIG)])
    assert near("post", "lost") == "PROC"
    with pytest.raises(RuntimeError, match="nixlRemoteDisconnectError"):
        near("end", "lost")


def used_again(near, far, at, known=True):
    """Everything works as if nothing had been, from the first request on: one that was prepared
    over the old link, then new ones; notifications both ways."""
    try:
        posted = near("post", "kept")
    except RuntimeError as error:
        assert FORGETFUL and "nixlNotFoundError" in str(error)
        near("release", "kept")
        near("know", far("metadata"))
        keep(near, at)
        posted = near("post", "kept")
    assert posted in ("PROC", "DONE")
    assert near("end", "kept") == "DONE"
    assert far("notes", 1) == {"near": ["kept"]}
    for op in ("WRITE", "READ"):
        move(near, far, op, at, 4 * MIB)
    near("notify", "far", "there")
    assert far("notes", 1) == {"near": ["there"]}
    if known:
        far("notify", "near", "back")
        assert near("notes", 1) == {"far": ["back"]}


def keep(near, at):
    near("prepare", "kept", "READ", "far", [(0, MIB)], [(at, MIB)], "DRAM", 0, "kept")


@pytest.mark.parametrize("road, by, busy", [
    ("tcp", Signals, True), ("local", Signals, False), ("local", Freezer, True),
    *([("tcp", Signals, False), ("local", Signals, True), ("tcp", Freezer, True),
       ("tcp", Freezer, False), ("local", Freezer, False)] if LONG else [])])
def test_stopped_and_back(nixl, agents, road, by, busy):
    params = {**PLAIN, **STOPPED, "nixl_transport": road}
    near, far = (agents(nixl, env={"TCPX_LOG": "info"}) for _ in range(2))
    at = meet(near, far, BIG, near_params=params, far_params=params)
    move(near, far, "WRITE", at, MIB)
    keep(near, at)
    stopper = by(far.process.pid)
    try:
        stopper.stop()
        if STOP_S:
            with contextlib.suppress(subprocess.TimeoutExpired):
                far.process.wait(STOP_S)
        if busy:
            under_way(near, at)
        near.until_said("peer 'far': peer stopped")
    finally:
        stopper.end()
    used_again(near, far, at)


@pytest.mark.usefixtures("with_crypto")
@pytest.mark.parametrize("cut, busy, known", [
    ("both", True, False), ("input", True, True), ("output", True, True),
    *([("both", False, True), ("both", True, True), ("input", False, False),
       ("output", False, False)] if LONG else [])])
def test_cut_off_and_back(nixl, agents, hosts, cut, busy, known): # noqa: F811
    """known: either side may dial the other one again."""
    near, far = (agents(nixl, before=host.argv(), env={"TCPX_LOG": "info"})
                 for host in (hosts.a, hosts.b))
    near("create", "near", "TCPX", SILENT)
    far("create", "far", "TCPX", SILENT)
    near("register", BIG)
    at = far("register", BIG)
    assert near("know", far("metadata")) == "far"
    if known:
        assert far("know", near("metadata")) == "near"
    move(near, far, "READ", at, MIB)
    keep(near, at)
    for hook in ("input", "output") if cut == "both" else (cut,):
        hosts.a.drop(hook)
    if CUT_S:
        with contextlib.suppress(subprocess.TimeoutExpired):
            far.process.wait(CUT_S)
    if busy:
        under_way(near, at)
    near.until_said("peer 'far': ")
    hosts.a.undrop()
    used_again(near, far, at, known)


@pytest.mark.parametrize("road", ["tcp", "local"])
def test_ends_in_order(nixl, agents, road):
    """NIXL takes all memory back before it ends the backend: the peer went home, and refused
    nothing."""
    params, lost = {**PLAIN, "nixl_transport": road}, 0
    near = agents(nixl)
    near("create", "near", "TCPX", params)
    near("register", 64 * MIB)
    for _ in range(8 if LONG else 3):
        far = agents(nixl)
        far("create", "far", "TCPX", params)
        at = far("register", 64 * MIB)
        near("know", far("metadata"))
        move(near, far, "WRITE", at, 64 * MIB)
        names = [f"{op}{i}" for op in ("READ", "WRITE") for i in range(3)]
        for name in names:
            near("prepare", name, name[:-1], "far", [(0, 64 * MIB)], [(at, 64 * MIB)])
        for name in names:
            near("post", name)
        far("destroy")
        for name in names:
            try:
                assert near("end", name) == "DONE"
            except RuntimeError as error:
                forgot = FORGETFUL and lost and "nixlNotFoundError" in str(error)
                assert forgot or "nixlRemoteDisconnectError" in str(error)
                lost += 1
            near("release", name)
        near("forget", "far")
        far.kill()
    assert lost, "not one was under way"


def test_lives_and_refuses(nixl, agents):
    """One region that is taken back is refused, and the peer is none the worse."""
    near, far = agents(nixl), agents(nixl)
    at = meet(near, far, 4 * MIB)
    move(near, far, "READ", at, MIB)
    keep(near, at)
    far("register_again") # the same token again
    assert near("post", "kept") in ("PROC", "DONE")
    assert near("end", "kept") == "DONE"
    far("unregister")
    near("post", "kept")
    with pytest.raises(RuntimeError, match="nixlNotAllowedError"):
        near("end", "kept")
