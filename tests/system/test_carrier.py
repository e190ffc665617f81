# SPDX-License-Identifier: Apache-2.0
"""Interfaces that lose their carrier and get it back: the kernel tells, and what runs over them
moves at once. The silence limit is a minute here and nothing else looks at a rail before a third of
it, so that whatever moves, moves because of the event; the counter says so."""
import pytest

from netns import LONG, both, hosts, meet, rails  # noqa: F401

SIZE = 64 << 20
SLOW = {"silent": 60000, "stopped": 600000}


def slow_links(hosts):
    """So that a transfer takes long enough to be met in the middle."""
    for host in (hosts.a, hosts.b):
        for pair in range(hosts.pairs):
            host.run("tc", "qdisc", "add", "dev", hosts.device(host, pair), "root", "tbf", "rate",
                     "300mbit", "burst", "256k", "latency", "50ms")


def begin(server, client, op, seed):
    """A transfer of the whole memory in 16 requests; returns when one of them has ended."""
    source = client if op == "write" else server
    source.do("fill", 0, 0, SIZE, seed)
    client.ended.clear()
    client.do("post", op, 16, 0, 0, 0, SIZE // 16)
    client.until("the end of the first of them", lambda: client.ended)


def end(server, client, op, seed):
    """It ends well and every byte is right."""
    client.do("wait", 100)
    assert [row[2] for row in client.ended] == ["OK"] * 16
    (server if op == "write" else client).do("check", 0, 0, SIZE, seed)


def transfer(server, client, op, seed):
    begin(server, client, op, seed)
    end(server, client, op, seed)


def rails_in_use(rails):
    """Pairs over which the client has connections."""
    return {int(row[0].split(".")[2]) for row in rails.a.flows()}


@pytest.mark.parametrize("op", ["write", "read"] if LONG else ["write"])
@pytest.mark.parametrize("side", ["a", "b"] if LONG else ["a"])
def test_carrier_lost_in_a_transfer(rails, side, op):
    """Either side's interface goes down, either rail: bytes exact over the other one; when the
    carrier is back the channels of that rail are back."""
    server, client = both(rails, pairs=2, channels=4, **SLOW)
    host = rails.a if side == "a" else rails.b
    slow_links(rails)
    with server, client:
        meet(server, client, SIZE)
        assert rails_in_use(rails) == {0, 1}
        for pair in (0, 1):
            client.events.clear()
            lost = client.counters()["carrier_losses"]
            begin(server, client, op, 10 + pair)
            assert len(client.ended) < 16, "the transfer is over before the fault"
            rails.link(host, pair, "down")
            client.event("channel-down")
            end(server, client, op, 10 + pair)
            assert client.counters()["carrier_losses"] >= lost + 2  # two of its four channels
            assert rails_in_use(rails) == {1 - pair}
            rails.link(host, pair, "up")
            client.channels_back()
            # one that was dialled before the rail led there has gone elsewhere, and comes back
            client.until("the channels of that rail", lambda: sum(
                row[0] == rails.address("a", pair) for row in rails.a.flows()) >= 2)
            transfer(server, client, op, 20 + pair)
        for peer in (server, client):
            assert not peer.has("peer-down") and not peer.has("peer-suspect")
            assert peer.counters()["peers_lost"] == 0
        assert client.counters()["control_redials"] >= 1  # it was on one of the rails
        assert client.counters()["resent_chunks"] + server.counters()["resent_chunks"] > 0


def test_control_link_leaves_with_its_rail(rails):
    """Idle: the control link is on the first rail and dials again over the second."""
    server, client = both(rails, pairs=2, channels=2, log="info", **SLOW)
    with server, client:
        meet(server, client, SIZE)
        rails.link(rails.a, 0, "down")
        for peer in (server, client):
            peer.logged("control link is back")
            assert peer.counters()["control_redials"] == 1
        assert client.counters()["carrier_losses"] >= 2
        transfer(server, client, "write", 3)
        assert not client.has("peer-down") and not server.has("peer-down")


def test_interface_is_deleted(rails):
    server, client = both(rails, pairs=2, channels=4, **SLOW)
    slow_links(rails)
    with server, client:
        meet(server, client, SIZE)
        begin(server, client, "write", 5)
        rails.a.run("ip", "link", "del", rails.device(rails.a, 1))
        end(server, client, "write", 5)
        assert client.counters()["carrier_losses"] >= 2
        assert not client.has("peer-down") and not server.has("peer-down")
        rails.join(1)  # another interface with the same name and addresses
        client.channels_back()
        assert rails_in_use(rails) == {0, 1}
        transfer(server, client, "write", 6)


def test_short_flap_of_the_only_rail(hosts):
    """With nothing to move to, nothing is given up: TCP repairs it."""
    server, client = both(hosts, channels=2, **SLOW)
    slow_links(hosts)
    with server, client:
        meet(server, client, SIZE)
        for side in (hosts.a, hosts.b):
            begin(server, client, "write", 7)
            hosts.link(side, 0, "down")
            hosts.link(side, 0, "up")
            end(server, client, "write", 7)
        for peer in (server, client):
            assert not [row for row in peer.events if row[0] not in ("peer-up",)]
            counters = peer.counters()
            assert counters["carrier_losses"] == counters["channels_lost"] == 0
            assert counters["control_redials"] == 0


def test_both_rails_flap(rails):
    """The first loss moves everything to the second rail, whose loss then gives nothing up."""
    server, client = both(rails, pairs=2, channels=2, **SLOW)
    slow_links(rails)
    with server, client:
        meet(server, client, SIZE)
        begin(server, client, "write", 8)
        for state in ("down", "up"):
            for pair in (0, 1):
                rails.link(rails.a, pair, state)
        end(server, client, "write", 8)
        assert not client.has("peer-down") and not server.has("peer-down")
