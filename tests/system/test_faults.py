# SPDX-License-Identifier: Apache-2.0
"""Killed, closed, reset, stopped and silent peers; lost channels and rails."""
import signal
import time

import pytest

from netns import (LONG, both, data_flows, hosts, meet, measure, peer_errors, rails,  # noqa: F401
                   helper, Peer, NO_LOCAL)
import subprocess

SIZE = 64 << 20
PIECE = 4 << 20
ROUNDS = 30 if LONG else 4


def lasts(seconds):
    """How long a state lasts that nobody may take for a death: longer than the limits given to the
    peers, and so a part of the test's input. Nothing is waited for."""
    time.sleep(seconds)


def load(client, rounds=8):
    """Writes and reads that go on until told to stop."""
    client.do("fill", 0, 0, PIECE, 1)
    client.do("loop", "write", 6, 0, 0, 0, PIECE)
    client.do("loop", "read", 6, 0, 0, 32 << 20, PIECE)
    progress(client, rounds)


def progress(client, rounds):
    """Waits until so many more requests of the loop ended well."""
    client.do("move", rounds, 100)


def drained(client):
    client.do("stop")
    client.do("wait", 100)


def all_end(client, count, begin):
    """Everything under way ends with a peer error; returns the worst time after begin."""
    client.until("the end of all requests", lambda: len(client.ended) >= count)
    client.do("wait", 100)
    peer_errors(client.ended)
    return max(row[4] for row in client.ended) - begin


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_peer_killed(hosts, busy):
    worst = 0
    for _ in range(ROUNDS):
        server, client = both(hosts)
        with server, client:
            meet(server, client, SIZE)
            client.do("post", "recv", 4, 0, 0, 0, 1000)
            count = 4
            if busy:
                load(client)
                count = 16
            begin = time.monotonic()
            server.kill()
            worst = max(worst, all_end(client, count, begin))
            assert client.event("peer-down")[1] in ("ERR_PEER_RESET", "ERR_PEER_CLOSED")
            assert client.json("peer")["state"] == 4
            client.do("poison", 0)
            client.do("close")  # the last one who could write has left
            client.do("poisoned", 0)
    measure("peer killed, " + ("busy" if busy else "idle"), worst, "s", rounds=ROUNDS)


def test_peer_closes(hosts):
    server, client = both(hosts)
    with server, client:
        meet(server, client, SIZE)
        client.do("post", "recv", 4, 0, 0, 0, 1000)
        load(client)
        begin = time.monotonic()
        took = float(server.do("close"))
        worst = all_end(client, 16, begin)
        assert client.event("peer-down")[1] == "ERR_PEER_CLOSED"
        measure("peer closed", worst, "s")
        measure("close of a busy session", took, "s")


def test_all_connections_reset(hosts):
    server, client = both(hosts)
    with server, client:
        meet(server, client, SIZE)
        client.do("post", "recv", 2, 0, 0, 0, 1000)
        load(client)
        begin = time.monotonic()
        assert hosts.a.reset_flows("dst", hosts.address("b"))
        worst = all_end(client, 14, begin)
        server.event("peer-down")
        measure("all connections reset", worst, "s")


def test_peer_stopped(hosts):
    """Its kernel acknowledges, the process says nothing: suspect first, then dead."""
    stopped = 10000 if LONG else 5000
    server, client = both(hosts, stopped=stopped)
    with server, client:
        meet(server, client, SIZE)
        client.do("post", "recv", 2, 0, 0, 0, 1000)
        begin = time.monotonic()
        server.signal(signal.SIGSTOP)
        worst = all_end(client, 2, begin)
        assert client.event("peer-down")[1] == "ERR_PEER_STOPPED"
        kinds = [row[0] for row in client.events]
        assert kinds.index("peer-suspect") < kinds.index("peer-down")
        measure(f"peer stopped, limit {stopped} ms", worst, "s")
        server.kill()


def test_stopped_peer_recovers(hosts):
    """Suspect is not dead: a peer that comes back within the limit goes on."""
    server, client = both(hosts, stopped=60000, silent=60000)
    with server, client:
        meet(server, client, SIZE)
        load(client)
        server.signal(signal.SIGSTOP)
        client.event("peer-suspect")
        server.signal(signal.SIGCONT)
        client.event("peer-recovered")
        progress(client, 8)
        drained(client)
        assert not client.ended and not client.has("peer-down")


