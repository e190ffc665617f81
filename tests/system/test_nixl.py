# SPDX-License-Identifier: Apache-2.0
"""The NIXL plugin inside released NIXLs: two of their agents in two processes."""
import functools
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess

import pytest

import changes
from conftest import HANG, TOP, Tool, stop
from netns import Hosts, LONG, why_no_namespaces
from test_node import counted
from test_path_mtu import hole
from test_rails import isolated

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", TOP / "build"))
NEWEST = os.environ.get("NIXL_SPEC", "nixl-cu12==1.5.1")  # what the tests run inside
# Before 1.5 an agent forgets another one, and what it has prepared, when a request of it says
# REMOTE_DISCONNECT.
FORGETFUL = tuple(int(part) for part in NEWEST.split("==")[1].split(".")[:2]) < (1, 5)
WHEELS = [NEWEST, *(["nixl-cu12==1.0.1", "nixl-cu12==1.2.0", "nixl-cu12==1.3.2", "nixl-cu12==1.4.1",
                     "nixl-cu12==1.5.0", "nixl-cu13==1.4.1", "nixl-cu13==1.5.1"] if LONG else [])]
MIB = 1 << 20
PLAIN = {"bind": "127.0.0.1"}
GPUS = {"TCPX_CUDA_LIBRARY": str(BUILD / "emu/fakecuda/libfakecuda.so"), "FAKECUDA_DEVICES": "8",
        "FAKECUDA_PCI": "04,05,0a,0b,84,85,8a,8b"}


def python_with(spec):
    name = re.sub(r"\W+", "-", spec)
    done = subprocess.run([TOP / "scripts/nixl-venv.sh", BUILD / f"venv-{name}", spec],
                          capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="session", name="plugin")
def fixture_plugin():
    path = BUILD / "plugins/nixl/libplugin_TCPX.so"
    if not path.exists():
        pytest.skip("the NIXL plugin is not built: no C++ compiler")
    return path


@pytest.fixture(scope="session", name="nixl")
def fixture_nixl():
    return python_with(NEWEST)


