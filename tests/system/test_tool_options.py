# SPDX-License-Identifier: Apache-2.0
"""How options are written: short forms, former names, values that may be left out, suggestions."""
import json
import socket

import pytest

from conftest import SMALL


@pytest.mark.parametrize("args, words", [
    (["perf", "--loopback", "-t", "nan"], "--time: 'nan' is not a number of seconds"),
    (["perf", "--loopback", "-P", "65"], "--channels: 65 is out of range 1..64"),
    (["perf", "--loopback", "-P65"], "--channels: 65 is out of range 1..64"),
    (["perf", "--loopback", "-n", "0"], "--iters: 0 is out of range"),
    (["perf", "--loopback", "-n"], "-n needs a value"),
    (["serve", "-p", "65536"], "--port: 65536 is out of range"),
    (["node", "-p", "1"], "--port-base: 1 is out of range"),
])
def test_short_forms_are_the_long_options(tool, args, words):
    done = tool(*args)
    assert done.returncode == 2 and words in done.stderr


@pytest.mark.parametrize("args", [["--json"], ["-J"], ["--json", "-"], ["--json=-"], ["-J-"]])
def test_json_without_a_value_is_stdout(tool, with_json, args):
    done = tool("version", *args)
    assert done.returncode == 0 and json.loads(done.stdout)["tool"] == "version"


def test_json_before_other_words(tool, with_json, tmp_path):
    """The word after --json is its file, as before; -J takes none, and no option is one."""
    path = tmp_path / "a.json"
    for args in (["--json", path, "--env"], [f"--json={path}", "--env"], [f"-J{path}", "--env"]):
        done = tool("info", *args)
        assert done.returncode == 0 and done.stdout == ""
        assert json.loads(path.read_text())["tool"] == "info"
        path.unlink()
    assert json.loads(tool("info", "--json", "--env").stdout)["tool"] == "info"
    done = tool("perf", "-J", "host:0", *SMALL)
    assert "'host:0' is not HOST[:PORT]" in done.stderr and not (tmp_path / "host:0").exists()


def test_a_former_name_is_taken_and_not_shown(tool, key):
    shown = tool("doctor", "--help").stdout
    assert "--key FILE" in shown and "--key-file" not in shown
    texts = [tool("doctor", "--only", "D17", option, key).stdout
             for option in ("--key", "--key-file")]
    assert texts[0] == texts[1] and texts[0].startswith("PASS D17 ")


@pytest.mark.parametrize("args", [["topo", "--foo"], ["perf", "-x"], ["perf", "--xy"], ["abc"],
                                  ["serve", "--pxyz", "1"]])
def test_nothing_is_suggested_that_is_not_near(tool, args):
    done = tool(*args)
    assert done.returncode == 2 and "did you mean" not in done.stderr, done.stderr


@pytest.mark.parametrize("args, near", [(["serve", "--prot", "1"], "--port"),
                                        (["perf", "--lopback"], "--loopback"),
                                        (["perf", "--workingset", "1M"], "--working-set"),
                                        (["topoo"], "'topo'"), (["doktor"], "'doctor'")])
def test_what_is_near_is_suggested(tool, args, near):
    assert f"did you mean {near}?" in tool(*args).stderr


@pytest.mark.parametrize("command", ["serve", "perf", "node", "mesh", "doctor"])
def test_many_options_are_in_groups(tool, command):
    lines = tool(command, "--help").stdout.splitlines()[2:]
    assert lines[0].endswith(":") and not lines[0].startswith(" ")
    assert len([line for line in lines if line.endswith(":")]) >= 3


def test_port_and_reverse(tool, serve, with_json):
    host, port = serve().address.rsplit(":", 1)
    done = tool.perf(host, "-p", port, "-R", *SMALL)
    assert done.returncode == 0, done.stderr
    assert done.json["results"][0]["op"] == "read"


def loopbacks():
    """What -4 and -6 listen on, as far as this machine has both."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return [("-4", "127.0.0.1"), ("-6", "[::1]")]
    except OSError:
        return [("-4", "127.0.0.1")]


@pytest.mark.parametrize("letter, address", loopbacks())
def test_ip_version(tool, serve, with_json, letter, address):
    here = serve(letter)
    assert [one.rsplit(":", 1)[0] for one in here.addresses] == [address]
    port = here.address.rsplit(":", 1)[1]
    done = tool.perf(address.strip("[]"), letter, "--port", port, *SMALL)
    assert done.returncode == 0, done.stderr
    assert done.json["path"]["remote_address"] == here.address
    done = tool.perf("--loopback", letter, *SMALL)
    assert done.json["path"]["remote_address"].rsplit(":", 1)[0] == address


@pytest.mark.parametrize("args, words", [
    (["perf", "host:1", "-p", "2"], "--port is for a HOST without a port"),
    (["perf", "--loopback", "-p", "2"], "--port is for a HOST without a port"),
    (["perf", "host", "-4", "-6"], "--ipv4 and --ipv6 exclude one another"),
    (["serve", "-4", "-6"], "--ipv4 and --ipv6 exclude one another"),
    (["perf", "host", "-R", "--op", "send"], "--reverse is for --op write"),
])
def test_what_contradicts(tool, args, words):
    done = tool(*args)
    assert done.returncode == 2 and words in done.stderr


def test_serve_ends_when_it_is_idle(tool, serve):
    """Clients do not count as idle time: the run is longer than the limit."""
    here = serve("--idle-timeout", "0.5")
    done = tool("perf", here.address, "--size", "64K", "--working-set", "1M", "--time", "1")
    assert done.returncode == 0, done.stderr
    code, _, err = here.wait()
    assert code == 0 and "no client for 0.5 s" in err
    assert tool("serve", "--port", "0", "--idle-timeout", "0.1", "--quiet").returncode == 0


def test_a_host_without_such_an_address(tool):
    done = tool("perf", "127.0.0.1:9", "-6", *SMALL)
    assert done.returncode == 1 and "host '127.0.0.1' has no IPv6 address" in done.stderr
    done = tool("serve", "-6", "--bind", "127.0.0.1")
    assert done.returncode == 1 and "127.0.0.1 has no IPv6 address" in done.stderr


@pytest.mark.parametrize("name, value, words", [
    ("TCPX_CONGESTION", "nonsense", "the kernel has no congestion control of that name; using the "
                                    "system's"),
    ("TCPX_CHANNELS", "99", "is not in 1..64 or auto (count); using the default auto")])
@pytest.mark.parametrize("where", ["loopback", "host"])
def test_a_wrong_value_is_warned_of_once(tool, serve, where, name, value, words):
    """Also where perf hides the warnings about a connection that it reports itself."""
    done = tool("perf", "--loopback" if where == "loopback" else serve().address, *SMALL,
                env={name: value})
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if f"WARN {name}={value}" in line]
    assert len(said) == 1 and words in said[0], done.stderr
