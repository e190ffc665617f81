# SPDX-License-Identifier: Apache-2.0
"""tcpx node when a rank dies, stops or lacks something, and when much is asked of it: what every
rank says, and where it listens."""
import re
import socket
import subprocess

import pytest

from conftest import stop
from netns import LONG
from test_launch import plain
from test_node import (HANG, SMALL, Ranks, build, ends_of, fixture_a3,  # noqa: F401
                       fixture_messages, port_base, rows)

ENDLESS = ["--mem", "host", "--transport", "tcp", "--gpus", "0-1", "--size", "64K", "--iters",
           "100000000"]


def three(tool, tmp_path, *args, **env):
    """Ranks of a launcher."""
    return [tool.start("node", *args, env=plain(rank, 3, TCPX_RENDEZVOUS=f"{tmp_path}/meet", **env))
            for rank in range(3)]


def wait_for_line(process, words, stream="stdout"):
    line = b""
    while words not in line:
        line = getattr(process, stream).readline()
        assert line, process.communicate()


def survivors(ranks, victim):
    """Their results; the one that was killed or stopped is gone."""
    done = ends_of([rank for at, rank in enumerate(ranks) if at != victim])
    ranks[victim].kill()
    ranks[victim].communicate()
    assert [one.returncode for one in done] == [1, 1]
    return [one.stderr for one in done]


def test_what_is_missing_is_named(tool, a3, messages): # noqa: F811
    """Of each GPU, as a rank's deadline ends; the other hears of the first of them."""
    env, port = {**a3, "TCPXEMU_FAULT": "connect-never:side=send"}, port_base()
    args = [*messages, "--gpus", "0,3", "--channels", "2", "--port-base", port]
    server = tool.start("node", *args, env=env)
    wait_for_line(server, b"waiting for rank 1 at ", "stderr")
    first, second = ends_of([server, tool.start("node", *args, "--timeout", "1", "127.0.0.1",
                                                env=env)])
    assert (first.returncode, second.returncode) == (1, 124)
    for gpu in (0, 3):
        assert re.search(rf"waiting: GPU {gpu} to rank 0 \(\S+\) GPU {gpu}: (up|not connected), "
                         r"0 of 2 channels(: channel \d+, NIC eth\d: .*)?$",
                         second.stderr, re.M), second.stderr
    assert re.search(r"rank 1 \(\S+\), stage 'channels': 0 of 4 channels are up after 1 s; GPU 0 "
                     r"to rank 0 \(\S+\) GPU 0: ", first.stderr), first.stderr


def test_a_rank_that_dies_during_the_setup(tool, a3, messages, tmp_path): # noqa: F811
    """Its channels were not up yet, and never will be."""
    ranks = three(tool, tmp_path, *messages, "--gpus", "0,3", "--channels", "2", "--peers", "all",
                  **a3, TCPXEMU_FAULT="connect-never:side=send")
    wait_for_line(ranks[0], b"GPUs initialised 2/2")
    ranks[1].kill()
    for text in survivors(ranks, 1):
        assert re.search(r"rank 1 \(\S+\) is gone, stage '(listening|channels)': |link to rank 1 "
                         r"\(\S+\) GPU [03]: ", text), text


@pytest.mark.parametrize("victim", [0, 1])
def test_one_of_three_ranks_that_dies(tool, tmp_path, victim):
    ranks = three(tool, tmp_path, *ENDLESS)
    wait_for_line(ranks[0], b"READY")
    ranks[victim].kill()
    for text in survivors(ranks, victim):
        assert re.search(rf"rank {victim} \([^)]+\) is gone, stage '(registered|filled|transfer|"
                         rf"moved)': |transfer with rank {victim} \(\S+\) GPU [01]: ", text), text


@pytest.mark.parametrize("more", [{}, {"TCPX_LOG": "warn"}], ids=["default", "asked"])
def test_a_lost_rank_is_one_line(tool, tmp_path, more):
    """Each GPU has a session and channels with it, whose ends say the same."""
    ranks = three(tool, tmp_path, *ENDLESS, "--peers", "all", "--channels", "16", **more)
    wait_for_line(ranks[0], b"READY")
    ranks[1].kill()
    for text in survivors(ranks, 1):
        lost = re.findall(r"^tcpx: WARN peer 'node-r1-g\d': ", text, re.M)
        if more:
            assert len(lost) >= 4, text # 2 GPUs here, 2 there
            assert "are not shown" not in text
        else:
            assert len(lost) == 1, text
            assert re.search(r"^tcpx node: \d+ more warnings about rank 1 are not shown; "
                             "TCPX_LOG=warn shows them$", text, re.M), text


def ports_of(process):
    """Those of 127.0.0.* that it listens on."""
    text = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    found = re.findall(rf"127\.0\.0\.\d+:(\d+) .*pid={process.pid},", text)
    if not found:
        pytest.skip("ss shows no processes here")
    return sorted(map(int, found))


