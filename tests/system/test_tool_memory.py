# SPDX-License-Identifier: Apache-2.0
"""Memory that is not there: refused before a page is touched, with the option that lowers it."""
import json
import os
import re
import shutil
import subprocess

import pytest

from conftest import SMALL, Serve, Tool
from test_launch import replayed, together
from test_node import build, ends_of, port_base  # noqa: F401 (fixture)

GIB = 1 << 30
TAKEN = re.compile(r"# host memory: buffers of (\S+ \S+) for this rank, (\S+ \S+) for the (\d+) "
                   r"ranks of this host; (\S+ \S+) available")


def with_memory(tool, folder, available):
    """The same tool on a host that has so many bytes available."""
    meminfo = folder / f"meminfo-{available}"
    meminfo.write_text(f"MemTotal: {64 * GIB // 1024} kB\nMemFree: 0 kB\n"
                       f"MemAvailable: {available // 1024} kB\n", encoding="ascii")
    before = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else []), "sh", "-c",
              f'mount --bind "{meminfo}" /proc/meminfo && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run([*before, "true"], check=False,
                                                     capture_output=True).returncode:
        pytest.skip("no mount namespace")
    return Tool(tool.path, before)


@pytest.fixture(name="narrow")
def fixture_narrow(tool, tmp_path):
    """A host with 1 GiB, most of which may be taken."""
    return with_memory(tool, tmp_path, GIB)


def run_ranks(tool, count, *args):
    """Ranks of one host; what they said."""
    port = port_base()
    return together(tool, [replayed("torchrun", rank, count, port) for rank in range(count)],
                    "--mem", "host", "--transport", "tcp", "--channels", "1", *args)


def bytes_of(text):
    number, unit = text.split()
    return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": GIB}[unit]


def test_ranks_of_a_host_add_up(narrow):
    """One of them fits, 4 do not: the sum counts, and no rank is killed for it."""
    done = run_ranks(narrow, 4, "--gpus", "0-1", "--memory", "96M", "--size", "4M", "--iters",
                     "32")
    assert all(one.returncode not in (0, -9, 137) for one in done), done
    refused = [one for one in done if "GiB of host memory" in one.stderr]
    assert refused, done
    error = re.search(r"buffers take (\S+ \S+) of host memory \(this rank (\S+ \S+), 4 ranks "
                      r"here\), and (\S+ \S+) can be taken; give --memory (\d+)M or less; it is "
                      r"96M", refused[0].stderr)
    assert error, refused[0].stderr
    # 24 transfers are 8 for each of 3 links
    assert bytes_of(error[1]) == 4 * bytes_of(error[2]) == 4 * 2 * 2 * 96 << 20
    assert bytes_of(error[3]) < GIB
    fits = run_ranks(narrow, 4, "--gpus", "0-1", "--memory", error[4] + "M", "--size", "4M",
                     "--iters", "1", "--no-local")
    assert [one.returncode for one in fits] == [0] * 4, fits


def test_what_is_taken_is_said(tool):
    """README's ranks of one host take 2 GiB at most, whatever they have; and rank 0 says it."""
    done = run_ranks(tool, 4, "--gpus", "0", "--iters", "1", "--size", "64K")
    assert [one.returncode for one in done] == [0] * 4, done
    found = TAKEN.search(done[0].stderr)
    assert found and found[3] == "4", done[0].stderr
    assert not TAKEN.search(done[1].stderr)
    assert bytes_of(found[2]) == 4 * bytes_of(found[1])


def test_default_of_host_memory(tool, tmp_path):
    """'mpirun -np 4 tcpx node --mem host': 8 GPUs each, refused by a host that has nothing."""
    nothing = with_memory(tool, tmp_path, 64 << 20)
    done = run_ranks(nothing, 4)
    error = next(one.stderr for one in done if "of host memory" in one.stderr)
    found = TAKEN.search(done[0].stderr)
    assert found, error
    assert 0 < bytes_of(found[2]) <= 2 * GIB
    assert all(one.returncode for one in done)


def test_one_transfer_that_does_not_fit(narrow):
    """--memory has no part in it: --size is named."""
    done = run_ranks(narrow, 2, "--gpus", "0-1", "--size", "256M", "--memory", "4K")
    error = next(one.stderr for one in done if "of host memory" in one.stderr)
    assert "lower --size (256M)" in error and "--memory" not in error


def test_buffers_of_gpus_are_not_charged(narrow, build):
    env = {"TCPX_CUDA_LIBRARY": str(build / "emu/fakecuda/libfakecuda.so"),
           "FAKECUDA_DEVICES": "1"}
    base = port_base()
    args = ["node", "--gpus", "0", "--mem", "cuda", "--size", "64K", "--iters", "2", "--transport",
            "tcp", "--channels", "1", "--port-base", base, "--memory", "2G"]
    done = ends_of([narrow.start(*args, env=env), narrow.start(*args, "127.0.0.1", env=env)])
    assert [one.returncode for one in done] == [0, 0], done


def test_a_gpu_that_has_too_little(tool, build):
    """Refused with what it has, and the option of this command that lowers it."""
    env = {"TCPX_CUDA_LIBRARY": str(build / "emu/fakecuda/libfakecuda.so"),
           "FAKECUDA_DEVICES": "1", "FAKECUDA_BYTES": str(96 << 20)}
    base = port_base()
    args = ["node", "--gpus", "0", "--mem", "cuda", "--transport", "tcp", "--channels", "1",
            "--size", "16M", "--iters", "4", "--port-base", base]
    done = ends_of([tool.start(*args, env=env), tool.start(*args, "127.0.0.1", env=env)])
    assert [one.returncode for one in done] == [1, 1], done
    for one in done:
        assert re.search(r"GPU 0: a buffer of 64 MiB on .*, which has \S+ MiB free", one.stderr)
    assert any("lower --memory (256M) or --size" in one.stderr for one in done), done


def test_perf_refuses(narrow):
    done = narrow("perf", "--loopback", "--size", "768M", "--iters", "1")
    assert done.returncode == 2
    assert re.search(r"buffers of 1.5 GiB \(both ends\) are more than the \S+ MiB of memory that "
                     r"are free; lower --size or --working-set", done.stderr), done.stderr


def test_a_server_refuses(tool, narrow, with_json):
    """Its host has less than the client's; and it goes on to serve what fits."""
    server = Serve(narrow, "--mem", "host", "--no-local")
    try:
        done = tool.perf(server.address, "--size", "1280M", "--iters", "1", "--working-set",
                         "1280M")
        assert done.returncode == 1, done.stdout
        assert re.search(r"the server has \S+ MiB of memory free, and this row takes 1.25 GiB of "
                         r"it; lower --size or --working-set", done.stderr), done.stderr
        done = tool.perf(server.address, *SMALL)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["verdict"] == "ok"
    finally:
        server.stop()
