# SPDX-License-Identifier: Apache-2.0
"""tcpx node under the predecessor's variables: an option beats TCPX_'s, which beats the alias."""
import re
import socket

import pytest

from test_node import Ranks, build, fixture_a3, fixture_messages, port_base, rows  # noqa: F401

# The variables of an option in their order, and what each of them says here, the option's first.
CHANNELS = ("--channels", ["TCPX_CHANNELS", "UCCL_TCPX_NUM_CHANNELS", "TCPX_NUM_CHANNELS"],
            ["1", "2", "3", "4"])
SIZE = ("--size", ["TCPX_PERF_SIZE", "UCCL_TCPX_PERF_SIZE"], ["8192", "16K", "32KB"])
ITERS = ("--iters", ["TCPX_PERF_ITERS", "UCCL_TCPX_PERF_ITERS"], ["3", "5", "7"])
GPUS = ("--gpus", ["TCPX_LOCAL_DEVICE", "UCCL_TCPX_LOCAL_DEVICE", "TCPX_DEVICE_IDX",
                   "UCCL_TCPX_DEVICE_IDX", "UCCL_NCCL_DEVICE"], ["1", "2", "3", "4", "5", "6"])
BYTES = {"8192": "8 KiB", "16K": "16 KiB", "32KB": "32 KiB"}


@pytest.mark.parametrize("level", range(6))
def test_options_and_their_variables(tool, level):
    """Level 0: the options, with all variables; then the first of each with those behind it."""
    args, env, want = ["--mem", "host", "--memory", "64K", "--no-local"], {}, {}
    for option, names, values in (CHANNELS, SIZE, ITERS, GPUS):
        at = level if level < len(values) else 0 # all of its variables had their turn
        env.update(zip(names[max(at - 1, 0):], values[max(at, 1):]))
        want[option] = values[at]
        if not at:
            args += [option, values[0]]
    done = Ranks(tool, *args, env=env).end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert [row[1:4] for row in rows(done[0].stdout)] == [
        (int(want["--gpus"]), 1, int(want["--channels"]))] * 2
    assert f"# {want['--iters']} transfers of {BYTES[want['--size']]} a link" in done[0].stdout


@pytest.mark.parametrize("value", ["auto", "0"])
def test_channels_left_to_us(tool, value):
    done = Ranks(tool, "--mem", "host", "--memory", "64K", "--size", "8K", "--iters", "2",
                 "--gpus", "0", env={"UCCL_TCPX_NUM_CHANNELS": value}).end()
    assert [row[3] for row in rows(done[0].stdout)] == [8, 8], done[0].stderr


PORTS = ["TCPX_OOB_PORT", "UCCL_TCPX_OOB_PORT", "UCCL_TCPX_CTRL_PORT", "UCCL_TCP_OOB_PORT"]
BASES = ["TCPX_PORT_BASE", "UCCL_TCPX_BOOTSTRAP_PORT_BASE", "TCPX_BOOTSTRAP_PORT_BASE"]


@pytest.mark.parametrize("name", ["--port-base", *PORTS, *BASES])
def test_the_control_port(tool, name):
    """It is taken, and so is told; what counts less says another one."""
    port, order = port_base(), ["--port-base", *PORTS, *BASES]
    behind = order[order.index(name) + 1:]
    env = {other: str(port + 100) for other in behind}
    said = str(port if name in PORTS else port + 1)
    option = [name, said] if name.startswith("--") else []
    if not option:
        env[name] = said
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        done = tool("node", "--mem", "host", "--gpus", "0", "--timeout", "5", *option, env=env)
    assert done.returncode == 1
    assert re.search(rf"no control link: .*\b{port}\b", done.stderr), done.stderr


@pytest.mark.parametrize("value, wrong, names", [
    ("64K", "1", ["TCPX_CHUNK_BYTES", "UCCL_TCPX_CHUNK_BYTES", "NCCL_P2P_NET_CHUNKSIZE"]),
    ("2", "99", ["TCPX_MAX_SEND_INFLIGHT", "UCCL_TCPX_MAX_SEND_INFLIGHT"]),
    ("2", "99", ["TCPX_MAX_RECV_INFLIGHT", "UCCL_TCPX_MAX_RECV_INFLIGHT"]),
    ("2", "many", ["TCPX_PORT_RETRIES", "UCCL_TCPX_PORT_RETRIES"]),
    ("127.0.0.1", "1" * 64, ["TCPX_CTRL_IP", "UCCL_TCPX_CTRL_IP"]),
    ("0", "perhaps", ["TCPX_HOST_RECV_DEBUG", "UCCL_TCPX_HOST_RECV_DEBUG"]),
    ("d2d", "a" * 16, ["TCPX_UNPACK_IMPL", "UCCL_TCPX_UNPACK_IMPL"])])
def test_what_the_library_reads(tool, value, wrong, names):
    """A wrong value is told, unless a name that counts more says a right one."""
    port = port_base()
    with socket.socket() as taken: # so that a rank ends at once
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port - 1))
        taken.listen()
        for at, name in enumerate(names):
            for env in [{name: wrong}, {name: wrong, **dict.fromkeys(names[:at], value)}]:
                done = tool("node", "--mem", "host", "--gpus", "0", "--port-base", port, env=env)
                assert done.returncode == 1
                assert (f"{name}={wrong} is not in " in done.stderr) == (len(env) == 1), done


def test_the_plugin_by_its_old_name(tool, a3, messages): # noqa: F811
    at = messages.index("--plugin")
    env = {**a3, "UCCL_TCPX_PLUGIN_PATH": messages[at + 1]}
    args = [*messages[:at], *messages[at + 2:], "--gpus", "0"]
    done = Ranks(tool, *args, env=env).end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert re.search(r" eth1 +plugin ", done[0].stdout)
    done = Ranks(tool, *args, env={**env, "TCPX_PLUGIN_PATH": "/none.so"}).end()
    assert [one.returncode for one in done] == [1, 1]
    assert any("/none.so" in one.stderr for one in done), done
