# SPDX-License-Identifier: Apache-2.0
"""Strangers at the listening port while a transfer runs."""
import re
import subprocess
import time

import pytest

from netns import LONG, NO_LOCAL, Peer, both, helper, hosts, meet, measure  # noqa: F401
from test_peers import hello_of

SIZE = 64 << 20
PIECE = 4 << 20
COUNT = 100000 if LONG else 10000
KINDS = ["random", "http", "tls", "large", "half", "nothing", "mix"]


@pytest.fixture(scope="module")
def dial(tmp_path_factory):
    """A genuine first message of a client, as hex."""
    server, _, said = hello_of(tmp_path_factory.mktemp("hello"))
    server.close()
    return said[:200].hex()


def strangers(host, *argv, env_hex=""):
    argv = ["env", "STRANGER_HEX=" + env_hex, helper("strangers"), *map(str, argv)]
    return host.run(*argv)


def back_to(peer, fds, rss_kib):
    """Descriptors are back, memory grew by at most 1 MiB."""
    usage = peer.back_to(fds)
    assert usage["rss_kib"] <= rss_kib + 1024, f"{usage['rss_kib']} KiB, {rss_kib} before"
    return usage


@pytest.mark.parametrize("kind", KINDS)
def test_garbage(hosts, dial, kind):
    """A few hundred of each kind: every one is turned away, nothing is left behind."""
    server, client = both(hosts)
    with server, client:
        port = meet(server, client, SIZE)
        strangers(hosts.a, kind, hosts.address("b"), port, 100, env_hex=dial[:64])
        before = server.json("usage")
        count = server.counters()
        strangers(hosts.a, kind, hosts.address("b"), port, 500, env_hex=dial[:64])
        # all were accepted when the helper ends, all are counted when the descriptors are back
        back_to(server, before["fds"], before["rss_kib"])
        after = server.counters()
        # who only connects and goes was no attempt at anything
        least = {"nothing": 0, "mix": 400}.get(kind, 490)
        assert after["preauth_rejects"] - count["preauth_rejects"] >= least
        assert after["accepted"] == count["accepted"]
        assert after["protocol_errors"] == count["protocol_errors"]
        assert not server.has("peer-down") and not client.has("peer-down")


def test_many_strangers_during_a_transfer(hosts, dial):
    """The transfer goes on, its bytes are right, nothing is left behind."""
    server, client = both(hosts)
    with server, client:
        port = meet(server, client, SIZE)
        client.do("fill", 0, 0, SIZE, 9)
        client.do("loop", "write", 8, 0, 0, 0, PIECE)
        strangers(hosts.a, "mix", hosts.address("b"), port, 500, env_hex=dial[:64])
        before = server.json("usage")
        begin = time.monotonic()
        client.do("move", 200, 100)
        quiet = 200 / (time.monotonic() - begin)
        begin = time.monotonic(), int(client.do("rounds"))
        text = strangers(hosts.a, "mix", hosts.address("b"), port, COUNT, COUNT // 1700,
                         env_hex=dial[:64])
        beside = (int(client.do("rounds")) - begin[1]) / (time.monotonic() - begin[0])
        assert int(re.match(r"talked (\d+)", text)[1]) == COUNT
        client.do("stop")
        client.do("wait", 100)
        assert not client.ended and not client.has("peer-down")
        server.do("check", 0, 0, 8 * PIECE, 9)
        back_to(server, before["fds"], before["rss_kib"])
        measure("goodput beside strangers, of quiet", beside / quiet, "ratio", strangers=COUNT)
        # a newcomer with the secret still gets in
        with Peer(hosts.a, name="late", bind=hosts.address("a"), flags=NO_LOCAL) as late:
            late.do("connect", server.do("info"))


@pytest.mark.parametrize("kind", ["silent", "drip"])
def test_slow_strangers_are_dropped(hosts, dial, kind):
    """Silent, or a byte of a genuine hello a second: dropped, and nothing was said to them."""
    server, client = both(hosts)
    with server, client:
        port = meet(server, client, 1 << 20)
        before = server.json("usage")
        text = strangers(hosts.a, kind, hosts.address("b"), port, 300, 60, env_hex=dial)
        left, answered, worst = re.search(r"^left (\d+) answered (\d+) worst ([\d.]+)",
                                          text, re.M).groups()
        assert (left, answered) == ("0", "0"), text
        measure(f"{kind} strangers dropped", float(worst), "s")
        back_to(server, before["fds"], before["rss_kib"])
        client.do("post", "write", 1, 0, 0, 0, 1 << 20)
        client.do("wait", 100)
        assert client.ended[-1][2] == "OK"


def test_strangers_do_not_keep_a_peer_out(hosts, dial):
    """Every place for strangers is taken by silent ones of one source: a genuine one comes in."""
    with Peer(hosts.b, name="server", bind=hosts.address("b"), flags=NO_LOCAL,
              key=hosts.key) as server, \
            Peer(hosts.a, name="client", bind=hosts.address("a"), flags=NO_LOCAL) as client:
        port = int(server.do("listen", 0))
        argv = hosts.a.argv("env", "STRANGER_HEX=" + dial, helper("strangers"), "silent",
                            hosts.address("b"), str(port), "400", "30")
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as crowd:
            assert crowd.stdout.readline() == "dialled 400\n"
            begin = time.monotonic()
            client.do("connect", server.do("info"))
            measure("connect beside silent strangers", time.monotonic() - begin, "s")
            crowd.kill()