def free_ports(*offsets):
    """A base whose ports with these offsets were free a moment ago."""
    while True:
        base, probes = port_base(), []
        try:
            for offset in offsets:
                probes.append(socket.socket())
                probes[-1].bind(("127.0.0.1", base + offset))
            return base
        except OSError:
            continue
        finally:
            for probe in probes:
                probe.close()


def test_ports(tool):
    """GPU N of both ranks at the base + N, each on its own address; rank 0's control before it."""
    base = free_ports(-1, 0, 2, 5)
    args = [*ENDLESS, "--gpus", "0,2,5", "--port-base", base]
    ranks = [tool.start("node", *args), tool.start("node", *args, "--bind", "127.0.0.2",
                                                   "127.0.0.1")]
    try:
        wait_for_line(ranks[0], b"READY")
        assert ports_of(ranks[0]) == [base - 1, base, base + 2, base + 5]
        assert ports_of(ranks[1]) == [base, base + 2, base + 5]
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


@pytest.mark.parametrize("retries", ["0", "3"])
def test_a_port_of_a_gpu_is_taken(tool, retries):
    base = free_ports(-1, 0, 2, 3)
    ranks = []
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", base + 2))
        taken.listen()
        args = [*ENDLESS, "--gpus", "0,2", "--port-base", base]
        env = {"UCCL_TCPX_PORT_RETRIES": retries}
        ranks = [tool.start("node", *args, env=env),
                 tool.start("node", *args, "--bind", "127.0.0.2", "127.0.0.1", env=env)]
        try:
            if retries == "0":
                done = ends_of(ranks)
                assert [one.returncode for one in done] == [1, 1]
                assert re.search(rf"GPU 2: .*\b{base + 2}\b", done[0].stderr), done
                assert re.search(r"rank 0 \(\S+\), stage '\S+': GPU 2: ", done[1].stderr), done
            else:
                wait_for_line(ranks[0], b"READY")
                assert ports_of(ranks[0]) == [base - 1, base, base + 3]
        finally:
            for rank in ranks:
                rank.kill()
                rank.communicate()


@pytest.mark.parametrize("peers, channels", [("same", 64), ("all", 128)][:2 if LONG else 1])
def test_hundreds_of_channels(tool, peers, channels):
    done = Ranks(tool, *SMALL, "--gpus", "0-3", "--transport", "tcp", "--channels", channels,
                 "--peers", peers).end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    opened = min(channels, 63) if peers == "same" else channels  # 63 are the most of a link
    assert f"channels accepted {4 * opened}/{4 * opened}" in done[0].stdout
    assert [row[3:] for row in rows(done[0].stdout)] == [(opened, 0)] * 8


def test_runs_in_a_row(tool, a3, messages): # noqa: F811
    """Nothing of one is left for the next."""
    for _ in range(20 if LONG else 3):
        done = Ranks(tool, *messages, *([] if LONG else ["--gpus", "0,3"]), env=a3).end()
        assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
        assert re.search(r"^sum .* 0 wrong bytes$", done[0].stdout, re.M)
        assert "every byte compared" in done[0].stdout


if LONG: # seconds of waiting each
    def test_a_rank_that_does_not_come_is_waited_for(tool):
        """And named every few seconds."""
        lone = tool.start("node", *SMALL, "--gpus", "0", "--port-base", port_base())
        try:
            assert b"waiting for rank 1 at 127.0.0.1 port" in lone.stderr.readline()
            for left in ("57", "51"): # after 3 s, and 6 s later
                line = lone.stderr.readline().decode()
                assert line == f"tcpx node: stage 'hello': waiting for rank 1, for {left} s more\n"
        finally:
            lone.kill()
            lone.communicate(timeout=HANG)

    @pytest.mark.parametrize("victim", [0, 1])
    def test_one_of_three_ranks_that_stops(tool, tmp_path, victim):
        ranks = three(tool, tmp_path, *ENDLESS, TCPX_STOPPED_MS="3000")
        wait_for_line(ranks[0], b"READY")
        stop(ranks[victim].pid)
        for text in survivors(ranks, victim):
            assert re.search(rf"rank {victim} \([^)]+\) is gone, stage '(registered|filled|"
                             rf"transfer|moved)': .*stopped|transfer with rank {victim} \(\S+\) "
                             "GPU [01]: ", text), text

    def test_a_rank_that_stops_before_it_is_ready(tool, a3, messages, tmp_path): # noqa: F811
        ranks = three(tool, tmp_path, *messages, "--gpus", "0,3", "--peers", "all", **a3,
                      TCPX_STOPPED_MS="3000", TCPXEMU_FAULT="connect-never:side=send")
        wait_for_line(ranks[0], b"GPUs initialised 2/2")
        stop(ranks[1].pid)
        for text in survivors(ranks, 1):
            assert re.search(r"rank 1 \(\S+\) is gone, stage '(listening|channels)': .*stopped|"
                             r"link to rank 1 \(\S+\) GPU [03]: ", text), text
