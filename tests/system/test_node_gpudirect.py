# SPDX-License-Identifier: Apache-2.0
"""tcpx node over the emulated plugin: what becomes of messages, and what is evidence that they
came into GPU memory."""
import pytest

from test_launch import plain
from test_node import Ranks, build, ends_of, fixture_a3, fixture_messages, rows  # noqa: F401


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
    assert "every byte NOT LOOKED AT (--unpack none): the data is invalid" in done[0].stdout
    assert "compared" not in done[0].stdout


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


def test_the_option_counts_where_a_launcher_started_the_ranks(tool, a3, default_messages, # noqa: F811
                                                              tmp_path):
    done = ends_of([tool.start("node", *default_messages, "--unpack", "none", "--gpus", "0",
                               env=plain(rank, 2, TCPX_RENDEZVOUS=f"{tmp_path}/meet", **a3))
                    for rank in (0, 1)])
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert "NOT LOOKED AT (--unpack none)" in done[0].stdout
    assert [row[4] for row in rows(done[0].stdout)] == [0, 0]
