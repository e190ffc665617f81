# SPDX-License-Identifier: Apache-2.0
"""The tool between two hosts: which interfaces perf takes, IPv6, the ceiling."""
import re

import pytest

from netns import hosts, rails  # noqa: F401  fixtures

pytestmark = pytest.mark.usefixtures("with_crypto")

SIZE = 4 << 20
RUN = ["--size", SIZE, "--iters", 16, "--working-set", "16M", "--insecure", "--timeout", "60"]
BYTES = 16 * SIZE  # timed; the warm-up comes on top


def rail_list(rails):
    return ",".join(rails.address("b", pair) for pair in (0, 1))


def received(host, device):
    return int(host.run("cat", f"/sys/class/net/{device}/statistics/rx_bytes"))


def test_perf_takes_every_interface_with_a_direct_route(tool, serve, rails):
    server = serve("--bind", rail_list(rails), "--insecure", where=tool.at(rails.b), lines=2)
    assert [text.rsplit(":", 1)[0] for text in server.addresses] == rail_list(rails).split(",")
    done = tool.at(rails.a)("perf", server.address, *RUN)
    assert done.returncode == 0, done.stderr
    shares = [received(rails.b, rails.device(rails.b, pair)) / BYTES for pair in (0, 1)]
    assert min(shares) > 0.05, f"both pairs carry: {shares}"


@pytest.mark.parametrize("family", [4, 6])
def test_serve_once_ends_after_a_client_that_finds_two_rails(tool, serve, rails, family):
    listed = ",".join(rails.address("b", pair, family) for pair in (0, 1))
    server = serve("--bind", listed, "--insecure", "--once", where=tool.at(rails.b), lines=2)
    done = tool.at(rails.a)("perf", server.address, *RUN)
    assert done.returncode == 0, done.stderr
    code, _, err = server.wait()
    assert code == 0, err
    assert len(re.findall("connected", err)) == 1 and len(re.findall("left", err)) == 1, err


def test_bind_keeps_to_one_interface(tool, serve, rails):
    server = serve("--bind", rail_list(rails), "--insecure", where=tool.at(rails.b), lines=2)
    done = tool.at(rails.a)("perf", server.address, "--bind", rails.device(rails.a, 0), *RUN)
    assert done.returncode == 0, done.stderr
    assert received(rails.b, rails.device(rails.b, 1)) < BYTES / 100


def test_ipv6(tool, serve, hosts):
    address = hosts.address("b", family=6)
    server = serve("--bind", address, "--insecure", where=tool.at(hosts.b))
    assert re.fullmatch(re.escape(f"[{address}]") + r":\d+", server.address)
    done = tool.at(hosts.a)("perf", server.address, *RUN)
    assert done.returncode == 0, done.stderr
    assert "transport tcp " in done.stdout, "two namespaces are two hosts"


def test_bind_without_an_address_of_the_family_is_refused(tool, serve, hosts):
    server = serve("--bind", hosts.address("b"), "--insecure", where=tool.at(hosts.b))
    address = hosts.address("a", family=6)
    done = tool.at(hosts.a)("perf", server.address, "--bind", address, *RUN)
    assert done.returncode == 1 and f"{address} has no IPv4 address" in done.stderr


def test_ceiling_between_hosts(tool, serve, hosts):
    server = serve("--bind", hosts.device(hosts.b), "--insecure", where=tool.at(hosts.b), lines=1)
    done = tool.at(hosts.a)("perf", server.address, "--ceiling", *RUN)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^# ceiling of the first row: [\d.]+ GB/s by \d+ plain sockets",
                     done.stdout, re.M)


def test_a_cut_cable_exits_1(tool, serve, hosts):
    server = serve("--bind", hosts.address("b"), "--insecure", where=tool.at(hosts.b))
    client = tool.at(hosts.a).start("perf", server.address, "--insecure", "--size", "1M", "--time",
                                    "600", "--working-set", "16M", "--timeout", "60")
    while not re.match(rb"# +size", client.stdout.readline()):
        assert client.poll() is None
    hosts.link(hosts.b, 0, "down")
    out, err = client.communicate(timeout=120)
    assert client.returncode == 1, (out, err)
