# SPDX-License-Identifier: Apache-2.0
"""The NIXL plugin under a released NIXL: aborts, restarts and silence on every road; options that
are in force; the benchmark."""
import json
import os
import re
import resource
import signal
import subprocess
import time

import pytest

from conftest import HANG, TOP, Tool, stop
from netns import LONG, hosts, measure # noqa: F401
from test_nixl import (MIB, PLAIN, emulator, fixture_agents, fixture_nixl, # noqa: F401
                       fixture_plugin, meet, move)
from test_node import counted

BIG, EDGE = 16 * MIB, MIB # of what is aborted, and what comes behind it
FAR, NEAR, AGAIN = 1, 2, 3 # what memory is filled with


def starts(agents, nixl, road, tmp_path):
    """Two agents and how they meet on that road: init parameters and memory."""
    env = emulator(tmp_path, "cuda-host-bounce") if road == "gpudirect" else {"TCPX_LOG": "info"}
    memory = ("VRAM", 0) if road == "gpudirect" else ("DRAM", 0)
    return lambda: agents(nixl, env=env), {**PLAIN, "nixl_transport": road}, memory


def clean(road, tmp_path, *running):
    """Nothing was done that the plugin's rules forbid."""
    for one in running:
        one.end()
    if road == "gpudirect":
        assert counted(tmp_path)["violations"] == 0


@pytest.mark.parametrize("road", ["tcp", "local", "gpudirect"])
def test_aborted_while_the_peer_is_stopped(nixl, agents, road, tmp_path):
    start, params, memory = starts(agents, nixl, road, tmp_path)
    near, far = start(), start()
    at = meet(near, far, BIG + EDGE, near_params=params, far_params=params, near_memory=memory,
              far_memory=memory)
    near.until_said("peer 'far' is up: ")
    for op in ("WRITE", "READ"):
        move(near, far, op, at, MIB, far_memory=memory)
        near("fill", NEAR, 0, BIG + EDGE)
        far("fill", FAR, 0, BIG + EDGE)
        stop(far.process.pid)
        near("prepare", "x", op, "far", [(0, BIG)], [(at, BIG)], *memory, "never")
        assert near("post", "x") == "PROC"
        try:
            near("release", "x")
        except RuntimeError: # not quiet at once: the second call takes it
            near("release", "x")
        if road == "gpudirect":
            far.process.send_signal(signal.SIGCONT)
            near("register_again") # until when the plugin may read what it was given to send
        near("fill", AGAIN, 0, BIG + EDGE) # ours again
        far.process.send_signal(signal.SIGCONT)
        near("prepare", "y", "WRITE", "far", [(BIG, EDGE)], [(at + BIG, EDGE)], *memory, "after")
        near("post", "y")
        assert near("end", "y") == "DONE"
        near("release", "y")
        assert far("notes", 1) == {"near": ["after"]}
        assert near("count", AGAIN, 0, BIG + EDGE) == BIG + EDGE
        assert far("count", AGAIN, 0, BIG + EDGE) == EDGE
        if op == "READ":
            assert far("count", FAR, 0, BIG) == BIG
    clean(road, tmp_path, near, far)


def restart(near, far, start, op, params, memory):
    """The other one is killed in the middle and started again under its name."""
    at = meet(near, far, BIG, near_params=params, far_params=params, near_memory=memory,
              far_memory=memory)
    near.until_said("peer 'far' is up: ")
    move(near, far, op, at, MIB, far_memory=memory)
    stop(far.process.pid)
    near("prepare", "x", op, "far", [(0, BIG)], [(at, BIG)], *memory)
    assert near("post", "x") == "PROC"
    far.kill()
    with pytest.raises(RuntimeError, match="nixlRemoteDisconnectError"):
        near("end", "x")
    near("release", "x")
    near("forget", "far")
    again = start()
    again("create", "far", "TCPX", params)
    at = again("register", MIB, *memory)
    assert near("know", again("metadata")) == "far"
    near.until_said("peer 'far' is up: ", 2)
    for each in ("WRITE", "READ"):
        move(near, again, each, at, MIB, far_memory=memory)
    return again


