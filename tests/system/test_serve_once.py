# SPDX-License-Identifier: Apache-2.0
"""serve --once ends with its client, and its exit code says whether that client's run went well."""
import pathlib
import re
import signal
import socket
import time

import pytest

from conftest import SMALL, Serve
from test_node import build  # noqa: F401 (fixture)

CHUNK = {"NCCL_DYNAMIC_CHUNK_SIZE": "65536"}
MESSAGES = ["--size", "256K", "--iters", "2", "--working-set", "1M"]


@pytest.fixture(name="plugin")
def fixture_plugin(build):
    return ["--transport", "plugin", "--plugin",
            str(build / "emu/tcpxemu/libnccl-net-tcpxemu.so")]


EMU = {"TCPXEMU_STEER": "off"}


@pytest.mark.parametrize("args", [
    [], ["--op", "read"], ["--op", "send"], ["--bidir"], ["--transport", "tcp"],
    ["--no-check"]])
def test_a_run_that_went_well(tool, serve, args):
    server = serve("--once")
    assert tool("perf", server.address, *SMALL, *args).returncode == 0
    code, _, err = server.wait()
    assert code == 0 and "failed" not in err, err


@pytest.mark.parametrize("op", ["notify", "latency", "pingpong"])
def test_round_trips_went_well(tool, serve, op):
    server = serve("--once")
    assert tool("perf", server.address, "--op", op, "--iters", "20").returncode == 0
    assert server.wait()[0] == 0


def test_a_doctor_is_served(tool, serve):
    """It measures nothing, and it gets what it asks for."""
    server = serve("--once")
    tool("doctor", "--peer", server.address)
    assert server.wait()[0] == 0


@pytest.mark.parametrize("args, why", [
    (["--remote-mem", "cuda"], "the other end refused: --remote-mem"),
    (["--inject-fault"], r"\d+ wrong bytes")])
def test_a_run_that_failed(tool, serve, args, why):
    server = serve("--once", "--mem", "host")
    assert tool("perf", server.address, *SMALL, *args).returncode in (1, 4)
    code, _, err = server.wait()
    assert code == 1
    assert re.search(f"tcpx serve: the client failed: .*{why}", err), err


def test_channels_that_do_not_fit(tool, plugin):
    """Nothing is measured: the two ends cut messages differently, and the client says so."""
    server = Serve(tool, "--once", *plugin, env=EMU | {"NCCL_DYNAMIC_CHUNK_SIZE": "262144"})
    done = tool("perf", server.address, *MESSAGES, *plugin, env=EMU | CHUNK)
    code, _, err = server.wait()
    assert (done.returncode, code) == (1, 1), done.stderr + err
    assert "the client failed: stopped: no channel of messages" in err


def connections(server):
    """Established, at its port."""
    port = f":{int(server.address.rsplit(':', 1)[1]):04X}"
    lines = pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    return sum(word[1].endswith(port) and word[3] == "01" for word in map(str.split, lines))


@pytest.mark.parametrize("killed", [False, True], ids=["goodbye", "killed"])
def test_a_client_that_never_came_up(tool, plugin, killed):
    """Its channels of messages do not connect, and it leaves before its time is over."""
    server = Serve(tool, "--once", *plugin, env=EMU | CHUNK)
    env = EMU | CHUNK | {"TCPXEMU_FAULT": "connect-never"}
    args = ["perf", server.address, *MESSAGES, *plugin, "--timeout", "120" if killed else "2"]
    client = tool.start(*args, env=env)
    if killed:
        while connections(server) < 2: # those of data follow the hello; /proc tells no event
            assert client.poll() is None and server.process.poll() is None
            time.sleep(0.01)
        client.send_signal(signal.SIGKILL)
    client.communicate()
    assert client.returncode != 0
    code, _, err = server.wait()
    assert code == 1
    assert re.search("the client ended before its connection was up|peer closed the connection",
                     err), err


def test_strangers_are_no_clients(tool, serve):
    """A look at the port, as by a script that waits for it."""
    server = serve("--once")
    host, port = server.address.rsplit(":", 1)
    for text in (b"", b"GET / HTTP/1.0\r\n\r\n"):
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(text)
    assert tool("perf", server.address, *SMALL).returncode == 0
    assert server.wait()[0] == 0
