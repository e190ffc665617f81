# SPDX-License-Identifier: Apache-2.0
"""Ranks that meet: what they must have in common, and names that are known later."""
import os
import re

import pytest

from conftest import Tool
from test_launch import RUN, plain, together, wait_for
from test_node import ends_of, port_base


# What each rank says, of those that were told (rank, size).
DISAGREE = {
    "fewer": ([(0, 3), (1, 2), (2, 3)], r"rank 1 \(\S+\) has TCPX_SIZE=2, rank 0 \(\S+\) has "
                                        "TCPX_SIZE=3"),
    "more": ([(0, 2), (1, 3), (2, 3)], r"rank [12] \(\S+\) has TCPX_SIZE=3, rank 0 \(\S+\) has "
                                       "TCPX_SIZE=2"),
    "twice": ([(0, 3), (1, 3), (1, 3)], "two processes say that they are rank 1: "),
}


@pytest.mark.parametrize("case", sorted(DISAGREE))
@pytest.mark.parametrize("form", ["file", "address"])
def test_ranks_that_were_told_different_things(tool, tmp_path, case, form):
    where = f"{tmp_path}/meet" if form == "file" else f"127.0.0.1:{port_base()}"
    told, text = DISAGREE[case]
    done = together(tool, [plain(*one, TCPX_RENDEZVOUS=where) for one in told], *RUN)
    for one in done:
        assert one.returncode == 1, (one.stdout, one.stderr)
        assert re.search(text, one.stderr) and "a rank of its own" in one.stderr, one.stderr


def test_two_processes_are_rank_0(tool, tmp_path):
    """The second one replaces the file; the first learns of it when its time is over."""
    meet = tmp_path / "meet"
    env = plain(0, 2, TCPX_RENDEZVOUS=str(meet))
    ranks = [tool.start("node", *RUN, "--timeout", "4", env=env)]
    wait_for(meet)
    ranks.append(tool.start("node", *RUN, "--timeout", "6", env=env))  # it is there still then
    done = ends_of(ranks)
    assert "another process that says that it is rank 0" in done[0].stderr, done


def test_ranks_with_different_commands(tool, tmp_path):
    ranks = [tool.start(command, *RUN, env=plain(rank, 2, TCPX_RENDEZVOUS=f"{tmp_path}/meet"))
             for rank, command in enumerate(("node", "mesh"))]
    for one in ends_of(ranks):
        assert re.search(r"rank 1 \(\S+\) was started with tcpx mesh, rank 0 \(\S+\) with tcpx "
                         "node", one.stderr), one.stderr


@pytest.mark.parametrize("form", ["HOST", "rendezvous"])
def test_a_name_that_comes_later(tool, tmp_path, key, form):
    """As a pod's DNS entry, which follows the pod."""
    if os.geteuid():
        pytest.skip("/etc/hosts of its own needs root")
    names, port = tmp_path / "hosts", port_base()
    names.write_text("127.0.0.1 localhost\n")
    (tmp_path / "resolv.conf").write_text("")
    there = Tool(tool.path, ["unshare", "-m", "sh", "-c", f"mount --bind {names} /etc/hosts && "
                             f'mount --bind {tmp_path}/resolv.conf /etc/resolv.conf && exec "$@"',
                             "sh"])
    common = [*RUN, "--port-base", port, "--bind", "127.0.0.1"]
    env, args = [{"TCPX_KEY_FILE": str(key)} for _ in range(2)], ["rank0.example"]
    if form == "rendezvous":
        env, args = [plain(rank, 2, TCPX_RENDEZVOUS=f"rank0.example:{port}",
                           TCPX_KEY_FILE=str(key)) for rank in range(2)], []
    zero = tool.start("node", *common, env=env[0])
    late = there.start("node", *common, *args, env=env[1])
    line = late.stderr.readline().decode()
    assert "host rank0.example: " in line and "trying again for" in line, line
    with open(names, "a", encoding="utf-8") as out:
        out.write("127.0.0.1 rank0.example\n")
    done = ends_of([zero, late])
    assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]


def test_a_name_that_never_comes(tool, key):
    done = tool("node", *RUN, "--timeout", "2", "nobody.invalid",
                env={"TCPX_KEY_FILE": str(key)})
    assert done.returncode == 1
    assert re.search("no control link: tried for 2 s: host nobody.invalid: .*check the name",
                     done.stderr), done.stderr