@pytest.mark.parametrize("road", ["gpudirect", *(["tcp", "local"] if LONG else [])])
def test_started_again(nixl, agents, road, tmp_path):
    start, params, memory = starts(agents, nixl, road, tmp_path)
    near = start()
    again = restart(near, start(), start, "WRITE", params, memory)
    clean(road, tmp_path, near, again)


@pytest.mark.usefixtures("with_crypto")
def test_started_again_on_the_other_host(nixl, agents, hosts): # noqa: F811
    near, far = (agents(nixl, before=host.argv(), env={"TCPX_LOG": "info"})
                 for host in (hosts.a, hosts.b))
    restart(near, far, lambda: agents(nixl, before=hosts.b.argv(), env={"TCPX_LOG": "info"}),
            "READ", {}, ("DRAM", 0))


@pytest.mark.usefixtures("with_crypto")
@pytest.mark.parametrize("op", ["READ", *(["WRITE"] if LONG else [])])
def test_a_silent_peer_is_gone(nixl, agents, hosts, op): # noqa: F811
    """How soon is asserted in virtual time; here, that it ends, and how."""
    params = {} if LONG else {"silent_ms": "1000"}
    near, far = (agents(nixl, before=host.argv(), env={"TCPX_LOG": "info"})
                 for host in (hosts.a, hosts.b))
    at = meet(near, far, BIG, near_params=params, far_params=params)
    move(near, far, op, at, MIB)
    hosts.a.drop("input")
    hosts.a.drop("output")
    near("prepare", "x", op, "far", [(0, BIG)], [(at, BIG)])
    assert near("post", "x") == "PROC"
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="nixlRemoteDisconnectError"):
        near("end", "x")
    measure(f"NIXL {op}, silent peer, limit {params.get('silent_ms', 5000)} ms",
            time.monotonic() - begin, "s")
    near("release", "x")
    hosts.a.undrop()


@pytest.mark.parametrize("wish, has", [({}, 3), ({"channels": "2"}, 2)])
def test_a_parameter_is_in_force(nixl, agents, wish, has):
    env = {"TCPX_CHANNELS": "3", "TCPX_LOG": "info"}
    near, far = agents(nixl, env=env), agents(nixl, env=env)
    params = {**PLAIN, "nixl_transport": "tcp", **wish}
    at = meet(near, far, MIB, near_params=params, far_params=params)
    move(near, far, "WRITE", at, MIB)
    near.until_said(f"peer 'far' is up: tcp, {has} channels")


WRONG = """
import sys
sys.path.insert(0, "bench")
import nixl_two_agents as bench
read = bench.Memory.read
def one_wrong(self):
    data = read(self).copy()
    data[12345] ^= 1
    return data
bench.Memory.read = one_wrong
bench.main()
"""


def test_the_benchmark(nixl, plugin, tmp_path):
    (tmp_path / "libplugin_TCPX.so").symlink_to(plugin)
    env = Tool.environment({"NIXL_PLUGIN_DIR": str(tmp_path), "NIXL_LOG_LEVEL": "ERROR"})
    more = ["--repeat", "1", "--seconds", "0.05", "--mode", "best", "--param", "bind=127.0.0.1"]

    def bench(*argv):
        return subprocess.run([nixl, *argv, *more], cwd=TOP, env=env, capture_output=True,
                              text=True, timeout=HANG)

    out = tmp_path / "out.json"
    done = bench("bench/nixl_two_agents.py", "--shape", "64Kx16,1M", "--post", "100", "--json", out)
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())
    assert sorted(row["row"] for row in rows) == [
        "READ 1048576x1", "READ 65536x16", "WRITE 1048576x1", "WRITE 65536x16", "storm"]
    for row in rows:
        assert (row["backend"], row["mode"], len(row["values"])) == ("TCPX", "best", 1)
        assert min(row["values"][0].values()) > 0, row
    bad = bench("-c", WRONG, "--shape", "64K", "--op", "READ")
    assert bad.returncode == 1 and "1 wrong bytes" in bad.stderr, bad.stderr


