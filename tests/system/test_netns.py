# SPDX-License-Identifier: Apache-2.0
"""Two hosts: bytes over IPv4 and IPv6, one and two rails, which transport they choose, where what
they dial begins."""
import contextlib
import subprocess
import sys

import pytest

from netns import INSECURE, Peer, both, data_flows, hosts, meet, rails, share  # noqa: F401

SIZE = 8 << 20


def exchange(server, client, size=SIZE):
    """Writes, reads back, compares every byte on both sides."""
    client.ended.clear()
    client.do("fill", 0, 0, size, 7)
    client.do("post", "write", 4, 0, 0, 0, size // 4)
    client.do("wait", 100)
    assert [row[2] for row in client.ended] == ["OK"] * 4
    server.do("check", 0, 0, size, 7)
    server.do("fill", 0, 0, size, 8)
    client.do("post", "read", 4, 0, 0, 0, size // 4)
    client.do("wait", 100)
    assert [row[2] for row in client.ended] == ["OK"] * 8
    client.do("check", 0, 0, size, 8)


@pytest.mark.parametrize("family", [4, 6])
def test_one_pair(hosts, family):
    server, client = both(hosts, family)
    with server, client:
        meet(server, client, SIZE)
        exchange(server, client)
        assert client.json("peer")["transport"] == "tcp"
        assert client.json("peer")["auth"] == "secret"


@pytest.mark.parametrize("family", [4, 6])
def test_two_rails_carry_data(rails, family):
    server, client = both(rails, family, pairs=2, channels=4)
    with server, client:
        meet(server, client, SIZE)
        exchange(server, client)
        for pair in (0, 1):
            local = rails.address("a", pair, family)
            assert any(row[0] == local and row[2] == rails.address("b", pair, family)
                       for row in rails.a.flows()), f"no channel on rail {pair}"


def test_bind_to_interfaces(rails):
    """Rails by the names of interfaces: each channel is bound to its interface's address."""
    names = [",".join(rails.device(host, pair) for pair in (0, 1)) for host in (rails.a, rails.b)]
    with Peer(rails.b, name="server", bind=names[1], key=rails.key) as server, \
            Peer(rails.a, name="client", bind=names[0], channels=2) as client:
        meet(server, client, SIZE)
        exchange(server, client)
        for row in rails.a.flows():
            assert row[0].rsplit(".", 1)[0] == row[2].rsplit(".", 1)[0] or ":" in row[0], row


@pytest.mark.parametrize("bind", ["interface", "any"])
def test_behind_many_addresses(hosts, bind):
    """Hosts with hundreds of addresses before those of the wire, as nodes of many containers
    have."""
    for host in (hosts.a, hosts.b):
        host.run("ip", "-batch", "-", input="".join(
            f"addr add 10.9.{i // 256}.{i % 256}/32 dev lo\n" for i in range(1, 301)))
    where = hosts.device(hosts.b) if bind == "interface" else "0.0.0.0"
    with Peer(hosts.b, name="server", bind=where, key=hosts.key) as server, \
            Peer(hosts.a, name="client", bind=hosts.device(hosts.a)) as client:
        meet(server, client, SIZE)
        exchange(server, client)
        assert client.json("peer")["address"].startswith(hosts.address("b"))


def test_namespaces_are_two_hosts(hosts):
    """Same kernel, same boot, but another network namespace: never the same-host transport."""
    server, client = both(hosts, flags=0)
    with server, client:
        meet(server, client, SIZE)
        exchange(server, client)
        assert client.json("peer")["transport"] == "tcp"
        assert server.json("peer")["transport"] == "tcp"


def test_one_host_uses_local(hosts):
    """Within one namespace the proof succeeds."""
    with Peer(hosts.a, name="server", bind=hosts.address("a"), key=hosts.key) as server, \
            Peer(hosts.a, name="client", bind=hosts.address("a")) as client:
        meet(server, client, SIZE)
        exchange(server, client)
        assert client.json("peer")["transport"] == "local"


def test_connect_to_insecure(hosts):
    """Beyond loopback without a key: only on demand, and every status shows it."""
    server, client = both(hosts, flags=INSECURE, key=None)
    with server, client:
        port = server.do("listen", 0)
        client.do("connect_to", f"{hosts.address('b')}:{port}")
        server.do("accept", 20000)
        assert server.do("trust") == "insecure"
        assert client.json("peer")["auth"] == "insecure"


@contextlib.contextmanager
def held(host, port):
    """A port of that host that somebody else has."""
    code = (f"import socket; s = socket.socket(socket.AF_INET6); s.bind(('::', {port})); "
            "print('held', flush=True); input()")
    with subprocess.Popen(host.argv(sys.executable, "-c", code), stdin=subprocess.PIPE, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
        assert holder.stdout.readline() == "held\n"
        yield


def source_ports(host):
    """Local ports of the host's connections."""
    return sorted(row[1] for row in host.flows())


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("bound", [True, False], ids=["bound", "any"])
def test_source_ports_of_a_range(hosts, family, bound):
    """Every connection we make comes from the range; a port that is held is passed over."""
    env = {"TCPX_SOURCE_PORTS": "41000-41005"}
    bind = {"bind": hosts.address("a", 0, family)} if bound else {}
    with Peer(hosts.b, name="server", bind=hosts.address("b", 0, family),
              key=hosts.key) as server, \
            Peer(hosts.a, env=env, name="client", channels=3, **bind) as client, \
            held(hosts.a, 41001):
        meet(server, client, SIZE)
        exchange(server, client)
        ports = source_ports(hosts.a)
        assert len(ports) == 5 == len(set(ports)), ports  # control, priority, three bulk
        assert set(ports) == {41000, 41002, 41003, 41004, 41005}
        # a channel that comes back takes one of them again
        assert hosts.a.reset_flows("sport", "=", f":{data_flows(hosts.a)[0]}")
        client.event("channel-down")
        client.event("channel-up")
        exchange(server, client)
        assert set(source_ports(hosts.a)) == {41000, 41002, 41003, 41004, 41005}


def test_source_ports_run_out(hosts):
    """The error names the range and what to do; with room it works."""
    env = {"TCPX_SOURCE_PORTS": "41000-41002"}
    with Peer(hosts.b, name="server", bind=hosts.address("b"), key=hosts.key) as server, \
            Peer(hosts.a, env=env, name="client", bind=hosts.address("a"), channels=3) as client:
        server.do("listen", 0)
        line = client.ask("connect", server.do("info"))
        assert line.startswith("ERR_ADDRESS ") and "41000-41002" in line
        assert "TCPX_SOURCE_PORTS" in line
    with Peer(hosts.b, name="server", bind=hosts.address("b"), key=hosts.key) as server, \
            Peer(hosts.a, env=env, name="client", bind=hosts.address("a"), channels=1) as client:
        meet(server, client, SIZE)
        exchange(server, client)


def test_bind_to_a_device(rails):
    """Sockets bound to an interface: the listener takes nothing from another one, and what is
    dialled leaves by that one, wherever the route points."""
    with Peer(rails.b, env={"TCPX_BIND_DEVICE": rails.device(rails.b, 1)}, name="server",
              bind="0.0.0.0", key=rails.key) as server, \
            Peer(rails.a, name="other", key=rails.key) as other, \
            Peer(rails.a, env={"TCPX_BIND_DEVICE": rails.device(rails.a, 1)}, name="client",
                 key=rails.key, channels=2) as client:
        port = server.do("listen", 0)
        line = other.ask("connect_to", f"{rails.address('b', 0)}:{port}", 3000)
        assert line.split()[0] in ("ERR_REFUSED", "ERR_TIMED_OUT")
        # the other pair's address, over this one: hosts answer for all of their addresses
        client.do("connect_to", f"{rails.address('b', 0)}:{port}")
        server.do("accept", 20000)
        share(server, client, SIZE)
        exchange(server, client)
        ends = {tuple(row[0].split("%")) for row in rails.a.flows()}
        assert ends == {(rails.address("a", 1), rails.device(rails.a, 1))}


def test_bind_to_no_device(hosts):
    with Peer(hosts.a, env={"TCPX_BIND_DEVICE": "nosuch0"}, name="client", key=hosts.key,
              bind=hosts.address("a")) as client:
        line = client.ask("listen", 0)
        assert line.startswith("ERR_ADDRESS ") and "nosuch0" in line and "ip link" in line
        line = client.ask("connect_to", hosts.address("b") + ":9")
        assert line.startswith("ERR_ADDRESS ") and "nosuch0" in line and "ip link" in line


def test_bound_to_loopback(hosts):
    """Nothing leads from there to another host, and the error does not blame an argument."""
    with Peer(hosts.a, name="client", key=hosts.key, bind="127.0.0.1") as client:
        line = client.ask("connect_to", hosts.address("b") + ":9")
        assert line.startswith("ERR_UNREACHABLE ") and hosts.address("b") in line, line