def test_own_stall_kills_nobody(hosts):
    """We were stopped for longer than every limit: the clocks start again, nobody is dead."""
    server, client = both(hosts, stopped=60000, silent=60000)
    client.close()
    client = Peer(hosts.a, name="client", bind=hosts.address("a"), flags=NO_LOCAL, silent=1000,
                  stopped=3000)
    with server, client:
        meet(server, client, SIZE)
        load(client)
        client.signal(signal.SIGSTOP)
        lasts(60 if LONG else 5)
        client.signal(signal.SIGCONT)
        progress(client, 8)
        drained(client)
        assert not client.has("peer-down") and not client.ended
        assert not server.has("peer-down")


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize("way", ["in", "out", "both"])
def test_blackhole(hosts, way, busy):
    """Packets vanish: dead within the limit, on both sides, whatever is under way."""
    silent = 5000 if LONG else 1000
    server, client = both(hosts, silent=silent)
    with server, client:
        meet(server, client, SIZE)
        client.do("post", "recv", 2, 0, 0, 0, 1000)
        if busy:
            load(client)
        begin = time.monotonic()
        if way != "out":
            hosts.a.drop("input")
        if way != "in":
            hosts.a.drop("output")
        worst = all_end(client, 14 if busy else 2, begin)
        # whoever notices first closes, which the other one hears when that way is open
        verdicts = {client.event("peer-down")[1], server.event("peer-down")[1]}
        assert "ERR_PEER_SILENT" in verdicts
        assert verdicts <= {"ERR_PEER_SILENT", "ERR_PEER_CLOSED", "ERR_PEER_RESET"}
        measure(f"silent {way}, {'busy' if busy else 'idle'}, limit {silent} ms", worst, "s")
        hosts.a.undrop()


def test_short_blackhole_survives(hosts):
    """Shorter than the limit: nothing is lost."""
    server, client = both(hosts, silent=20000)
    with server, client:
        meet(server, client, SIZE)
        load(client)
        hosts.a.drop("input")
        client.event("peer-suspect")
        hosts.a.undrop()
        client.event("peer-recovered")
        progress(client, 8)
        drained(client)
        assert not client.ended and not client.has("peer-down")


