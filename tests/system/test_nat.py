# SPDX-License-Identifier: Apache-2.0
"""Sessions behind a NAT or published ports: peers are told the address and port that lead there."""
import os
import re

import pytest

from netns import NO_LOCAL, Host, Hosts, Peer, meet, run, why_no_namespaces
from test_launch import RUN, plain
from test_nixl import MIB, fixture_agents, fixture_nixl, fixture_plugin  # noqa: F401
from test_nixl import move as nixl_move
from test_node import ends_of, rows

OUTSIDE, INSIDE = "10.77.0.2", "10.88.0.2"
PORTS = range(20000, 20012)  # of the host inside; published 10000 higher
SHIFT = 10000


class Nat(Hosts):
    """Host a reaches host "inside" only by the ports that host b, the router, publishes."""

    def __enter__(self):
        super().__enter__()
        self.inside = Host(f"g-{self.tag}-i")
        try:
            run("ip", "netns", "add", self.inside.name)
            self.b.run("ip", "link", "add", "lan", "type", "veth", "peer", "name", "eth0",
                       "netns", self.inside.name)
            for host, device, at in ((self.b, "lan", "10.88.0.1"), (self.inside, "eth0", INSIDE)):
                host.run("ip", "addr", "add", f"{at}/24", "dev", device)
                host.run("ip", "link", "set", device, "up")
            self.inside.run("ip", "link", "set", "lo", "up")
            self.inside.run("ip", "route", "add", "default", "via", "10.88.0.1")
            self.b.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
            ports = "\n".join(f"ip daddr {OUTSIDE} tcp dport {port + SHIFT} dnat to "
                              f"{INSIDE}:{port}" for port in range(PORTS[0] - 1, PORTS[-1] + 1))
            self.b.nft(f"""
table ip nat {{
    chain pre {{ type nat hook prerouting priority -100; {ports}
    }}
    chain post {{ type nat hook postrouting priority 100; ip saddr 10.88.0.0/24 masquerade
    }}
}}
""")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        run("ip", "netns", "del", self.inside.name, check=False)
        super().__exit__()


@pytest.fixture(name="nat")
def fixture_nat():
    why = why_no_namespaces()
    if why:
        pytest.skip(why)
    with Nat(1) as made:
        yield made


def by_the_router(nat, count):
    """Every connection of host a goes to the published ports."""
    flows = nat.a.flows()
    assert len(flows) >= count, flows
    assert all(far == OUTSIDE and port - SHIFT in PORTS for _, _, far, port in flows), flows


@pytest.mark.parametrize("advertise", [
    f"{OUTSIDE}:{PORTS[3] + SHIFT}",
    f" 192.0.2.9:7 , {OUTSIDE}:{PORTS[3] + SHIFT}",  # one of several, after one that is dead
    f"nat.example:{PORTS[3] + SHIFT}",
])
def test_the_info_tells_the_published_address(nat, tmp_path, advertise):
    names = tmp_path / "hosts"
    names.write_text(f"127.0.0.1 localhost\n{OUTSIDE} nat.example\n")
    inside = Host(nat.inside.name)
    inside.argv = lambda *argv: ["ip", "netns", "exec", nat.inside.name, "sh", "-c",
                                 f'mount --bind {names} /etc/hosts && exec "$@"', "sh", *argv]
    with Peer(inside, name="server", bind="auto", key=nat.key, channels=3,
              env={"TCPX_ADVERTISE": advertise}) as server:
        with Peer(nat.a, name="client", bind="auto", key=nat.key, channels=3,
                  flags=NO_LOCAL) as client:
            meet(server, client, 1 << 20, listen=PORTS[3])
            by_the_router(nat, 4)
            assert client.json("peer")["transport"] == "tcp"


def test_without_it_nobody_comes(nat):
    """What the option is for."""
    with Peer(nat.inside, name="server", bind="auto", key=nat.key) as server:
        server.do("listen", PORTS[0])
        with Peer(nat.a, name="client", bind="auto", key=nat.key) as client:
            assert client.ask("connect", server.do("info"), 1500).startswith("ERR_")


@pytest.mark.parametrize("advertise, says", [
    ("nobody.invalid", "ERR_NOT_FOUND advertise=nobody.invalid: host nobody.invalid"),
    ("10.1.1.1:0", "ERR_INVALID advertise=10.1.1.1:0: "),
    ("10.1.1.1,", "ERR_INVALID advertise=10.1.1.1,: "),
    ("a" * 300, "ERR_INVALID advertise=" + "a" * 40 + "...: an entry of 300 bytes, at most 279"),
    ("0.0.0.0:80", "ERR_INVALID advertise=0.0.0.0:80: no peer can connect to the wildcard "
     "0.0.0.0:80"),
])
def test_nonsense_is_refused(advertise, says):
    with Peer(advertise=advertise, name="one") as one:
        answer = one.ask("listen", 0)
        assert answer.startswith(says), answer


def test_serve_and_perf(tool, serve, nat, with_json):
    one = serve("--bind", "auto", "--key", nat.key, "--advertise", f"{OUTSIDE}:{PORTS[0] + SHIFT}",
                where=tool.at(nat.inside), port=PORTS[0])
    done = tool.at(nat.a).perf("--key", nat.key, "--size", "64K", "--iters", "4", "--channels",
                               "4", f"{OUTSIDE}:{PORTS[0] + SHIFT}")
    assert done.returncode == 0, done.stderr
    assert "live on" not in done.stderr and "no link" not in done.stderr, done.stderr
    one.stop()


@pytest.mark.parametrize("command", ["node", "mesh"])
@pytest.mark.parametrize("form", ["HOST", "file"])
def test_ranks(tool, nat, tmp_path, command, form):
    """Rank 0 inside, rank 1 outside; every port of rank 0 is published 10000 higher."""
    meeting = {"TCPX_RENDEZVOUS": f"{tmp_path}/meet"}
    by_hand = form == "HOST"
    common = [command, *RUN, "--bind", "auto", "--key", nat.key]
    zero = tool.at(nat.inside).start(
        *common, "--port-base", PORTS[0], "--advertise", f"{OUTSIDE}:{PORTS[0] + SHIFT}",
        env={} if by_hand else plain(0, 2, **meeting))
    one = tool.at(nat.a).start(*common, *([f"{OUTSIDE}:{PORTS[0] + SHIFT}"] if by_hand else []),
                               env={} if by_hand else plain(1, 2, **meeting))
    done = ends_of([zero, one])
    assert [end.returncode for end in done] == [0, 0], [end.stderr for end in done]
    if command == "node":
        assert [row[:2] for row in rows(done[0].stdout)] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_nixl(nat, nixl, agents, monkeypatch):
    monkeypatch.delenv("TCPX_KEY_FILE", raising=False)
    assert os.geteuid() == 0
    near, far = agents(nixl, before=nat.a.argv()), agents(nixl, before=nat.inside.argv())
    near("create", "near", "TCPX", {"bind": "auto"})
    far("create", "far", "TCPX", {"nixl_port": str(PORTS[5]), "port_retries": "0",
                                  "advertise": f"{OUTSIDE}:{PORTS[5] + SHIFT}"})
    near("register", 4 * MIB)
    at = far("register", 4 * MIB)
    assert near("know", far("metadata")) == "far"
    for op in ("WRITE", "READ"):
        nixl_move(near, far, op, at, 4 * MIB)
    by_the_router(nat, 2)
    assert re.search(f":{PORTS[5]} ", nat.inside.run("ss", "-Hnlt"))