@pytest.mark.parametrize("road", ["tcp", "local"])
def test_a_forked_worker_keeps_no_link(nixl, agents, road, tmp_path):
    """A worker of multiprocessing, forked behind import nixl, outlives its parent: the parent's end
    is heard as that of any process, not by its silence."""
    start, params, _ = starts(agents, nixl, road, tmp_path)
    near, far = start(), start()
    at = meet(near, far, BIG, near_params=params, far_params=params)
    near.until_said("peer 'far' is up: ")
    worker = far("fork")
    try:
        move(near, far, "WRITE", at, MIB)  # the parent works on
        stop(far.process.pid)
        near("prepare", "x", "READ", "far", [(0, BIG)], [(at, BIG)])
        assert near("post", "x") == "PROC"
        far.kill()
        with pytest.raises(RuntimeError, match="nixlRemoteDisconnectError"):
            near("end", "x")
        assert re.search(r"peer 'far': .*(reset by peer|closed the connection)", near.said())
        assert "silent" not in near.said()
        os.kill(worker, 0)  # it is there still
    finally:
        os.kill(worker, signal.SIGKILL)


@pytest.mark.parametrize("road", ["tcp", "local"])
def test_a_peer_that_exits_gives_one_line(nixl, agents, road, tmp_path):
    """Neither one per channel nor one per transfer, attempt to connect or notification: those are
    counted."""
    start, params, memory = starts(agents, nixl, road, tmp_path)
    near, far = start(), start()
    at = meet(near, far, 4 * MIB, near_params=params, far_params=params, near_memory=memory,
              far_memory=memory)
    near.until_said("peer 'far' is up: ")
    move(near, far, "WRITE", at, MIB, far_memory=memory)
    before = len(near.said())
    stop(far.process.pid)
    reads = [f"read{i}" for i in range(4)]
    for name in reads:
        near("prepare", name, "READ", "far", [(0, MIB)], [(at, MIB)], *memory)
        assert near("post", name) == "PROC"
    far.kill()
    for name in reads:
        with pytest.raises(RuntimeError, match="Disconnect|NotFound"):
            near("end", name)
    # While the link is dialled again notifications are taken, and lost when the dial fails.
    refused = dials = 0
    taken = False
    while refused < 20 or dials < 4:
        try:
            near("notify", "far", "x")
            taken = True
        except RuntimeError:
            refused += 1
            dials += taken
            taken = False
    near("destroy")
    said = [line for line in near.said()[before:].splitlines() if "tcpx: " in line]
    for text in ("channels ended)", "control link lost", "live on", "INFO peer 'far': connecting",
                 "a transfer ended: ", "genNotif: ", "while it connected are lost"):
        lines = [line for line in said if text in line and "more" not in line]
        assert len(lines) <= 1, said
    assert sum("channels ended)" in line for line in said) == 1, said
    lost = [line for line in said if " WARN " in line and " channel " in line]
    assert len(lost) == 1, said
    counted_more = [int(re.search(r"\((\d+) more times\)", line)[1]) for line in said
                    if "genNotif: " in line and "more times" in line]
    assert sum(counted_more) >= 10, said


def limited(nixl, agents, soft, hard):
    """An agent whose process may open so many files, and another one that it knows."""
    near, far = agents(nixl, env={"TCPX_LOG": "info"}), agents(nixl)
    resource.prlimit(near.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
    at = meet(near, far, MIB)
    move(near, far, "WRITE", at, MIB)
    return near, resource.prlimit(near.process.pid, resource.RLIMIT_NOFILE)


def test_few_open_files_are_raised(nixl, agents):
    near, limit = limited(nixl, agents, 140, 3000)
    assert limit == (3000, 3000)
    assert near.said().count("the limit of open files is raised from 140 to 3000") == 1


def test_enough_open_files_are_left(nixl, agents):
    near, limit = limited(nixl, agents, 600, 3000)
    assert limit == (600, 3000)
    assert "open files" not in near.said()


def test_too_few_open_files_are_named(nixl, agents):
    near, limit = limited(nixl, agents, 130, 140)
    assert limit == (140, 140)
    assert near.said().count("may need 149 open files, and 140 are allowed; next: ") == 1
