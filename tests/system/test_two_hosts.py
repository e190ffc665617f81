# SPDX-License-Identifier: Apache-2.0
"""Two hosts and a key, as the README has them: where serve listens when nothing says so."""
import subprocess
import sys

import pytest

from netns import hosts, rails  # noqa: F401  fixtures
from test_tool_rails import BYTES, RUN, received

SILENT = '''
import socket
server = socket.create_server(("0.0.0.0", 20000))
print("listens", flush=True)
held = []
while True:
    held.append(server.accept())
'''

pytestmark = pytest.mark.usefixtures("with_crypto")


@pytest.mark.parametrize("family", [4, 6])
def test_two_hosts_with_a_key_need_no_option(tool, serve, hosts, key, family):
    """As the README has it: a key file on both, 'tcpx serve' here, 'tcpx perf HOST' there."""
    env = {"TCPX_KEY_FILE": str(key)}
    server = serve("--once", where=tool.at(hosts.b), port=None, env=env)
    assert server.address == f"{hosts.address('b')}:20000"
    done = tool.at(hosts.a)("perf", hosts.address("b", family=family), "--size", "64K:1M",
                            "--iters", "4", env=env)
    assert done.returncode == 0, done.stderr
    assert "trust key" in done.stdout
    code, out, err = server.wait()
    assert code == 0 and "alone" not in err, err
    assert out.splitlines() == [f"ready {hosts.address('b')}:20000",
                                f"ready [{hosts.address('b', family=6)}]:20000"]


def test_serve_with_a_key_listens_on_every_interface(tool, serve, rails, key):
    server = serve("--key", key, where=tool.at(rails.b))
    done = tool.at(rails.a)("perf", server.address, "--key", key, *RUN)
    assert done.returncode == 0, done.stderr
    shares = [received(rails.b, rails.device(rails.b, pair)) / BYTES for pair in (0, 1)]
    assert min(shares) > 0.05, f"both pairs carry: {shares}"


def test_serve_with_a_key_and_no_interface_of_a_usual_name(tool, serve, hosts, key):
    """A cable's end is no candidate for 'auto', and is all that there is."""
    device = hosts.device(hosts.b)
    for change in (["down"], ["name", "veth0"]):
        hosts.b.run("ip", "link", "set", device, *change)
    hosts.b.run("ip", "link", "set", "veth0", "up")
    server = serve("--key", key, where=tool.at(hosts.b))
    assert server.address.startswith(hosts.address("b") + ":")
    done = tool.at(hosts.a)("perf", server.address, "--key", key, *RUN)
    assert done.returncode == 0, done.stderr


def test_serve_without_a_key_says_that_it_is_alone(tool, serve, key):
    err = serve().stop()[2]
    assert "this host alone" in err and "--key FILE" in err and "--bind" not in err
    err = serve("--key", key, "--bind", "127.0.0.1").stop()[2]
    assert "this host alone" in err and "--bind auto" in err
    assert "alone" not in serve("--quiet").stop()[2]


def test_serve_that_needs_no_key_listens_on_every_interface(tool, serve, hosts):
    server = serve("--insecure", where=tool.at(hosts.b))
    assert server.address.startswith(hosts.address("b") + ":")
    done = tool.at(hosts.a)("perf", server.address, "--insecure", *RUN)
    assert done.returncode == 0, done.stderr
    assert "alone" not in server.stop()[2]


def test_why_a_host_is_not_reached(tool, serve, hosts, key):
    """Each cause has its own next step: packets that are dropped, a port where nobody listens, or
    somebody who says nothing."""
    def perf():
        done = tool.at(hosts.a)("perf", hosts.address("b"), "--key", key, *RUN)
        assert done.returncode != 0
        return done.stderr.splitlines()[-1]

    assert "connection refused; nothing listens there" in perf() and "loopback only" in perf()
    argv = hosts.b.argv(sys.executable, "-c", SILENT)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as silent:
        silent.stdout.readline()
        assert "says nothing: look whether" in perf()
        silent.kill()
    serve("--key", key, where=tool.at(hosts.b), port=None)
    hosts.b.drop("input")
    assert "no firewall drops packets to that port" in perf()


def test_a_ceiling_needs_another_port(tool, serve, hosts, key):
    serve("--key", key, where=tool.at(hosts.b), port=None)
    hosts.b.nft("""
table inet wall {
    chain input {
        type filter hook input priority 0; policy accept;
        tcp dport != 20000 tcp flags & (syn|ack) == syn reject with tcp reset
    }
}
""")
    done = tool.at(hosts.a)("perf", hosts.address("b"), "--key", key, "--transport", "tcp",
                            "--channels", "1", "--ceiling", *RUN)
    assert done.returncode != 0
    assert "onnection refused; --ceiling takes a free port of the other end" in done.stderr
