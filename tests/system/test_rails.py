# SPDX-License-Identifier: Apache-2.0
"""Rails that lead nowhere: sources follow the route, a dead rail is left out, said once and tried
again, and an address that both hosts have is not taken for the peer's."""
import itertools

import pytest

from netns import NO_LOCAL, Peer, hosts, meet, rails, share  # noqa: F401

SIZE = 1 << 20


def isolated(host, address, name="aux0"):
    """A NIC with a carrier on a network of its own, as far in front in the kernel's list as there
    is room."""
    family = ["-6"] if ":" in address else []
    taken = {int(line.split(":")[0]) for line in host.run("ip", "-o", "link").splitlines()}
    index = next(i for i in itertools.count(2) if not taken & {i, i + 1})
    host.run("ip", "link", "add", name, "index", str(index), "type", "veth", "peer", "name",
             "auxp", "index", str(index + 1))
    host.run("ip", *family, "addr", "add", address, "dev", name, *(["nodad"] if family else []))
    for device in (name, "auxp"):
        host.run("ip", "link", "set", device, "up")


def exchange(server, client):
    client.ended.clear()
    client.do("fill", 0, 0, SIZE, 7)
    client.do("post", "write", 4, 0, 0, 0, SIZE // 4)
    client.do("wait", 100)
    server.do("check", 0, 0, SIZE, 7)
    server.do("fill", 0, 0, SIZE, 8)
    client.do("post", "read", 4, 0, 0, 0, SIZE // 4)
    client.do("wait", 100)
    client.do("check", 0, 0, SIZE, 8)
    assert [row[2] for row in client.ended] == ["OK"] * 8


def said(peer, device):
    return [line for line in list(peer.log) if f"interface {device} " in line]


def session(host, hosts, name, bind, **more):
    return Peer(host, name=name, flags=NO_LOCAL, channels=3, key=hosts.key, bind=bind, log="warn",
                **more)


@pytest.mark.parametrize("how", ["auto", "list"])
@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("where", ["client", "server", "both"])
def test_an_isolated_nic(hosts, where, family, how):
    """Either side, or both, have one more NIC, which comes first in the list; in the last case
    both are of one subnet, as two storage networks are that never meet."""
    net = "172.29.2.{}/24" if family == 4 else "fd29:2::{}/64"
    binds = {}
    for side, host, device in (("client", hosts.a, "ga0"), ("server", hosts.b, "gb0")):
        if where in (side, "both"):
            isolated(host, net.format(1 if side == "client" else 2))
            binds[side] = f"aux0,{hosts.address(host, 0, family)}" if how == "list" else "auto"
        else:
            binds[side] = hosts.address(host, 0, family)
        if family == 6:
            for nic in (device, "aux0"):
                host.run("ip", "-4", "addr", "flush", "dev", nic, check=False)
    with session(hosts.b, hosts, "server", binds["server"]) as server, \
            session(hosts.a, hosts, "client", binds["client"]) as client:
        meet(server, client, SIZE)
        exchange(server, client)
        ours, theirs = hosts.address("a", 0, family), hosts.address("b", 0, family)
        rows = [row for row in hosts.a.flows() if row[2] == theirs]
        assert len(rows) == 5 and {row[0] for row in rows} == {ours}
        if where == "server":
            assert not client.log
        else:
            assert len(said(client, "aux0")) == 1, client.log
            line = said(client, "aux0")[0]
            assert net.split("{")[0] in line and ("nothing answers" in line or "unreach" in line)


def test_said_once_for_all_peers(hosts):
    isolated(hosts.a, "172.29.2.1/24")
    with session(hosts.a, hosts, "client", "aux0,ga0") as client:
        for name in ("one", "two"):
            with session(hosts.b, hosts, name, "gb0") as server:
                meet(server, client, SIZE)
        assert len(said(client, "aux0")) == 1, client.log


def test_a_rail_that_comes_up_later(rails):
    """The second rail drops everything while the link is made. When it leads to the peer its
    channels are there."""
    rails.b.drop(match='iifname "gb1"')
    with session(rails.b, rails, "server", "10.77.0.2,10.77.1.2") as server, \
            session(rails.a, rails, "client", "10.77.0.1,10.77.1.1") as client:
        meet(server, client, SIZE)
        exchange(server, client)
        client.logged("interface ga1 (10.77.1.1) does not lead to peer 'server' at 10.77.1.2:")
        assert {row[0] for row in rails.a.flows()} == {"10.77.0.1"}
        assert not client.has("channel-down")
        rails.b.undrop()
        client.channels_back()
        client.until("a channel of the second rail", lambda: any(
            row[0] == "10.77.1.1" for row in rails.a.flows()))
        exchange(server, client)
        assert not client.has("peer-down") and not server.has("peer-down")


def test_a_rail_without_a_carrier_at_first(rails):
    with session(rails.b, rails, "server", "10.77.0.2,10.77.1.2") as server, \
            session(rails.a, rails, "client", "10.77.0.1,10.77.1.1") as client:
        rails.link(rails.b, 1, "down")
        meet(server, client, SIZE)
        assert {row[0] for row in rails.a.flows()} == {"10.77.0.1"}
        rails.link(rails.b, 1, "up")
        client.until("a channel of the second rail", lambda: any(
            row[0] == "10.77.1.1" for row in rails.a.flows()))
        exchange(server, client)


@pytest.mark.parametrize("how", ["info", "name"])
def test_an_address_that_both_hosts_have(hosts, how):
    """192.168.100.1 is the address of a DPU's management port on every host. Another session
    listens there, on the port of the peer; it knows the same key."""
    for host in (hosts.a, hosts.b):
        isolated(host, "192.168.100.1/24", "tmfifo")
    with session(hosts.a, hosts, "here", "tmfifo") as here, \
            session(hosts.b, hosts, "server", "tmfifo," + hosts.address("b")) as server, \
            session(hosts.a, hosts, "client", "tmfifo," + hosts.address("a")) as client:
        port = int(here.do("listen", 0))
        server.do("listen", port)
        if how == "info":
            client.do("connect", server.do("info"))
        else:
            client.do("connect_to", f"{hosts.address('b')}:{port}")
        server.do("accept", 20000)
        share(server, client, SIZE)
        exchange(server, client)
        rows = [row for row in hosts.a.flows() if row[3] == port]
        assert {(row[0], row[2]) for row in rows} == {(hosts.address("a"), hosts.address("b"))}


def test_an_address_that_leads_to_another_session(hosts):
    """The first address of the peer's list is translated to a session that is not the peer."""
    hosts.b.run("ip", "addr", "add", "10.99.9.9/32", "dev", "lo")
    hosts.a.run("ip", "route", "add", "10.99.9.9", "via", hosts.address("b"))
    with session(hosts.b, hosts, "other", "gb0") as other, \
            session(hosts.b, hosts, "server", "10.99.9.9," + hosts.address("b")) as server, \
            session(hosts.a, hosts, "client", "ga0") as client:
        third = other.do("listen", 0)
        port = int(server.do("listen", 0))
        hosts.a.nft(f"""
table ip nat {{
    chain output {{
        type nat hook output priority -100;
        ip daddr 10.99.9.9 tcp dport {port} dnat to {hosts.address("b")}:{third}
    }}
}}
""")
        client.do("connect", server.do("info"))
        server.do("accept", 20000)
        share(server, client, SIZE)
        exchange(server, client)
        assert not other.has("peer-up")
        rows = [row for row in hosts.a.flows() if row[3] == port]
        assert {row[2] for row in rows} == {hosts.address("b")}


def test_two_sources_that_the_route_would_not_take(hosts):
    """The route leaves from an address that the list does not name; of those that it names one
    has a way back."""
    for last in (1, 2):
        hosts.a.run("ip", "addr", "add", f"10.88.{last}.1/32", "dev", "lo")
    hosts.b.run("ip", "route", "add", "10.88.2.1/32", "via", hosts.address("a"))
    hosts.b.run("ip", "route", "add", "blackhole", "10.88.1.1/32")
    with session(hosts.b, hosts, "server", "gb0") as server, \
            session(hosts.a, hosts, "client", "10.88.1.1,10.88.2.1") as client:
        meet(server, client, SIZE)
        exchange(server, client)
        assert {row[0] for row in hosts.a.flows()} == {"10.88.2.1"}


def test_the_tool_with_bind_auto(tool, serve, hosts):
    isolated(hosts.a, "172.29.2.1/24")
    server = serve("--bind", "gb0", "--insecure", where=tool.at(hosts.b))
    done = tool.at(hosts.a)("perf", server.address, "--bind", "auto", "--insecure", "--size",
                            "64K", "--iters", "10")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("interface aux0 (172.29.2.1) does not lead to peer") == 1
