# SPDX-License-Identifier: Apache-2.0
"""tcpx node over the emulated plugin: what becomes of messages, and what is evidence that they
came into GPU memory."""
import json
import os
import re
import threading

import pytest

from test_launch import plain
from test_node import (HANG, Ranks, build, ends_of, fixture_a3, fixture_messages,  # noqa: F401
                       port_base, rows)


def said(name, value, env):
    """A value as an option's or a variable's: the option to add, the environment."""
    return ([name, value], env) if name.startswith("--") else ([], {**env, name: value})


@pytest.fixture(name="default_messages")
def fixture_default_messages(messages): # noqa: F811
    """Without --unpack."""
    at = messages.index("--unpack")
    return messages[:at] + messages[at + 2:]


@pytest.mark.parametrize("name", ["--unpack", "TCPX_UNPACK_IMPL", "UCCL_TCPX_UNPACK_IMPL"])
def test_nothing_is_unpacked_nor_looked_at(tool, a3, default_messages, name): # noqa: F811
    option, env = said(name, "none", a3)
    done = Ranks(tool, *default_messages, *option, "--gpus", "0", env=env).end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert "every byte NOT COMPARED (--unpack none): the data is invalid" in done[0].stdout
    assert "compared" not in done[0].stdout


@pytest.mark.parametrize("how, unpack", [([], "kernel"), (["--unpack", "d2d"], "d2d")])
def test_the_unpack_in_force_is_shown(tool, a3, default_messages, how, unpack): # noqa: F811
    done = Ranks(tool, *default_messages, *how, "--gpus", "0,7", env=a3).end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert re.findall(r"^# unpacked by: .*", done[0].stdout, re.M) == [
        f"# unpacked by: {unpack} (from rank 0, GPU 0 on)"]


@pytest.mark.parametrize("name, value", [
    ("--unpack", "host-recv"), ("TCPX_UNPACK_IMPL", "host-recv"),
    ("UCCL_TCPX_UNPACK_IMPL", "host-recv"), ("TCPX_HOST_RECV_DEBUG", "1"),
    ("UCCL_TCPX_HOST_RECV_DEBUG", "1")])
def test_unsteered_packets_are_no_failure(tool, a3, default_messages, name, value): # noqa: F811
    option, env = said(name, value, a3)
    done = Ranks(tool, *default_messages, *option, "--gpus", "0", env=env).end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert "every byte compared" in done[0].stdout
    assert "rx_devmem_pkts of rank 0: eth1 +0 " in done[0].stdout


def test_the_option_counts_under_a_launcher(tool, a3, default_messages, tmp_path): # noqa: F811
    done = ends_of([tool.start("node", *default_messages, "--unpack", "none", "--gpus", "0",
                               env=plain(rank, 2, TCPX_RENDEZVOUS=f"{tmp_path}/meet", **a3))
                    for rank in (0, 1)])
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert "NOT COMPARED (--unpack none)" in done[0].stdout
    assert [row[4] for row in rows(done[0].stdout)] == [0, 0]


def still(tmp_path, *nics):
    """Where to read counters from: those of the NICs named stand still."""
    folder = tmp_path / "still"
    folder.mkdir()
    for nic in ("eth1", "eth2", "eth3", "eth4"):
        if nic in nics:
            (folder / nic).write_text("rx_devmem_pkts: 7\n", encoding="utf-8")
        else:
            (folder / nic).symlink_to(tmp_path / "devmem" / nic)
    return {"TCPX_DEVMEM_STATS": f"{folder}/%s"}


def test_each_nic_must_have_counted(tool, a3, messages, tmp_path): # noqa: F811
    done = Ranks(tool, *messages, "--gpus", "2-5", env={**a3, **still(tmp_path, "eth3")}).end()
    assert [one.returncode for one in done] == [1, 1]
    for one in done:
        assert re.search(r"no devmem data: \d+ messages came to GPU 4 through NIC eth3, and its "
                         "rx_devmem_pkts did not rise", one.stderr), one.stderr
        assert "through NIC eth2" not in one.stderr
    assert any("tcpx doctor --nic eth3" in one.stderr for one in done)


