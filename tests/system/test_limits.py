# SPDX-License-Identifier: Apache-2.0
"""Bounded ends: close, cancel, deregister with dead, stopped, silent peers; no descriptors."""
import resource
import signal

import pytest

from netns import NO_LOCAL, Peer, both, hosts, meet, measure  # noqa: F401

SIZE = 64 << 20
PIECE = 4 << 20
STATES = ["stopped", "silent", "flooding", "killed"]


def spoil(hosts, server, client, state):
    """The peer's state at the moment of the call that must be bounded."""
    client.do("post", "recv", 2, 0, 0, 0, 1000)
    client.do("loop", "write", 4, 0, 0, 0, PIECE)
    client.do("loop", "read", 4, 0, 0, 32 << 20, PIECE)
    if state == "flooding":
        server.do("loop", "write", 8, 0, 0, 0, PIECE)
        server.do("flood", 1000)
        server.do("move", 8, 100)
    client.do("move", 8, 100)
    if state == "stopped":
        server.signal(signal.SIGSTOP)
    elif state == "silent":
        hosts.a.drop("input")
        hosts.a.drop("output")
    elif state == "killed":
        server.kill()


def restore(hosts, server, state):
    if state == "stopped":
        server.kill()
    hosts.a.undrop()


def restored(hosts, server, client, state):
    """What was on its way to the client has come, or never will: its peer is down, or a transfer
    over all channels is through, whose acknowledgements came behind it."""
    restore(hosts, server, state)
    if state in ("stopped", "killed"):
        client.event("peer-down")
        return
    client.do("mem", 1, SIZE, "host")
    client.do("post", "write", 1, 1, 0, 0, SIZE)
    client.do("wait", 100)
    assert client.ended[-1][2] == "OK"


@pytest.mark.parametrize("state", STATES)
def test_close_is_bounded(hosts, state):
    server, client = both(hosts)
    with server, client:
        meet(server, client, SIZE)
        spoil(hosts, server, client, state)
        took = float(client.do("close"))
        measure(f"close, peer {state}", took, "s")
        assert client.json("usage")["threads"] == 1
        restore(hosts, server, state)


@pytest.mark.parametrize("state", STATES)
def test_cancel_is_real(hosts, state):
    """All ended, and then the memory is ours: what we put there stays."""
    server, client = both(hosts, silent=60000, stopped=600000)
    with server, client:
        meet(server, client, SIZE)
        spoil(hosts, server, client, state)
        count, took = client.do("cancel").split()
        assert int(count) >= 0
        measure(f"cancel, peer {state}", float(took), "s")
        client.do("wait", 100)
        # a flooding peer goes on writing into the first half, by its own right
        begin = SIZE // 2 if state == "flooding" else 0
        client.do("poison", 0, begin)
        restored(hosts, server, client, state)
        client.do("poisoned", 0, begin)
        if state == "flooding":
            server.do("stop")
            server.do("wait", 100)


@pytest.mark.parametrize("state", STATES)
def test_deregister_is_bounded(hosts, state):
    server, client = both(hosts, silent=60000, stopped=600000)
    with server, client:
        meet(server, client, SIZE)
        spoil(hosts, server, client, state)
        word, took = client.ask("dereg", 0, 20000).split()
        assert word == "ok"
        measure(f"deregister, peer {state}", float(took), "s")
        client.do("poison", 0)
        restored(hosts, server, client, state)
        client.do("poisoned", 0)
        client.do("wait", 100)


def test_server_without_descriptors(hosts):
    """The server has no descriptor left for a newcomer: its peers go on, the newcomer is told, and
    later it gets in."""
    server, client = both(hosts)
    with server, client:
        meet(server, client, SIZE)
        client.do("loop", "write", 4, 0, 0, 0, PIECE)
        used = server.json("usage")["fds"]
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (used + 3, 4096))
        with Peer(hosts.a, name="late", bind=hosts.address("a"), flags=NO_LOCAL,
                  channels=8) as late:
            answer = late.ask("connect", server.do("info"), 3000)
            client.do("move", 8, 100)
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (1024, 4096))
            if answer != "ok":
                assert answer.split()[0].startswith("ERR_")
                late.do("connect", server.do("info"), 20000)
        client.do("stop")
        client.do("wait", 100)
        assert not client.ended and not client.has("peer-down")


def test_client_without_descriptors(hosts):
    server, client = both(hosts)
    with server, client:
        server.do("listen", 0)
        info = server.do("info")
        used = client.json("usage")["fds"]
        resource.prlimit(client.pid, resource.RLIMIT_NOFILE, (used, 4096))
        answer = client.ask("connect", info)
        assert answer.split()[0] == "ERR_NO_DESCRIPTORS", answer
        resource.prlimit(client.pid, resource.RLIMIT_NOFILE, (1024, 4096))
        client.do("connect", info)


def test_many_connects_leave_nothing(hosts):
    """Connect and go, again and again: descriptors and threads are those of the beginning."""
    server, client = both(hosts)
    with server, client:
        server.do("listen", 0)
        info = server.do("info")
        base = None
        for index in range(30):
            client.do("connect", info)
            server.do("accept", 20000)
            client.do("disconnect")
            server.until("the end", lambda: sum(e[0] == "peer-down" for e in server.events)
                         > index)
            if index == 2:
                base = server.json("usage"), client.json("usage")
        for peer, before in ((server, base[0]), (client, base[1])):
            assert peer.back_to(before["fds"])["threads"] == before["threads"]