def test_frozen_reader_lives(hosts):
    """Nobody reads the data, heartbeats flow: a zero window is legal for ever."""
    server, client = both(hosts, silent=1000, stopped=3000)
    with server, client:
        meet(server, client, SIZE)
        load(client)
        workers = server.threads("tcpx-w")
        assert workers
        with subprocess.Popen([helper("freeze_thread"), *map(str, workers)], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as freeze:
            assert freeze.stdout.readline() == "frozen\n"
            lasts(12 if LONG else 6)
            assert not client.has("peer-down") and not server.has("peer-down")
            assert not client.has("channel-down") and not server.has("channel-down")
            freeze.stdin.close()
            assert freeze.stdout.readline() == "thawed\n"
        progress(client, 8)
        drained(client)
        assert not client.ended


def test_slow_memory_lives(hosts):
    """The target's memory takes nothing for a while: credits run out, nobody dies."""
    server, client = both(hosts, silent=1000, stopped=3000)
    with server, client:
        meet(server, client, SIZE, memory="slow")
        server.do("hold", 1)
        client.do("fill", 0, 0, SIZE, 3)
        client.do("post", "write", 16, 0, 0, 0, SIZE // 16)
        lasts(6)
        assert not client.has("peer-down") and not server.has("peer-down")
        server.do("hold", 0)
        client.do("wait", 100)
        assert [row[2] for row in client.ended] == ["OK"] * 16
        server.do("check", 0, 0, SIZE, 3)


def test_one_channel_reset(hosts):
    """One of several channels is lost in the middle: bytes exact, the transfer is done, the channel
    comes back."""
    server, client = both(hosts, channels=4, log="warn")
    with server, client:
        meet(server, client, SIZE)
        for seed in range(2, 2 + (20 if LONG else 3)):
            client.events.clear()
            client.do("fill", 0, 0, SIZE, seed)
            client.do("post", "write", 16, 0, 0, 0, SIZE // 16)
            busiest = data_flows(hosts.a)[0]
            assert hosts.a.reset_flows("sport", "=", f":{busiest}")
            client.do("wait", 100)
            assert [row[2] for row in client.ended] == ["OK"] * 16
            client.ended.clear()
            server.do("check", 0, 0, SIZE, seed)
            client.event("channel-down")
            client.event("channel-up")
            assert not client.has("peer-down")
        assert client.counters()["channels_lost"] >= 1
        client.logged("; channels that live on: ")


def test_one_channel_reset_reading(hosts):
    server, client = both(hosts, channels=4)
    with server, client:
        meet(server, client, SIZE)
        server.do("fill", 0, 0, SIZE, 5)
        client.do("post", "read", 16, 0, 0, 0, SIZE // 16)
        busiest = data_flows(hosts.b, 3)[0]
        assert hosts.b.reset_flows("dport", "=", f":{busiest}")
        client.do("wait", 100)
        if any(row[0] == "peer-down" for row in client.events):
            pytest.fail("the peer died with three channels left")
        assert [row[2] for row in client.ended] == ["OK"] * 16
        client.do("check", 0, 0, SIZE, 5)


def test_all_data_channels_reset(hosts):
    """The control link is alone: the last data channel lost ends the peer."""
    server, client = both(hosts, channels=2)
    with server, client:
        meet(server, client, SIZE)
        client.do("post", "recv", 2, 0, 0, 0, 1000)
        load(client, 40)
        flows = data_flows(hosts.a)
        # none comes back before the last one is gone
        hosts.b.drop("input", "tcp flags & (syn|ack) == syn")
        begin = time.monotonic()
        # all at once; the control link is the one that carried least
        match = " or ".join(f"sport = :{port}" for port in flows[:-1])
        assert hosts.a.reset_flows("( " + match + " )")
        all_end(client, 14, begin)
        client.event("peer-down")


def test_one_rail_of_two_cut(rails):
    """Either rail is cut in turn: the peer lives, data moves, control dials again."""
    server, client = both(rails, pairs=2, channels=4, silent=3000)
    with server, client:
        meet(server, client, SIZE)
        load(client)
        for pair in (0, 1):
            begin = time.monotonic()
            rails.link(rails.b, pair, "down")
            progress(client, 8)
            measure(f"rail {pair} cut, data moves again", time.monotonic() - begin, "s")
            lasts(4)  # whoever hangs on that rail has noticed
            progress(client, 8)
            assert not client.has("peer-down") and not server.has("peer-down")
            rails.link(rails.b, pair, "up")
            rails.b.run("ip", "addr", "replace", rails.address("b", pair, 6) + "/64", "dev",
                        rails.device(rails.b, pair), "nodad")
            client.channels_back()
        drained(client)
        assert not client.ended
        assert client.counters()["control_redials"] + server.counters()["control_redials"] >= 1


@pytest.mark.parametrize("op", ["write", "read"] if LONG else ["write"])
@pytest.mark.parametrize("way", ["in", "both"] if LONG else ["in"])
@pytest.mark.parametrize("pair", [0, 1])
def test_rail_dead_beyond_the_switch(rails, op, way, pair):
    """Packets of one rail vanish and no carrier is lost: what is stuck there is sent over the other
    one after the silence limit, the control link dials again, and the peer lives."""
    server, client = both(rails, pairs=2, channels=4, silent=3000)
    with server, client:
        meet(server, client, SIZE)
        source, target = (client, server) if op == "write" else (server, client)
        source.do("fill", 0, 0, SIZE, 9)
        for count in (16, 32, 48):
            if count == 32:
                rails.a.drop("input", "ip daddr " + rails.address("a", pair))
                if way == "both":
                    rails.b.drop("input", "ip daddr " + rails.address("b", pair))
            client.do("post", op, 16, 0, 0, 0, SIZE // 16)
            client.do("wait", 100)
            assert [row[2] for row in client.ended] == ["OK"] * count
        target.do("check", 0, 0, SIZE, 9)
        client.event("channel-down")
        for peer in (server, client):
            assert not peer.has("peer-down")
            assert peer.counters()["carrier_losses"] == 0
        if pair == 0:  # the control link was there
            assert client.counters()["control_redials"] >= 1


def test_only_rail_cut(hosts):
    server, client = both(hosts, silent=2000)
    with server, client:
        meet(server, client, SIZE)
        client.do("post", "recv", 2, 0, 0, 0, 1000)
        load(client)
        begin = time.monotonic()
        hosts.link(hosts.b, 0, "down")
        worst = all_end(client, 14, begin)
        assert client.event("peer-down")[1] in ("ERR_PEER_SILENT", "ERR_UNREACHABLE")
        measure("only rail cut, limit 2000 ms", worst, "s")
        server.event("peer-down")