def feed(fifo, text):
    """Gives text to whoever reads the FIFO next."""
    writer = threading.Thread(target=fifo.write_text, args=[text], daemon=True)
    writer.start()
    writer.join(HANG)
    assert not writer.is_alive(), "nobody read the counters"


def test_a_rank_judges_what_came_after_the_other_has_left(tool, a3, messages, # noqa: F811
                                                          tmp_path):
    """Rank 1 is held at its counters until rank 0, which found the same fault, has ended."""
    slow = tmp_path / "slow"
    slow.mkdir()
    for nic in ("eth1", "eth2", "eth3"):
        (slow / nic).symlink_to(tmp_path / "still" / nic)
    os.mkfifo(slow / "eth4")
    env = {**a3, **still(tmp_path, "eth3")}
    args = ["node", *messages, "--gpus", "2-5", "--port-base", port_base()]
    first = tool.start(*args, env=env)
    second = tool.start(*args, "127.0.0.1", env={**env, "TCPX_DEVMEM_STATS": f"{slow}/%s"})
    feed(slow / "eth4", "rx_devmem_pkts: 7\n")
    done = ends_of([first])
    feed(slow / "eth4", "rx_devmem_pkts: 8\n")
    done += ends_of([second])
    assert [one.returncode for one in done] == [1, 1]
    for one in done:
        assert "messages came to GPU 4 through NIC eth3" in one.stderr, one.stderr


def test_each_nic_of_the_mesh_must_have_counted(tool, a3, messages, tmp_path): # noqa: F811
    args = [*messages, "--iters", "1", "--gpus", "2,4"]
    done = Ranks(tool, *args, env=a3, command="mesh").end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    done = Ranks(tool, *args, env={**a3, **still(tmp_path, "eth3")}, command="mesh").end()
    assert [one.returncode for one in done] == [1, 1]
    for one in done:
        assert re.search(r"\d+ messages came to GPU 4 through NIC eth3, and its rx_devmem_pkts did "
                         "not rise", one.stderr), one.stderr
        assert "through NIC eth2" not in one.stderr
    done = Ranks(tool, *args, "--size", "8K", env=a3, command="mesh").end()
    assert [one.returncode for one in done] == [1, 1]
    assert any("what came to GPU 2 came over tcp" in one.stderr for one in done), done


@pytest.mark.usefixtures("with_json")
def test_what_each_nic_counted(tool, a3, messages, tmp_path): # noqa: F811
    done = Ranks(tool, *messages, "--gpus", "1-2", server=["--json", tmp_path / "node.json"],
                 env=a3).end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    found = json.loads((tmp_path / "node.json").read_text(encoding="utf-8"))
    for rank in found["ranks"]:
        assert list(rank["rx_devmem_pkts"]) == ["eth1", "eth2", "eth3", "eth4"]
        assert [count > 0 for count in rank["rx_devmem_pkts"].values()] == [True, True, False,
                                                                            False]


def test_nothing_is_counted(tool, a3, messages): # noqa: F811
    """A run is as well as its bytes; a check that looks for packets has none."""
    env = {**a3, "TCPX_DEVMEM_STATS": "/nowhere/%s"}
    done = Ranks(tool, *messages, "--gpus", "0", env=env).end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr
    assert "rx_devmem_pkts of rank 0: not available" in done[0].stdout
    done = Ranks(tool, *messages, "--gpus", "0", "--check", "devmem", env=env).end()
    assert [one.returncode for one in done] == [1, 1]
    assert [one.stdout.splitlines()[-1] for one in done] == ["FAIL devmem"] * 2
    assert any(re.search("rx_devmem_pkts of NIC eth1 is not available.*TCPX_DEVMEM_STATS",
                         one.stderr) for one in done), done


