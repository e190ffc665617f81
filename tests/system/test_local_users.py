# SPDX-License-Identifier: Apache-2.0
"""Processes of two users on one host: no shared memory, and tcp in its place."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

import netns
from conftest import SMALL, Tool
from netns import Peer, helper, meet
from test_nixl import (Agent, MIB, fixture_nixl, fixture_plugin,  # noqa: F401
                       meet as nixl_meet, move)

LOCAL_ONLY = 32  # TCPX_SESSION_LOCAL_ONLY
ROOT, ONE, TWO = 0, 54321, 54322
NOBODY_MAPPED = ["unshare", "-U"]


class User:
    """A user of this host, as netns.Host is a host."""

    def __init__(self, uid, *before):
        self.uid = uid
        self.before = before

    def argv(self, *argv):
        return ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups",
                *self.before, *argv]


@pytest.fixture(scope="session", name="anyone")
def fixture_anyone():
    """A folder that every user may read."""
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("becoming another user needs root and setpriv")
    with tempfile.TemporaryDirectory(prefix="tcpx-users-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="session", name="tool")
def fixture_tool(tool, anyone):
    return Tool(shutil.copy(tool.path, anyone))


def test_a_program_with_more_rights(tool, anyone):
    """It takes no options, and so no files to load, from the environment of whoever starts it."""
    if os.statvfs(anyone).f_flag & os.ST_NOSUID:
        pytest.skip("set-user-ID has no effect in this folder")
    env = {"TCPX_CRYPTO_LIBRARY": "/nowhere/libcrypto.so.3"}
    program = pathlib.Path(shutil.copy(tool.path, anyone / "more-rights"))
    for mode, value in (0o755, "/nowhere/libcrypto.so.3"), (0o4755, "libcrypto.so.3"):
        program.chmod(mode)
        done = Tool(program).at(User(ONE))("info", "--env", env=env)
        assert done.returncode == 0, done.stderr
        assert f"TCPX_CRYPTO_LIBRARY={value}  (" in done.stdout


@pytest.mark.parametrize("server, client, transport", [
    (ROOT, ONE, "tcp"), (ONE, ROOT, "tcp"), (ONE, TWO, "tcp"), (ONE, ONE, "local")])
def test_two_users_meet_over_tcp(tool, serve, with_json, server, client, transport):
    one = serve(where=tool.at(User(server)))
    done = tool.at(User(client)).perf(*SMALL, one.address, env={"TCPX_LOG": "info"})
    assert done.returncode == 0, done.stderr
    assert done.json["path"]["transport"] == transport, done.stdout
    assert done.stderr.count("no shared memory") == (transport == "tcp"), done.stderr
    assert transport == "local" or f"uid {client} here, uid {server} there" in done.stderr


def test_a_user_namespace_judges_otherwise(tool, serve, with_json):
    """In a namespace without a map, every user of the host has the number of one's own: only the
    listener can tell."""
    there = User(TWO, *NOBODY_MAPPED)
    if subprocess.run(there.argv("true"), check=False).returncode:
        pytest.skip("no user namespaces here")
    one = serve(where=tool.at(User(ONE)))
    done = tool.at(there).perf(*SMALL, one.address, env={"TCPX_LOG": "info"})
    assert done.returncode == 0, done.stderr
    assert done.json["path"]["transport"] == "tcp", done.stdout
    assert done.stderr.count("no shared memory") == 1, done.stderr


@pytest.mark.parametrize("server, client", [(ROOT, ONE), (ONE, ROOT), (ONE, TWO)])
def test_local_alone_names_both_users(tool, serve, server, client):
    one = serve(where=tool.at(User(server)))
    done = tool.at(User(client))("perf", *SMALL, "--transport", "local", one.address)
    assert done.returncode == 1, done.stdout
    assert f"uid {client} here, uid {server} there" in done.stderr
    assert "run both as the same user" in done.stderr


def test_the_api_falls_back_and_says_why(anyone, monkeypatch):
    there = shutil.copy(helper("netpeer"), anyone)
    monkeypatch.setattr(netns, "helper", lambda _: there)
    with Peer(User(ROOT), name="server") as server:
        with Peer(User(ONE), log="info", name="client") as client:
            meet(server, client, 1 << 20)
            client.logged("no shared memory between processes of two users: uid 54321 here")
            client.logged("is up: tcp")
        with Peer(User(TWO), name="local", flags=LOCAL_ONLY) as local:
            answer = local.ask("connect", server.do("info"))
            assert answer.startswith("ERR_REFUSED ") and "uid 54322 here, uid 0 there" in answer


def test_nixl_agents_of_two_users(nixl, plugin, anyone):
    shutil.copy(plugin, anyone)
    env = {"TCPX_LOG": "info", "HOME": str(anyone)}
    near, far = Agent(nixl, anyone, User(ONE).argv(), env), Agent(nixl, anyone, env=env)
    try:
        at = nixl_meet(near, far)
        near.until_said("is up: tcp")
        move(near, far, "WRITE", at, 4 * MIB)
        move(near, far, "READ", at, 4 * MIB)
    finally:
        near.kill()
        far.kill()
