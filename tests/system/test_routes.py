# SPDX-License-Identifier: Apache-2.0
"""Which way data channels go: every kind of bind on both sides must end in a link that works."""
import pytest

from netns import NO_LOCAL, Peer, hosts, meet  # noqa: F401

SIZE = 1 << 20


def work(hosts, server_bind, client_bind, channels):
    """A link of so many channels and a transfer over it; returns its flows."""
    with Peer(hosts.b, name="server", flags=NO_LOCAL, channels=channels, key=hosts.key,
              bind=server_bind) as server, \
            Peer(hosts.a, name="client", flags=NO_LOCAL, channels=channels, key=hosts.key,
                 bind=client_bind) as client:
        port = meet(server, client, SIZE)
        client.do("post", "write", 4, 0, 0, 0, SIZE // 4)
        client.do("wait", 100)
        assert [row[2] for row in client.ended] == ["OK"] * 4
        flows = hosts.a.flows("dport", "=", str(port))
        assert len(flows) == channels + 2  # with the lane and the control link
        return flows


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_wildcard_on_both_sides(hosts, channels):
    """The server names all its addresses, its loopback one too: that is not here."""
    work(hosts, "0.0.0.0", "0.0.0.0", channels)


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_bound_beyond_a_router(hosts, channels):
    """No address of the peer lies in the client's own subnet."""
    hosts.a.run("ip", "addr", "add", "10.88.1.1/32", "dev", "lo")
    hosts.b.run("ip", "route", "add", "10.88.1.1/32", "via", hosts.address("a"))
    flows = work(hosts, "0.0.0.0", "10.88.1.1", channels)
    assert {row[0] for row in flows} == {"10.88.1.1"}


def test_an_address_that_leads_nowhere(hosts):
    """The channel that tried it goes where the control link goes."""
    hosts.a.run("ip", "addr", "add", "10.88.1.1/32", "dev", "lo")
    hosts.b.run("ip", "addr", "add", "10.99.9.9/32", "dev", "lo")
    hosts.b.run("ip", "route", "add", "10.88.1.1/32", "via", hosts.address("a"))
    flows = work(hosts, hosts.address("b") + ",10.99.9.9", "10.88.1.1", 3)
    assert {row[2] for row in flows} == {hosts.address("b")}


def test_a_bridge_that_both_have(hosts):
    """172.17.0.1 of the peer's is another than ours, which has a listener of its own."""
    for host in (hosts.a, hosts.b):
        host.run("ip", "addr", "add", "172.17.0.1/16", "dev", "lo")
    with Peer(hosts.a, name="here", flags=NO_LOCAL, bind="172.17.0.1", key=hosts.key) as here:
        port = int(here.do("listen", 0))
        with Peer(hosts.b, name="server", flags=NO_LOCAL, key=hosts.key, channels=3,
                  bind="172.17.0.1," + hosts.address("b")) as server, \
                Peer(hosts.a, name="client", flags=NO_LOCAL, key=hosts.key, channels=3,
                     bind=hosts.address("a")) as client:
            assert meet(server, client, SIZE, listen=port) == port
            assert {row[2] for row in hosts.a.flows("dport", "=", str(port))} == \
                {hosts.address("b")}


def test_link_local(hosts):
    """The number of the interface is another one on the other host."""
    numbers = set()
    for host, last in ((hosts.a, 1), (hosts.b, 2)):
        device = hosts.device(host)
        numbers.add(host.run("cat", f"/sys/class/net/{device}/ifindex"))
        host.run("ip", "-6", "addr", "flush", "dev", device)
        host.run("ip", "addr", "add", f"fe80::77:{last}/64", "dev", device, "nodad")
    assert len(numbers) == 2
    flows = work(hosts, f"fe80::77:2%{hosts.device(hosts.b)}",
                 f"fe80::77:1%{hosts.device(hosts.a)}", 2)
    assert len(flows) == 4


def test_same_host_with_a_short_queue(hosts):
    """64 channels at once, and a queue for two: it is this host all the same."""
    hosts.a.run("sh", "-c", "echo 1 > /proc/sys/net/core/somaxconn")
    with Peer(hosts.a, name="server", channels=64) as server, \
            Peer(hosts.a, name="client", channels=64) as client:
        meet(server, client, SIZE)
        assert client.json("peer")["transport"] == "local"
        client.do("post", "write", 4, 0, 0, 0, SIZE // 4)
        client.do("wait", 100)
        assert [row[2] for row in client.ended] == ["OK"] * 4
