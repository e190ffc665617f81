# SPDX-License-Identifier: Apache-2.0
"""Names with several addresses, the first of which answers nothing, and what users write."""
import os
import re

import pytest

from netns import Host, NO_LOCAL, Peer, hosts, rails  # noqa: F401
from test_launch import RUN, plain
from test_node import ends_of, port_base

# The dead addresses that come before 10.77.0.2 in each name.
DEAD = {"v4.example": ["10.77.0.3"], "v6.example": ["fd77:1::3"],
        "many.example": ["fd77:1::3", "fd77:1::4", "fd77:1::5", "10.77.0.3"]}


class Named(Host):
    """Host a with names of its own."""

    def __init__(self, host, folder):
        super().__init__(host.name)
        self.names = folder / "hosts"
        lines = ["127.0.0.1 localhost", *(f"{at} {name}" for name, dead in DEAD.items()
                                          for at in [*dead, "10.77.0.2"])]
        self.names.write_text("\n".join(lines) + "\n")

    def argv(self, *argv):
        return [*super().argv(), "sh", "-c", f'mount --bind {self.names} /etc/hosts && exec "$@"',
                "sh", *argv]


class Rig:
    def __init__(self, hosts, folder):  # noqa: F811
        self.b, self.key = hosts.b, hosts.key
        self.a = Named(hosts.a, folder)
        for last in (3, 4, 5):
            hosts.b.run("ip", "addr", "add", f"10.77.0.{last}/24", "dev", hosts.device(hosts.b))
            hosts.b.run("ip", "addr", "add", f"fd77:1::{last}/64", "dev", hosts.device(hosts.b),
                        "nodad")
        hosts.b.nft("""
table inet dead {
    counter lost { }
    chain in {
        type filter hook input priority 0; policy accept;
        ip daddr 10.77.0.3-10.77.0.5 tcp flags syn counter name lost drop
        ip6 daddr fd77:1::3-fd77:1::5 tcp flags syn counter name lost drop
    }
}
""")

    def lost(self):
        """SYNs to dead addresses. Each is sent again after 1 s and after 3 s."""
        text = self.b.run("nft", "list", "counter", "inet", "dead", "lost")
        return int(re.search(r"packets (\d+)", text)[1])


@pytest.fixture(name="rig")
def fixture_rig(hosts, tmp_path):  # noqa: F811
    assert os.geteuid() == 0
    return Rig(hosts, tmp_path)


def soon(rig, dials, name):
    """Every dead address was tried, at most, and sent its SYN again once: far from its time-out,
    which lets three of them and more pass."""
    most = 2 * dials * len(DEAD[name])
    assert 1 <= rig.lost() <= most, rig.lost()


@pytest.mark.parametrize("name", sorted(DEAD))
def test_the_api(rig, name):
    with Peer(rig.b, name="server", bind="10.77.0.2", key=rig.key, flags=NO_LOCAL) as server:
        port = server.do("listen", 0)
        with Peer(rig.a, name="client", bind="auto", key=rig.key, flags=NO_LOCAL) as client:
            client.do("connect_to", f"{name}:{port}")
            soon(rig, 1, name)


@pytest.mark.parametrize("name", sorted(DEAD))
def test_perf(tool, serve, rig, name):
    one = serve("--bind", "10.77.0.2", "--key", rig.key, where=tool.at(rig.b))
    port = one.address.rsplit(":", 1)[1]
    done = tool.at(rig.a)("perf", "--key", rig.key, "--size", "64K", "--iters", "4",
                          "--transport", "tcp", f"{name}:{port}")
    assert done.returncode == 0, done.stderr
    soon(rig, 4, name)


@pytest.mark.parametrize("form", ["HOST", "rendezvous"])
def test_ranks(tool, rig, form):
    port = port_base()
    common = ["node", *RUN, "--key", rig.key]
    where, envs = [], [{}, {}]
    if form == "HOST":
        where = ["many.example"]
        common += ["--port-base", port]
    else:
        envs = [plain(rank, 2, TCPX_RENDEZVOUS=f"{at}:{port}")
                for rank, at in enumerate(("10.77.0.2", "many.example"))]
    done = ends_of([tool.at(rig.b).start(*common, "--bind", "10.77.0.2", env=envs[0]),
                    tool.at(rig.a).start(*common, "--bind", "auto", *where, env=envs[1])])
    assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]
    soon(rig, 4, "many.example")


def link_local(pair):
    """Host b listens on a link-local address of its first interface."""
    for host, at in ((pair.a, "fe80::a1"), (pair.b, "fe80::b1")):
        for number in range(pair.pairs):
            host.run("ip", "addr", "add", f"{at}{number}/64", "dev", pair.device(host, number),
                     "nodad")
    return Peer(pair.b, name="server", bind=f"fe80::b10%{pair.device(pair.b)}", key=pair.key)


def test_a_link_local_address_of_the_only_interface(hosts):  # noqa: F811
    with link_local(hosts) as server, Peer(hosts.a, name="client", bind="auto",
                                           key=hosts.key) as client:
        client.do("connect_to", f"[fe80::b10]:{server.do('listen', 0)}")


def test_a_link_local_address_of_one_of_two_interfaces(rails):  # noqa: F811
    with link_local(rails) as server, Peer(rails.a, name="client", bind="auto",
                                           key=rails.key) as client:
        port = server.do("listen", 0)
        answer = client.ask("connect_to", f"[fe80::b10]:{port}")
        assert answer.startswith("ERR_INVALID ") and "write fe80::b10%IF" in answer, answer
        client.do("connect_to", f"[fe80::b10%{rails.device(rails.a)}]:{port}")


@pytest.mark.parametrize("command", [["perf"], ["node"]])
def test_an_address_that_wants_brackets(tool, command, key):
    done = tool(*command, "fd09::1:20000", env={"TCPX_KEY_FILE": str(key)})
    assert done.returncode == 2 and "write [fd09::1]:20000" in done.stderr, done.stderr
    done = tool("mesh", env={**plain(1, 2, TCPX_RENDEZVOUS="fd09::1:20000"),
                             "TCPX_KEY_FILE": str(key)})
    assert done.returncode == 1 and "write [fd09::1]:20000" in done.stderr, done.stderr
