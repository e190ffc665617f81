# SPDX-License-Identifier: Apache-2.0
"""What the tests of scripts/compat share: the scripts, over tcp and over the emulator."""
import re
import subprocess

import pytest

import changes
from conftest import HANG, TOP
from test_node import build, fixture_a3, port_base  # noqa: F401 (fixtures)

COMPAT = TOP / "scripts/compat"
UNIT = "# GB/s are 10^9 bytes; older logs counted 2^30"


class Old:
    """Runs the scripts in a folder of their own."""

    def __init__(self, tool, folder, env):
        self.folder = folder
        self.env = tool.environment({"TCPX_TOOL": tool.path, "TCPX_BIND": "127.0.0.1",
                                     "UCCL_TCPX_BOOTSTRAP_PORT_BASE": str(port_base()),
                                     # of NCCL's run: what is by hand has no use for it
                                     "LOG_DIR": "", "HOSTFILE": "/nowhere/hosts", **env})

    def start(self, script, *args, **env):
        return subprocess.Popen([str(COMPAT / script), *map(str, args)], cwd=self.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env={**self.env, **env})

    @staticmethod
    def end(process):
        out, err = process.communicate(timeout=HANG)
        return subprocess.CompletedProcess([], process.returncode, out, err)

    def __call__(self, script, *args, **env):
        return self.end(self.start(script, *args, **env))

    def pair(self, script, *args, more=(), **env):
        """Server and client, both with the same words behind the address."""
        both = [self.start(script, "server", *args, *more, **env),
                self.start(script, "client", "127.0.0.1", *args, *more, **env)]
        done = [self.end(one) for one in both]
        assert [one.returncode for one in done] == [0, 0], done
        return done

    def until_logged(self, text, count=1):
        """So many of its logs have the text."""
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        changes.until(logs, lambda: sum(text in log.read_text(encoding="utf-8")
                                        for log in logs.glob("*.log")) >= count)

    def log(self, pattern):
        found = list((self.folder / "logs").glob(pattern))
        assert len(found) == 1, (pattern, found)
        return found[0].read_text(encoding="utf-8")


@pytest.fixture(name="old")
def fixture_old(tool, tmp_path):
    """Over tcp and host memory."""
    (tmp_path / "at").mkdir()
    return Old(tool, tmp_path / "at", {"TCPX_COMPAT_TRANSPORT": "tcp"})


@pytest.fixture(name="played")
def fixture_played(tool, tmp_path, a3, build):
    """Over the emulator, which is found as a plugin is."""
    (tmp_path / "at").mkdir()
    return Old(tool, tmp_path / "at", {
        **a3, "UCCL_TCPX_UNPACK_IMPL": "d2d",
        "UCCL_TCPX_PLUGIN_PATH": str(build / "emu/tcpxemu/libnccl-net-tcpxemu.so")})
