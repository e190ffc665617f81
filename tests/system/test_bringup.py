# SPDX-License-Identifier: Apache-2.0
"""Channels of a TCPX plugin come up side by side: 8 channels over the 4 NICs of an A3 host, again
and again. No run fails, no rule of the plugin is broken, every GPU's pages are imported once a
process, and no page stays in use. BRINGUP_RUNS says how many runs of each direction there are."""
import json
import os
import pathlib

import pytest

from conftest import Serve
from test_tool_messages import build, fixture_a3, fixture_env, fixture_gpus, plugin  # noqa: F401
from test_tool_messages import wrong_of

RUNS = int(os.environ.get("BRINGUP_RUNS") or (25 if os.environ.get("TEST_LONG") == "1" else 2))
SIZES = ["--size", "512K,3000000", "--iters", "3", "--working-set", "8M", "--timeout", "100"]


def judged(folder):
    """Every process of a run closed what it opened, as the plugin wants it."""
    stats = [json.loads(path.read_text(encoding="utf-8")) for path in folder.iterdir()]
    assert stats
    for one in stats:
        assert (one["violations"], one["pages_in_use"]) == (0, 0), one["violation_codes"]
        assert one["pool_imports"] and set(one["pool_imports"].values()) == {1}, one
    assert sum(one["received_messages"] for one in stats) > 0
    return stats


@pytest.mark.parametrize("run", range(RUNS))
@pytest.mark.parametrize("op", ["write", "read"])
def test_8_channels_over_4_nics(tool, plugin, a3, tmp_path, op, run): # noqa: F811
    """Two processes with a GPU each, of different NICs; every NIC carries channels, by relay where
    it is not the GPU's own. An import lasts so long that all accepts end meanwhile."""
    folder = pathlib.Path(tmp_path) / "stats"
    folder.mkdir()
    env = a3 | {"TCPXEMU_STATS": f"{folder}/%p", "TCPXEMU_IMPORT_US": "100000",
                "TCPXEMU_SEED": str(run + 1), "NCCL_DYNAMIC_CHUNK_SIZE": "524288"}
    common = ["--transport", "gpudirect", "--plugin", plugin, "--unpack", "kernel", "--nic",
              "all", "--plugin-channels", "8"]
    serve = Serve(tool, *common, "--gpu", "2", "--once", env=env)
    done = tool("perf", serve.address, *common, "--op", op, "--mem", "cuda:0", "--remote-mem",
                "cuda:2", *SIZES, env=env)
    code, _, err = serve.wait()
    assert (done.returncode, code) == (0, 0), done.stderr + err
    assert wrong_of(done) == ["0", "0"]
    judged(folder)