class Agent:
    """A process with an agent; what its commands raise there is raised here."""

    def __init__(self, python, folder, before=(), env=None):
        env = Tool.environment({"NIXL_PLUGIN_DIR": str(folder), "NIXL_LOG_LEVEL": "ERROR",
                                **(env or {})})
        self.folder = folder
        self.errors = open(folder / "stderr", "a+", encoding="utf-8")
        self.process = subprocess.Popen(
            [*before, python, TOP / "tests/system/helpers/nixl_agent.py"], env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def send(self, *command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def take(self):
        assert select.select([self.process.stdout], [], [], HANG)[0], self.said()[-2000:]
        line = self.process.stdout.readline()
        assert line, f"the agent is gone: {self.said()[-2000:]}"
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{answer['error']}: {answer['text']}")
        return answer["value"]

    def __call__(self, *command):
        self.send(*command)
        return self.take()

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def until_said(self, text, times=1):
        try:
            changes.until(self.folder, lambda: self.said().count(text) >= times)
        except AssertionError as error:
            raise AssertionError(self.said()[-2000:]) from error

    def up(self):
        """Until its link is there with all channels; TCPX_LOG=info says so."""
        self.until_said(" is up: ")

    def end(self):
        """An orderly end, which not every backend survives."""
        self("destroy")
        self.process.stdin.close()
        assert self.process.wait(HANG) == 0

    def kill(self):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            pipe.close()


@pytest.fixture(name="agents")
def fixture_agents(plugin, tmp_path):
    """Starts agents; folder has the plugin under the name asked for."""
    running = []

    def start(python, backend="TCPX", **more):
        folder = tmp_path / f"plugins-{backend}"
        folder.mkdir(exist_ok=True)
        name = folder / f"libplugin_{backend}.so"
        if not name.exists():
            shutil.copy(plugin, name)
        running.append(Agent(python, folder, **more))
        return running[-1]

    yield start
    for one in running:
        one.kill()


def meet(near, far, length=4 * MIB, backend="TCPX", near_params=None, far_params=None,
         near_memory=(), far_memory=()):
    """Both know one another: the far memory's address."""
    near("create", "near", backend, PLAIN if near_params is None else near_params)
    far("create", "far", backend, PLAIN if far_params is None else far_params)
    near("register", length, *near_memory)
    at = far("register", length, *far_memory)
    assert near("know", far("metadata")) == "far"
    assert far("know", near("metadata")) == "near"
    return at


def move(near, far, op, at, length, message="done", far_memory=()):
    """One transfer of two pieces, every byte looked at."""
    near("fill", 1 if op == "WRITE" else 2, 0, length)
    far("fill", 2 if op == "WRITE" else 1, 0, length)
    half = length // 2 // 2
    pieces = [(0, half), (length // 2, half)]
    near("prepare", op, op, "far", pieces, [(at + off, size) for off, size in pieces],
         *(far_memory or ("DRAM", 0)), message)
    assert near("post", op) in ("PROC", "DONE")
    assert near("end", op) == "DONE"
    end = far if op == "WRITE" else near
    assert end("count", 1, 0, length) == 2 * half
    assert end("count", 2, 0, length) == length - 2 * half
    assert far("notes", 1) == {"near": [message]}
    near("release", op)


@pytest.mark.parametrize("spec", WHEELS)
def test_every_wheel_loads_the_same_binary(spec, agents):
    python = python_with(spec)
    near, far = agents(python), agents(python)
    at = meet(near, far)
    options = near("options", "TCPX")
    assert options["chunk_bytes"] == "512K" and options["nixl_transport"] == "auto"
    for op in ("WRITE", "READ"):
        move(near, far, op, at, 4 * MIB)
    near("notify", "far", "hello")
    assert far("notes", 1) == {"near": ["hello"]}
    far("notify", "near", "and back")
    assert near("notes", 1) == {"far": ["and back"]}
    for one in (near, far):
        one.end()


def test_built_with_nixls_own_headers(nixl, agents, tmp_path):
    """The same sources with NIXL's headers: under our host, which has ours, and under NIXL."""
    headers = os.environ.get("NIXL_HEADERS")
    if not headers:
        pytest.skip("NIXL_HEADERS does not say where a checkout of NIXL is")
    folder = tmp_path / "build"
    run = functools.partial(subprocess.run, check=True, cwd=TOP, stdout=subprocess.DEVNULL)
    run(["meson", "setup", folder, f"-Dnixl_headers={headers}", "-Dcuda=disabled"])
    run(["meson", "test", "-C", folder, "nixl_tcp", "nixl_local", "nixl_one_copy", "nixl_slots"])
    (tmp_path / "plugins-TCPX").mkdir() # is what agents() takes
    shutil.copy(folder / "plugins/nixl/libplugin_TCPX.so", tmp_path / "plugins-TCPX")
    near, far = agents(nixl), agents(nixl)
    at = meet(near, far)
    for op in ("WRITE", "READ"):
        move(near, far, op, at, 4 * MIB)


@pytest.mark.parametrize("transport", ["tcp", "local"])
@pytest.mark.parametrize("thread", [True, False])
def test_bytes_and_notifications(nixl, agents, transport, thread):
    near, far = agents(nixl), agents(nixl)
    params = {**PLAIN, "nixl_transport": transport}
    near("create", "near", "TCPX", params, thread)
    far("create", "far", "TCPX", params, thread)
    near("register", 4 * MIB)
    at = far("register", 4 * MIB)
    near("know", far("metadata"))
    for op in ("WRITE", "READ"):
        move(near, far, op, at, 4 * MIB)
    # a thousand pieces, each to another place, posted twice with another notification
    pieces = [(i * 4096, 1000) for i in range(1000)]
    near("fill", 5, 0, 4 * MIB)
    far("fill", 6, 0, 4 * MIB)
    near("prepare", "many", "WRITE", "far", pieces, [(at + off, size) for off, size in
                                                     reversed(pieces)], "DRAM", 0, "first")
    for message in (None, "second"):
        near("post", "many", message)
        assert near("end", "many") == "DONE"
    assert far("count", 5, 0, 4 * MIB) == 1000 * 1000
    assert far("notes", 2) == {"near": ["first", "second"]}
    assert near("cost", "many") > 0


def test_aborted_while_the_peer_is_stopped(nixl, agents):
    near, far = agents(nixl), agents(nixl)
    at = meet(near, far, 32 * MIB, near_params={**PLAIN, "local": "0"})
    far("fill", 9, 0, 32 * MIB)
    near("fill", 1, 0, 32 * MIB)
    stop(far.process.pid)
    big = 32 * MIB - 4096 # behind it nothing of it may land late
    near("prepare", "x", "WRITE", "far", [(0, big)], [(at, big)])
    assert near("post", "x") == "PROC"
    try:
        near("release", "x")
    except RuntimeError: # not quiet at once: the second call takes it
        near("release", "x")
    near("fill", 2, 0, 32 * MIB) # ours again
    far.process.send_signal(signal.SIGCONT)
    near("prepare", "y", "WRITE", "far", [(big, 1)], [(at + big, 1)], "DRAM", 0, "after")
    near("post", "y")
    assert near("end", "y") == "DONE"
    assert far("notes", 1) == {"near": ["after"]}
    assert far("count", 2, 0, 32 * MIB) == 1


def test_killed_and_started_again(nixl, agents):
    near, far = agents(nixl), agents(nixl)
    at = meet(near, far, 16 * MIB)
    handles = [f"h{i}" for i in range(4)]
    stop(far.process.pid)
    for handle in handles:
        near("prepare", handle, "READ", "far", [(0, 16 * MIB)], [(at, 16 * MIB)])
        assert near("post", handle) == "PROC"
    far.kill()
    seen = []
    for handle in handles:
        with pytest.raises(RuntimeError) as caught:
            while near("state", handle) == "PROC":
                pass
        seen.append(str(caught.value).split(":")[0])
    assert seen[0] == "nixlRemoteDisconnectError"
    assert set(seen[1:]) <= {"nixlRemoteDisconnectError", "nixlNotFoundError"}
    for handle in handles:
        near("release", handle)
    again = agents(nixl)
    again("create", "far", "TCPX", PLAIN)
    near("forget", "far")
    at = again("register", 4 * MIB)
    assert near("know", again("metadata")) == "far"
    move(near, again, "WRITE", at, 4 * MIB)


def test_dropped_and_loaded_again(nixl, agents):
    near, far = agents(nixl), agents(nixl)
    at = meet(near, far)
    for _ in range(3):
        move(near, far, "WRITE", at, MIB)
        near("forget", "far")
        with pytest.raises(RuntimeError, match="nixlNotFoundError"):
            near("notify", "far", "x")
        near("know", far("metadata"))
        move(near, far, "WRITE", at, MIB)  # over the new link, so the far end has left the old one
        far("notify", "near", "still here")
        assert near("notes", 1) == {"far": ["still here"]}


@pytest.mark.parametrize("wrong, says", [
    ({"channels": "900"}, "TCPX_CHANNELS=900"), ({"bind": "no-such-if"}, "no-such-if"),
    ({"nixl_transport": "pigeon"}, "pigeon"), ({"silent_ms": "soon"}, "1000..60000")])
def test_a_wrong_option_is_named(nixl, agents, wrong, says):
    one = agents(nixl)
    with pytest.raises(RuntimeError, match="nixlBackendError"):
        one("create", "one", "TCPX", wrong)
    assert says in one.said()


def test_parameters_win_over_the_environment(nixl, agents):
    one = agents(nixl, env={"TCPX_CHANNELS": "3", "TCPX_CHUNK_BYTES": "1M"})
    one("create", "one", "TCPX", {**PLAIN, "Chunk_Bytes": "2M"})
    options = one("options", "TCPX")
    assert options["channels"] == "3" and options["chunk_bytes"] == "1M"
    bad = agents(nixl, env={"TCPX_BIND": "no-such-if"})
    bad("create", "bad", "TCPX", PLAIN)


def test_under_the_name_of_ucx(nixl, agents):
    near, far = agents(nixl, "UCX"), agents(nixl, "UCX")
    ucx = {"num_workers": "4", "engine_config": "MAX_RMA_RAILS=4"}
    at = meet(near, far, backend="UCX", near_params={**PLAIN, **ucx},
              far_params={**PLAIN, "ucx_error_handling_mode": "peer"})
    assert near("options", "UCX")["ucx_error_handling_mode"] == "peer"
    assert "ignored" not in near.said()
    move(near, far, "READ", at, MIB)


def test_a_folder_beside_the_installed_ones(nixl, plugin, agents, tool, tmp_path):
    done = tool("nixl-env", "--python", nixl, "--plugin", plugin, tmp_path / "env")
    assert done.returncode == 0, done.stderr
    folder = re.fullmatch(r"export NIXL_PLUGIN_DIR='(/\S+)'\n", done.stdout)[1]
    one = agents(nixl, env={"NIXL_PLUGIN_DIR": folder})
    assert {"TCPX", "UCX", "POSIX"} <= set(one("create", "one", "TCPX", PLAIN))
    one("create_more", "UCX") # which finds its own libraries from there
    assert "num_workers" in one("options", "UCX")
    again = tool("nixl-env", "--alias", "--python", nixl, "--plugin", plugin, tmp_path / "env")
    assert again.returncode == 0 and "UCX as well" in again.stderr
    two = agents(nixl, env={"NIXL_PLUGIN_DIR": folder})
    two("create", "two", "TCPX", PLAIN)
    two("create_more", "UCX") # which is ours as well, and says so under that name alone
    assert two("options", "UCX").items() >= {"ucx_error_handling_mode": "peer",
                                             "chunk_bytes": "512K"}.items()
    assert "ucx_error_handling_mode" not in two("options", "TCPX")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("somebody's")
    bad = tool("nixl-env", "--python", nixl, "--plugin", plugin, tmp_path / "other")
    assert bad.returncode == 1 and "not empty" in bad.stderr
    assert tool("nixl-env", "--python", "/no/python", "--plugin", plugin, tmp_path / "x"
                ).returncode == 1
    assert tool("nixl-env", "--plugin", "/no/plugin.so", tmp_path / "x").returncode == 1
    assert not (tmp_path / "x").exists()
    bare = tool("nixl-env", "--alone", "--python", "/usr/bin/python3", "--plugin", plugin,
                tmp_path / "bare")
    assert bare.returncode == 0 and "TCPX alone" in bare.stderr


def emulator(tmp_path, memory):
    """The environment of an agent over the emulator; what it counts goes to tmp_path."""
    (tmp_path / "stats").mkdir()
    return {**GPUS, "TCPXEMU_STEER": "strict", "TCPXEMU_MEM": memory, "TCPXEMU_FRAG": "page",
            "TCPXEMU_STATS": f"{tmp_path}/stats/%p", "TCPX_GPUDIRECT_SAME_HOST": "1",
            "NCCL_DYNAMIC_CHUNK_SIZE": "524288", "TCPX_LOG": "info",
            "TCPX_UNPACK_IMPL": "host" if memory == "cpu" else "kernel",
            "TCPX_PLUGIN": str(BUILD / "emu/tcpxemu/libnccl-net-tcpxemu.so")}


@pytest.mark.parametrize("memory", ["cpu", "cuda-host-bounce"])
def test_gpudirect_over_the_emulator(nixl, agents, memory, tmp_path):
    env = emulator(tmp_path, memory)
    near, far = agents(nixl, env=env), agents(nixl, env=env)
    params = {**PLAIN, "nixl_transport": "gpudirect"}
    at = meet(near, far, near_params=params, far_params=params, near_memory=("VRAM", 0),
              far_memory=("VRAM", 0))
    near.up() # what is posted before goes over tcp
    far.up()
    for op in ("WRITE", "READ"):
        move(near, far, op, at, 4 * MIB, far_memory=("VRAM", 0))
    for one in (near, far):
        one.end()
    total = counted(tmp_path)
    assert total.pop("received_messages") > 0
    assert set(total.values()) == {0}


def test_gpu_memory_over_tcp_and_on_one_host(nixl, agents):
    for transport in ("tcp", "local"):
        near, far = agents(nixl, env=GPUS), agents(nixl, env=GPUS)
        params = {**PLAIN, "nixl_transport": transport}
        at = meet(near, far, near_params=params, far_params=params,
                  near_memory=("VRAM", 0), far_memory=("VRAM", 1))
        for op in ("WRITE", "READ"):
            move(near, far, op, at, 4 * MIB, far_memory=("VRAM", 1))


def test_no_gpu_is_said_at_registration(nixl, agents):
    one = agents(nixl, env={**GPUS, "FAKECUDA_DEVICES": "0"})
    one("create", "one", "TCPX", PLAIN)
    with pytest.raises(RuntimeError, match="nixlBackendError"): # what NIXL makes of it
        one("register_as", MIB, "VRAM")
    assert "no CUDA device" in one.said()


@pytest.mark.usefixtures("with_crypto")
def test_two_hosts(nixl, agents):
    why = why_no_namespaces()
    if why:
        pytest.skip(why)
    with Hosts(2) as pair:
        near, far = (agents(nixl, before=host.argv()) for host in (pair.a, pair.b))
        at = meet(near, far, near_params={}, far_params={}) # both cables, found by itself
        for op in ("WRITE", "READ"):
            move(near, far, op, at, 4 * MIB)


@pytest.mark.usefixtures("with_crypto")
@pytest.mark.parametrize("where", ["near", "far"])
def test_hosts_with_one_nic_that_leads_nowhere(nixl, agents, where):
    """NIXL binds to every NIC; the first one of a host is on a network of its own."""
    why = why_no_namespaces()
    if why:
        pytest.skip(why)
    with Hosts(1) as pair:
        host = pair.a if where == "near" else pair.b
        isolated(host, "172.29.2.1/24")
        near, far = (agents(nixl, before=host.argv()) for host in (pair.a, pair.b))
        at = meet(near, far, near_params={}, far_params={})
        for op in ("WRITE", "READ"):
            move(near, far, op, at, 4 * MIB)


if LONG: # channels find out one after another
    @pytest.mark.usefixtures("with_crypto")
    def test_a_path_that_drops_full_packets(nixl, agents):
        why = why_no_namespaces()
        if why:
            pytest.skip(why)
        with Hosts(1) as pair:
            hole(pair, "ab", 1300)
            near, far = (agents(nixl, before=host.argv(), env={"TCPX_LOG": "warn"})
                         for host in (pair.a, pair.b))
            at = meet(near, far, near_params={}, far_params={})
            for op in ("READ", "WRITE"):
                move(near, far, op, at, 4 * MIB)
            assert "path MTU" in far.said() + near.said()
