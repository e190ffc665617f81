# SPDX-License-Identifier: Apache-2.0
"""Paths that drop full-sized packets in silence: transfers go on with smaller ones, or end, and
either way somebody says "path MTU"."""
import pytest

from netns import LONG, NO_LOCAL, Peer, hosts, meet  # noqa: F401

SIZE = 1 << 20


def hole(hosts, towards, over):
    """Packets of more bytes never arrive there, and nobody hears of it. What the wire would carry
    as several packets must not pass here as one."""
    for host in (hosts.a, hosts.b):
        host.run("ip", "link", "set", hosts.device(host), "gso_max_segs", "1")
    for which in towards:
        host = hosts.a if which == "a" else hosts.b
        host.drop(match=f'iifname "{hosts.device(host)}" meta length > {over}')


def pair(hosts, family=4, **more):
    options = {"flags": NO_LOCAL, "key": hosts.key, "channels": 2, "log": "warn", **more}
    return (Peer(hosts.b, name="server", bind=hosts.address("b", 0, family), **options),
            Peer(hosts.a, name="client", bind=hosts.address("a", 0, family), **options))


def said(peer):
    return [line for line in list(peer.log) if "path MTU" in line]


def transfer(server, client, op, seed):
    source, target = (client, server) if op == "write" else (server, client)
    source.do("fill", 0, 0, SIZE, seed)
    client.ended.clear()
    client.do("post", op, 4, 0, 0, 0, SIZE // 4)
    client.do("wait", 100)
    assert [row[2] for row in client.ended] == ["OK"] * 4
    target.do("check", 0, 0, SIZE, seed)


CASES = [("read", "a", 4, 1300), ("write", "b", 6, 1400)]
if LONG:
    CASES += [("read", "ab", 6, 1300), ("write", "ab", 4, 1300), ("read", "a", 4, 700),
              ("write", "b", 4, 1499)]


@pytest.mark.parametrize("op, towards, family, over", CASES)
def test_full_packets_are_lost(hosts, op, towards, family, over):
    """The end that sends them finds out; the dialler makes the next channels."""
    hole(hosts, towards, over)
    server, client = pair(hosts, family)
    with server, client:
        meet(server, client, SIZE)
        transfer(server, client, op, 11)
        transfer(server, client, op, 12)
        sender = client if op == "write" else server
        assert len(said(sender)) == 1, sender.log
        assert hosts.address("a", 0, family) in said(sender)[0]
        assert hosts.address("b", 0, family) in said(sender)[0]
        assert not client.has("peer-down") and not server.has("peer-down")


def test_a_path_without_a_hole_keeps_its_packets(hosts):
    """A cut of the network longer than a hole takes to be found is no hole."""
    server, client = pair(hosts, silent=60000, stopped=600000)
    with server, client:
        meet(server, client, SIZE)
        transfer(server, client, "write", 3)
        hosts.b.drop()
        client.do("post", "write", 1, 0, 0, 0, SIZE)
        client.event("peer-suspect")
        hosts.b.undrop()
        client.do("wait", 100)
        assert client.ended[-1][2] == "OK"
        assert not said(client) and not said(server)
        assert client.counters()["channels_lost"] == 0


if LONG:
    @pytest.mark.parametrize("op, towards", [("read", "a"), ("write", "b")])
    def test_no_size_passes(hosts, op, towards):
        """Nothing but handshakes and heartbeats arrives: the request ends, and says why."""
        hole(hosts, towards, 400)
        server, client = pair(hosts)
        with server, client:
            meet(server, client, SIZE)
            client.do("post", op, 1, 0, 0, 0, SIZE)
            client.do("wait", 100)
            assert client.ended[-1][2] in ("ERR_PEER_SILENT", "ERR_PEER_RESET"), client.ended
            sender = client if op == "write" else server
            sender.logged("path MTU: packets of")


    def test_the_tool_says_path_mtu(tool, serve, hosts):
        hole(hosts, "b", 1300)
        server = serve("--bind", "gb0", "--insecure", where=tool.at(hosts.b))
        done = tool.at(hosts.a)("perf", server.address, "--insecure", "--size", "256K", "--iters",
                                "4", "--timeout", "60", env={"TCPX_LOG": "warn"})
        assert done.returncode == 0, done.stderr
        assert "path MTU" in done.stderr and "0 wrong bytes" in done.stdout
