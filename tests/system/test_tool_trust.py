# SPDX-License-Identifier: Apache-2.0
"""Keys and trust as the tool shows them."""
import os
import re
import socket
import stat

import pytest

from conftest import SMALL


def beyond_loopback():
    """An address of this machine that is not loopback, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return None
        address = probe.getsockname()[0]
    return None if address.startswith("127.") else address


@pytest.fixture(scope="module")
def outside():
    address = beyond_loopback()
    if not address:
        pytest.skip("no address beyond loopback")
    return address


def test_key_new_makes_a_private_file_and_never_overwrites(tool, tmp_path):
    path = tmp_path / "a.key"
    done = tool("key", "new", path)
    assert done.returncode == 0 and done.stdout == ""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    done = tool("key", "new", path)
    assert done.returncode == 1 and path.read_bytes() == before
    assert f"key file {path} exists already; use another name" in done.stderr
    assert "File exists" not in done.stderr  # the same in other words


def test_a_key_file_that_is_not_there_is_named_once(tool, tmp_path):
    done = tool("perf", "127.0.0.1:9", "--key", tmp_path / "none")
    assert done.returncode == 1
    assert f"there is no key file {tmp_path}/none; copy the other host's" in done.stderr


def test_serve_names_its_key_after_it_is_ready(tool):
    """On one pipe; the key is what --peer-key takes."""
    done = tool.shell('"$0" serve --port 0 --idle-timeout 0.1 2>&1')
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ready 127.0.0.1:"), done.stdout
    optional = [line for line in lines if line.startswith("(optional: ")]
    assert len(optional) == 1 and re.fullmatch(
        r"\(optional: 'tcpx perf --peer-key [0-9a-f]{64}' accepts only this serve\)", optional[0])


def test_key_append_and_ids(tool, key):
    first = tool("key", "show-id", key).stdout
    assert re.fullmatch(r"[0-9a-f]{16}\n", first)
    assert tool("key", "new", key, "--append").returncode == 0
    both = tool("key", "show-id", key).stdout.splitlines()
    assert len(both) == 2 and both[0] == first.strip() and both[0] != both[1]
    secret = [line for line in key.read_text(encoding="ascii").splitlines() if line[:1] != "#"][0]
    assert secret[:16] not in first


def test_show_id_of_what_is_no_key_file(tool, tmp_path):
    path = tmp_path / "empty"
    path.write_text("nothing\n", encoding="ascii")
    done = tool("key", "show-id", path)
    assert done.returncode == 1 and "no key" in done.stderr
    assert tool("key", "show-id", tmp_path / "none").returncode == 1
    done = tool("key", "show-id", tmp_path)
    assert done.returncode == 1 and "Is a directory" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0 and os.name != "posix", reason="needs file modes")
def test_key_file_that_others_may_read_is_refused(tool, key):
    key.chmod(0o644)
    done = tool("serve", "--port", "0", "--key", key)
    assert done.returncode == 1
    assert "0644" in done.stderr and "chmod 600" in done.stderr


def test_beyond_loopback_needs_a_key(tool, outside):
    done = tool("serve", "--bind", outside, "--port", "0")
    assert done.returncode == 1
    assert "'tcpx key new FILE'" in done.stderr and "--insecure" in done.stderr


def test_insecure_is_shown_on_both_ends(tool, serve, with_crypto, outside):
    server = serve("--bind", outside, "--insecure", "--once")
    done = tool("perf", server.address, "--insecure", "--transport", "tcp", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "trust insecure" in done.stdout and "# INSECURE" in done.stdout
    code, _, err = server.wait()
    assert code == 0 and "INSECURE" in err


def test_key_on_both_ends(tool, serve, outside, key):
    server = serve("--bind", outside, "--key", key, "--once")
    done = tool("perf", server.address, "--key", key, "--ceiling", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "trust key" in done.stdout


def test_loopback_hands_its_trust_to_its_serve(tool, outside, key):
    done = tool("perf", "--loopback", "--bind", outside, "--key", key, *SMALL)
    assert done.returncode == 0 and "trust key" in done.stdout, done.stderr
    done = tool("perf", "--loopback", "--bind", outside, "--insecure", *SMALL)
    assert done.returncode == 0 and "trust insecure" in done.stdout, done.stderr


def test_a_key_that_is_missing_here_is_told(tool, serve, key):
    server = serve("--bind", "127.0.0.1", "--key", key)
    done = tool("perf", server.address, *SMALL)
    assert done.returncode == 1
    assert "wants a key, and there is none here" in done.stderr and "--key FILE" in done.stderr


def test_another_key_is_refused(tool, serve, outside, key, tmp_path):
    other = tmp_path / "other.key"
    assert tool("key", "new", other).returncode == 0
    server = serve("--bind", outside, "--key", key)
    done = tool("perf", server.address, "--key", other, *SMALL)
    assert done.returncode == 1