def test_a_check_wants_steered_packets(tool, a3, default_messages): # noqa: F811
    done = Ranks(tool, *default_messages, "--gpus", "0", "--check", "devmem", "--unpack",
                 "host-recv", env=a3).end()
    assert [one.returncode for one in done] == [1, 1]
    assert [one.stdout.splitlines()[-1] for one in done] == ["FAIL devmem"] * 2
    assert any("through NIC eth1, and its rx_devmem_pkts did not rise" in one.stderr
               for one in done), done


def test_a_check_wants_bytes_to_compare(tool, a3, default_messages): # noqa: F811
    done = tool("node", *default_messages, "--check", "smoke",
                env={**a3, "UCCL_TCPX_UNPACK_IMPL": "none"})
    assert done.returncode == 2 and "TCPX_UNPACK_IMPL" in done.stderr


def test_what_came_over_tcp_is_no_success(tool, a3, messages): # noqa: F811
    """Pieces that small do, whatever the transport."""
    done = Ranks(tool, *messages, "--gpus", "0", "--size", "8K", env=a3).end()
    assert [one.returncode for one in done] == [1, 1]
    assert any("what came to GPU 0 came over tcp" in one.stderr for one in done), done


@pytest.mark.parametrize("gpus, nics", [("0", ["eth1,eth2,eth3,eth4"]),
                                        ("0,7", ["eth1,eth2", "eth3,eth4"])])
def test_more_nics_than_gpus(tool, a3, messages, gpus, nics): # noqa: F811
    done = Ranks(tool, *messages, "--gpus", gpus, "--nics", "eth1,eth2,eth3,eth4", env=a3).end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert re.findall(r"^ +0 \S+ +\d  \S+ +(\S+) ", done[0].stdout, re.M) == nics


def test_nics_go_by_the_position_in_the_list(tool, a3, messages, tmp_path): # noqa: F811
    """Where each process takes one GPU of it, too."""
    done = ends_of([tool.start("node", *messages, "--local-rank", "--nics", "eth1,eth2,eth3,eth4",
                               "--peers", "all", env=plain(rank, 2, TCPX_LOCAL_RANK=str(gpu),
                                                           TCPX_RENDEZVOUS=f"{tmp_path}/meet",
                                                           **a3))
                    for rank, gpu in enumerate((2, 7))])
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert re.findall(r"^ +\d \S+ +(\d)  \S+ +(\S+) ", done[0].stdout, re.M) == [
        ("2", "eth2"), ("7", "eth4")]


def test_another_way_to_unpack(tool, a3, messages): # noqa: F811
    done = Ranks(tool, *messages, "--gpus", "0", client=["--unpack", "none"], env=a3).end()
    assert [one.returncode for one in done] == [1, 1]
    assert any(re.search(r"rank 1 \(.*\) was started with --unpack none, rank 0 \(.*\) with "
                         r"--unpack d2d\b", one.stderr, re.M) for one in done), done


@pytest.mark.parametrize("transport", [["--transport", "tcp", "--mem", "cuda"], []])
def test_each_process_sees_its_gpu_alone(tool, a3, messages, tmp_path, transport): # noqa: F811
    """As a launcher has it that gives each task one: it has the number of its local rank."""
    pci = ["0a", "8b"]
    envs = [plain(rank, 2, **{**a3, "TCPX_LOCAL_RANK": str(rank), "FAKECUDA_DEVICES": "1",
                              "FAKECUDA_PCI": pci[rank], "TCPX_RENDEZVOUS": f"{tmp_path}/meet"})
            for rank in (0, 1)]
    done = ends_of([tool.start("node", *messages, *transport, "--local-rank", "--gpus", "2,7",
                               "--peers", "all", env=env) for env in envs])
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert re.findall(r"^ +(\d) \S+ +(\d)  (\S+) ", done[0].stdout, re.M) == [
        ("0", "2", "0000:0a:00.0"), ("1", "7", "0000:8b:00.0")]


def test_one_gpu_is_not_two(tool, a3): # noqa: F811
    env = {**a3, "FAKECUDA_DEVICES": "1"}
    done = tool("node", "--gpus", "0-1", "--mem", "cuda", env=env)
    assert done.returncode == 1 and "--gpus 0-1: this process sees 1 GPU" in done.stderr
