# SPDX-License-Identifier: Apache-2.0
"""tcpx perf over the emulated plugin: page pools that are too small, chunks, reasons, the log."""
import re

import pytest

from conftest import Serve
from test_tool_messages import (CHUNK, ROW, counted, build, fixture_env,  # noqa: F401
                                fixture_gpus, plugin, wrong_of)

SQUEEZED = ["--size", "4M", "--iters", "10", "--working-set", "8M", "--timeout", "100"]


@pytest.mark.parametrize("pages, channels, op", [(160, 1, "write"), (256, 4, "send"),
                                                 (320, 4, "read"), (512, 2, "write")])
def test_a_squeezed_pool_finishes(tool, plugin, gpus, tmp_path, pages, channels, op):  # noqa: F811
    """Several receives at once would hold more pages than there are, and none would be complete."""
    done = tool("perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                "cuda:0", "--remote-mem", "cuda:1", "--unpack", "d2d", "--op", op,
                "--plugin-channels", str(channels), *SQUEEZED,
                env=gpus | CHUNK | {"TCPXEMU_FAULT": f"pool:pages={pages}",
                                    "TCPXEMU_FRAG": "page"})
    assert done.returncode == 0, done.stderr
    assert set(wrong_of(done)) == {"0"}
    assert "tcpx: WARN" not in done.stderr  # no channel was lost on the way
    seen = counted(tmp_path)
    assert seen["received_bytes"] >= 10 << 22
    assert (seen["pages_in_use"], seen["violations"]) == (0, 0)


def test_a_pool_smaller_than_a_message_is_named(tool, plugin, gpus, tmp_path):  # noqa: F811
    done = tool("perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                "cuda:0", "--remote-mem", "cuda:1", "--unpack", "d2d", "--plugin-channels", "1",
                *SQUEEZED, env=gpus | CHUNK | {"TCPXEMU_FAULT": "pool:pages=96",
                                               "TCPX_MESSAGE_TIMEOUT_MS": "500"})
    assert done.returncode == 1
    assert ("0 pages of the GPU's pool seen, 128 needed: a smaller NCCL_DYNAMIC_CHUNK_SIZE may "
            "help") in done.stderr
    assert counted(tmp_path)["pages_in_use"] == 0


ON_GPUS = ["--mem", "cuda:0", "--remote-mem", "cuda:1", "--unpack", "d2d"]


@pytest.mark.parametrize("transport, more, option", [
    ("gpudirect", {}, ON_GPUS), ("plugin", {}, []),
    ("gpudirect", {"TCPX_MESSAGE_BYTES": "262144"}, ON_GPUS),
    ("gpudirect", {}, [*ON_GPUS, "--chunk", "512K"])])
def test_a_smaller_chunk_makes_messages_as_small(tool, plugin, gpus, tmp_path,  # noqa: F811
                                                 transport, more, option):
    """Of the plugin's variable: as in a session of a program, and at both ends."""
    env = gpus | more | {"NCCL_DYNAMIC_CHUNK_SIZE": "131072"}
    done = tool("perf", "--loopback", "--transport", transport, "--plugin", plugin, "--size", "1M",
                "--iters", "4", "--working-set", "2M", "--timeout", "100", *option, env=env)
    assert done.returncode == 0, done.stderr
    assert wrong_of(done) == ["0"]
    seen = counted(tmp_path)
    assert 0 < seen["received_bytes"] <= seen["received_messages"] * 131072
    assert (seen["pages_in_use"], seen["violations"]) == (0, 0)


@pytest.mark.parametrize("how, env, unpack", [
    ([], {}, "kernel"), (["--unpack", "kernel"], {}, "kernel"), (["--unpack", "d2d"], {}, "d2d"),
    ([], {"FAKECUDA_FAIL": "cuModuleLoadData:0:221"}, "d2d")]) # the driver compiles no PTX
@pytest.mark.usefixtures("with_json")
def test_the_unpack_in_force_is_shown(tool, plugin, gpus, how, env, unpack):  # noqa: F811
    """What takes the place of a kernel that does not run counts, and not what was asked for."""
    done = tool.perf("--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                     "cuda:0", "--remote-mem", "cuda:1", "--op", "read", *how, *ROW,
                     env=gpus | env)
    assert done.returncode == 0, done.stderr
    assert [row["wrong_bytes"] for row in done.json["results"]] == [0, 0]
    assert done.json["path"]["unpack"] == unpack
    assert f"  unpack {unpack}  " in done.stderr


@pytest.mark.usefixtures("with_json")
def test_host_memory_is_not_unpacked(tool, plugin, env):  # noqa: F811
    done = tool.perf("--loopback", "--transport", "plugin", "--plugin", plugin, *ROW,
                     env=env | CHUNK)
    assert done.returncode == 0, done.stderr
    assert done.json["path"]["unpack"] == "" and "  unpack " not in done.stderr


def test_a_failure_of_ones_own_is_the_reason(tool, plugin, gpus):  # noqa: F811
    """At the end where it happens as at the other one."""
    serve = Serve(tool, "--transport", "gpudirect", "--plugin", plugin, "--gpu", "0", "--unpack",
                  "d2d", "--once", env=gpus)
    done = tool("perf", serve.addresses[0], "--transport", "gpudirect", "--plugin", plugin,
                "--mem", "cuda:0", "--remote-mem", "cuda:0", "--unpack", "kernel", *ROW,
                env=gpus | {"FAKECUDA_FAIL": "cuModuleLoadData:0:209"})
    code, _, err = serve.wait()
    assert (done.returncode, code) == (1, 1)
    reason = r"channel \d+, NIC eth\d.*: .*no unpack kernel"
    assert re.search(rf"^tcpx: WARN peer .* is not up: {reason}", done.stderr, re.M)
    assert re.search(rf"^tcpx perf: .*over tcp: (at the peer: )?{reason}.*tcpx doctor --peer",
                     done.stderr, re.M), done.stderr
    assert re.search(rf"^tcpx: WARN peer .* is not up: at the peer: {reason}", err, re.M), err


LOGGED = [({}, "warn"), ({"NCCL_DEBUG": "WARN"}, "warn"), ({"NCCL_DEBUG": "INFO"}, "info"),
          ({"NCCL_DEBUG": "TRACE"}, "trace"), ({"UCCL_TCPX_DEBUG": "1"}, "trace"),
          ({"NCCL_DEBUG": "TRACE", "TCPX_LOG": "error"}, "error"),
          ({"NCCL_DEBUG": "INFO", "TCPX_LOG": "warn"}, "warn")]


@pytest.mark.parametrize("more, level", LOGGED)
def test_nccl_debug_shows_as_much_as_it_says(tool, plugin, env, more, level):  # noqa: F811
    """The plugin's lines, and ours; an explicit level of ours wins."""
    more = {"NCCL_DEBUG_SUBSYS": "ALL"} | more
    done = tool("perf", "--loopback", "--transport", "plugin", "--plugin", plugin,
                "--plugin-channels", "1", *ROW, env=env | CHUNK | more)
    assert done.returncode == 0, done.stderr
    assert ("INFO libnccl-net-tcpxemu.so: " in done.stderr) == \
        (level in ("info", "trace") and "NCCL_DEBUG" in more)
    assert ("tcpx: INFO" in done.stderr) == (level in ("info", "trace"))
    assert ("[PERF][CLIENT] chunk_idx=" in done.stderr) == (level == "trace")
