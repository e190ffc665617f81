# SPDX-License-Identifier: Apache-2.0
"""What --bind, TCPX_BIND and the field mean on a host with several interfaces."""
import re

import pytest

from netns import Peer, hosts  # noqa: F401

LONG_NAME = "first-port-of-the-card-in-slot-4"


@pytest.fixture(name="host")
def fixture_host(hosts):  # noqa: F811
    """Interfaces wan0, wan1 and docker0; wan0 has a short and a long alternative name."""
    hosts.a.run("ip", "link", "set", hosts.device(hosts.a), "down")
    for name, at in (("wan0", "10.9.0.1/24"), ("wan1", "10.9.1.1/24"),
                     ("docker0", "172.17.0.1/16")):
        hosts.a.run("ip", "link", "add", name, "type", "veth", "peer", "name", f"far-{name}",
                    "netns", hosts.b.name)
        hosts.a.run("ip", "addr", "add", at, "dev", name)
        hosts.a.run("ip", "link", "set", name, "up")
        hosts.b.run("ip", "link", "set", f"far-{name}", "up")
    hosts.a.run("ip", "addr", "add", "fd09::1/64", "dev", "wan0", "nodad")
    for name in ("slot4", LONG_NAME):
        hosts.a.run("ip", "link", "property", "add", "dev", "wan0", "altname", name)
    return hosts.a


@pytest.mark.parametrize("bind, want", [
    ("[fd09::1]", ["[fd09::1]"]),
    ("wan0, wan1", ["10.9.0.1", "[fd09::1]", "10.9.1.1"]),
    ("wan", ["10.9.0.1", "[fd09::1]", "10.9.1.1"]),
    ("wan[01]", ["10.9.0.1", "[fd09::1]", "10.9.1.1"]),
    ("=wan1", ["10.9.1.1"]),
    ("10.9.1.0/24,fd09::/64", ["10.9.1.1", "[fd09::1]"]),
    ("slot4", ["10.9.0.1", "[fd09::1]"]),
    (LONG_NAME, ["10.9.0.1", "[fd09::1]"]),
    ("^docker0,lo", ["10.9.0.1", "10.9.1.1"]),
    ("^wan1", ["10.9.0.1"]),
])
def test_serve_binds_to(tool, serve, host, bind, want):
    for args, env in (["--bind", bind], None), ([], {"TCPX_BIND": bind}):
        one = serve("--insecure", *args, where=tool.at(host), lines=len(want), env=env)
        assert [re.sub(r":\d+$", "", at) for at in one.addresses] == want
        one.stop()


@pytest.mark.parametrize("bind, says", [
    ("fd09::1:20000", "write fd09::1; the port is a separate option"),
    ("wan7", "wan7 is neither an interface nor an address; use one of: .*wan0 10.9.0.1"),
    ("10.77.0.0/24", "matches no interface that is up with a carrier; use one of: "),
    ("wan0,^lo", "only at the start of the list"),
])
def test_an_entry_that_means_nothing(tool, host, bind, says):
    here = tool.at(host)
    for done, whose in ((here("serve", "--insecure", "--bind", bind), "bind="),
                        (here("serve", "--insecure", env={"TCPX_BIND": bind}), "TCPX_BIND=")):
        assert done.returncode == 1
        assert re.search(re.escape(whose + bind) + ": .*" + says, done.stderr), done.stderr


def test_the_field_takes_the_same(host):
    with Peer(host, bind="^docker0,wan1", name="one", flags=1) as one:
        port = one.do("listen", 0)
        assert f"10.9.0.1:{port} " in host.run("ss", "-Hnlt") and "10.9.1.1" not in \
            host.run("ss", "-Hnlt")
    with Peer(host) as two:
        assert "bind=wan7: wan7 is neither an interface" in two.ask("open", "bind=wan7")


def test_a_name_of_a_subnet_only(tool, serve, host):
    """Two hosts whose interfaces have nothing but a subnet in common: perf takes the forms, too."""
    one = serve("--insecure", "--bind", "10.9.1.0/24", where=tool.at(host))
    done = tool.at(host)("perf", "--insecure", "--bind", "^wan0,docker0", "--size", "64K",
                         "--iters", "4", "--transport", "tcp", one.address)
    assert done.returncode == 0, done.stderr
