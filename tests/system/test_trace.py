# SPDX-License-Identifier: Apache-2.0
"""tcpx trace over the emulator: the case of the two NICs, what each verb says, what run does."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import HANG
from test_node import build, fixture_a3  # noqa: F401 (fixtures)

TOP = pathlib.Path(__file__).resolve().parents[2]
EMU = "emu/tcpxemu/libnccl-net-tcpxemu.so"


@pytest.fixture(name="traces", scope="session")
def fixture_traces(build, tmp_path_factory): # noqa: F811
    """Receivers' traces of the demonstration: gpu0-eth1, gpu0-eth2, gpu2-eth2; what it prints."""
    folder = tmp_path_factory.mktemp("traces")
    done = subprocess.run([TOP / "scripts/demo-trace.sh", build, folder], text=True,
                          capture_output=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


@pytest.fixture(name="ends")
def fixture_ends(tool, build, tmp_path): # noqa: F811
    """Both traces of a run over the emulator, the receiver's first."""
    env = {"NCCL_DYNAMIC_CHUNK_SIZE": "524288", "TCPXEMU_STEER": "off",
           "TCPX_PLUGIN": str(build / EMU)}
    done = tool("trace", "run", "-o", tmp_path / "t", "--", tool.path, "perf", "--loopback",
                "--transport", "plugin", "--plugin-channels", "1", "--size", "1M", "--iters", "8",
                env=env)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(" records") == 2
    files = sorted((tmp_path / "t").glob("*.tct"), key=lambda path: path.stat().st_size)
    assert len(files) == 2
    return [files[1], files[0]]


def test_the_case_of_the_two_nics(traces):
    folder, said = traces
    assert "it fails: " in said and "no-cmsg" in said
    diff = said.split("tcpx trace diff gpu0-eth1.tct gpu0-eth2.tct")[1].split("$ tcpx")[0]
    assert "owner eth1, owner != nic" in diff and "rule D01" in diff
    first = diff.split("first divergence:")[1].splitlines()
    assert first[1].startswith("  recv#0 test of message")
    assert "done" in first[2] and "never: the process ended" in first[3]
    lint = said.split("tcpx trace lint gpu0-eth2.tct")[1].split("$ tcpx")[0]
    assert "T09 D01  recv#0" in lint and "its own NIC is eth1" in lint
    assert said.rstrip().endswith("no divergence")
    assert {path.name for path in folder.iterdir()} == {"gpu0-eth1.tct", "gpu0-eth2.tct",
                                                        "gpu2-eth2.tct"}


@pytest.mark.usefixtures("with_json")
def test_the_divergence_as_json(tool, traces):
    folder, _ = traces
    done = tool("trace", "diff", folder / "gpu0-eth1.tct", folder / "gpu0-eth2.tct", "--json", "-")
    assert done.returncode == 3
    found = json.loads(done.stdout)
    assert found["diverged"] is True
    assert found["divergence"][0]["where"] == "recv#0"
    assert {item["doctor"] for item in found["context"]} == {"D01"}
    shown = json.loads(tool("trace", "show", folder / "gpu0-eth2.tct", "--json", "-").stdout)
    assert shown["context"]["topo.gpu.0000:04:00.0"] == "eth1"
    assert any(item["what"] == "eth1.rx_devmem_pkts" for item in found["counter"])
    done = tool("trace", "diff", folder / "gpu0-eth1.tct", folder / "gpu2-eth2.tct", "--json", "-")
    assert done.returncode == 0 and json.loads(done.stdout)["diverged"] is False


def test_a_trace_does_not_diverge_from_itself(tool, ends):
    done = tool("trace", "diff", ends[0], ends[0])
    assert done.returncode == 0 and done.stdout.rstrip().endswith("no divergence")


def test_show(tool, ends):
    done = tool("trace", "show", *ends)
    assert done.returncode == 0
    assert "recv#0" in done.stdout and "irecvConsumed" in done.stdout
    assert "clocks: B is" in done.stdout and "A.send#0 -> B.recv#0" in done.stdout
    done = tool("trace", "show", ends[0], "--comm", "recv#0", "--call", "irecv", "--events", "3")
    listed = [line for line in done.stdout.splitlines() if " irecv         #" in line]
    assert len(listed) == 3 and "more (--events N)" in done.stdout


def test_both_ends_agree(tool, ends):
    done = tool("trace", "lint", *ends)
    assert done.returncode == 0, done.stdout


def test_export_is_json(tool, ends, tmp_path):
    assert tool("trace", "export", *ends, "-o", tmp_path / "x.json").returncode == 0
    events = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "b", "e"}
    begun = {event["id"] for event in events if event["ph"] == "b"}
    assert begun == {event["id"] for event in events if event["ph"] == "e"}


def test_picture(tool, ends, tmp_path):
    assert tool("trace", "show", ends[0], "-o", tmp_path / "x.svg").returncode == 0
    text = (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert text.startswith("<?xml") and text.rstrip().endswith("</svg>") and "recv#0" in text
    assert text.count("prefers-color-scheme: dark") == 1
    done = tool("trace", "show", ends[0], "-o", tmp_path / "x.png")
    assert done.returncode == 2 and "a drawing is .svg" in done.stderr


@pytest.mark.usefixtures("with_json")
def test_anonymize_hides_addresses(tool, ends):
    plain = tool("trace", "show", ends[0], "--json", "-").stdout
    hidden = tool("trace", "show", ends[0], "--json", "-", "--anonymize").stdout
    sockets = [value for key, value in json.loads(plain)["context"].items()
               if key.startswith("socket.") and "127.0" in value]
    assert sockets and "127.0." not in hidden and "ip0:" in hidden


def test_a_cut_trace_is_read(tool, ends, tmp_path):
    cut = tmp_path / "cut.tct"
    cut.write_bytes(ends[0].read_bytes()[:-5000])
    done = tool("trace", "show", cut)
    assert done.returncode == 0 and "no end: the process was killed" in done.stdout


@pytest.mark.parametrize("text", [b"", b"hello", b"TCPXTRAC" + bytes(100)])
def test_what_is_no_trace(tool, tmp_path, text):
    (tmp_path / "x.tct").write_bytes(text)
    done = tool("trace", "show", tmp_path / "x.tct")
    assert done.returncode == 1 and "x.tct" in done.stderr


@pytest.mark.parametrize("args, words", [
    (["trace"], "usage: tcpx trace run|show"),
    (["trace", "watch"], "'watch' is none of run, show, diff, lint, export"),
    (["trace", "diff", "one"], "usage: tcpx trace diff A B"),
    (["trace", "run"], "usage: tcpx trace run"),
    (["trace", "show", "x", "--call", "isent"], "--call 'isent': no such call"),
])
def test_usage(tool, args, words):
    done = tool(*args)
    assert done.returncode == 2 and words in done.stderr


def test_run_returns_what_the_command_returns(tool, tmp_path):
    for command, code in ((["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137),
                          (["no-such-command"], 127)):
        done = tool("trace", "run", "-o", tmp_path / "t", "--", *command,
                    env={"NCCL_NET_PLUGIN": "", "TCPX_PLUGIN": ""})
        assert done.returncode == code, done.stderr


def test_run_chooses_the_newest_common_table(tool, build, tmp_path): # noqa: F811
    """A host that accepts up to v8, a plugin of v9 alone: said before the command starts."""
    host = tmp_path / "host"
    host.write_bytes(b"".join(b"ncclNetPlugin_v%d\0" % v for v in (5, 6, 7, 8)))
    args = ["trace", "run", "-o", tmp_path / "t", "--host", host, "--plugin"]
    show = ["--", "sh", "-c", "echo $NCCL_NET_PLUGIN"]
    done = tool(*args, build / "emu/tcpxemu/libnccl-net-tcpxemu-v8.so", *show)
    assert done.returncode == 0 and done.stdout == "tcpxtrace-v8\n", done.stderr
    done = tool(*args, build / "emu/tcpxemu/libnccl-net-tcpxemu-v9.so", *show)
    assert done.returncode == 1 and "no version in common" in done.stderr
    done = tool(*args, "/no/such/plugin.so", *show)
    assert done.returncode == 1 and "/no/such/plugin.so" in done.stderr


@pytest.mark.parametrize("by", ["tracer", "library"])
@pytest.mark.parametrize("version", ["", "-v6", "-v8", "-v9", "-v10", "-v11", "-v12"])
def test_each_table_is_forwarded(tool, build, tmp_path, version, by): # noqa: F811
    """By a tracer object, and by the library, which wraps its own adapter: the same calls."""
    plugin = build / f"emu/tcpxemu/libnccl-net-tcpxemu{version}.so"
    env = {"NCCL_DYNAMIC_CHUNK_SIZE": "524288", "TCPXEMU_STEER": "off",
           "TCPX_PLUGIN_TRUST_PEERS": "1", "TCPX_PLUGIN": str(plugin)}
    done = tool("trace", "run", "-o", tmp_path / "t", *(["--plugin", plugin] * (by == "tracer")),
                "--", tool.path, "perf", "--loopback", "--transport", "plugin",
                "--plugin-channels", "2", "--size", "256K", "--iters", "4", env=env)
    assert done.returncode == 0, done.stderr
    assert "result: OK, 0 wrong bytes" in done.stdout
    files = list((tmp_path / "t").glob("*.tct"))
    shown = [tool("trace", "show", path).stdout for path in files]
    table = f"table {version[1:] or 'v7'}"
    assert len(shown) == 2 and all("recv#1" in text and table in text for text in shown)
    loaded = b"libnccl-net-tcpxtrace" in files[0].read_bytes()
    assert loaded == (by == "tracer")
    done = tool("trace", "lint", *files)
    assert done.returncode == 0, done.stdout


def program(build, **env): # noqa: F811
    """Runs the consumer of a plugin over the tracer object of v7."""
    return subprocess.run([build / "tests/system/trace_program",
                           build / "plugins/tracer/libnccl-net-tcpxtrace-v7.so", "1"],
                          env={**os.environ, "NCCL_DYNAMIC_CHUNK_SIZE": "131072",
                               "TCPXEMU_STEER": "off", **env}, timeout=HANG, check=False,
                          capture_output=True, text=True)


def test_a_tracer_without_its_plugin_refuses(build, tmp_path): # noqa: F811
    for plugin in ("", "/no/such/plugin.so",
                   str(build / "emu/tcpxemu/libnccl-net-tcpxemu-v9.so")):
        done = program(build, TCPX_TRACE=f"{tmp_path}/x.tct", TCPX_TRACE_PLUGIN=plugin)
        assert done.returncode == 1 and "init: 3" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["", "/no/such/folder/x.tct", "full"])
def test_a_program_runs_without_its_trace(build, tmp_path, path): # noqa: F811
    """Not at all, or on a full device, which is written to as it is."""
    if path == "full":
        (tmp_path / path).symlink_to("/dev/full")
        path = str(tmp_path / path)
    done = program(build, TCPX_TRACE=path, TCPX_TRACE_PLUGIN=str(build / EMU))
    assert done.returncode == 0, done.stderr
    assert all(one.name == "full" for one in tmp_path.iterdir())


@pytest.mark.parametrize("path, words", [("/no/such/folder/x.tct", "No such file"),
                                         ("/dev/full", "No space left")])
def test_the_library_goes_on_without_its_trace(tool, path, words):
    done = tool("perf", "--loopback", "--transport", "tcp", "--size", "64K", "--iters", "4",
                env={"TCPX_TRACE": path})
    assert done.returncode == 0
    assert done.stderr.count(f"no trace of channels: {path}: {words}") == 1


def test_a_tracer_exports_its_table_alone(build): # noqa: F811
    if not shutil.which("nm"):
        pytest.skip("no nm")
    for version in range(6, 13):
        path = build / f"plugins/tracer/libnccl-net-tcpxtrace-v{version}.so"
        done = subprocess.run(["nm", "-D", "--defined-only", path], text=True, capture_output=True,
                              check=True)
        assert {line.split()[-1] for line in done.stdout.splitlines()} == {
            f"ncclNetPlugin_v{version}", "tcpx_tracer_version"}


def test_any_other_plugin(tool, tmp_path):
    """TCPX_TEST_PLUGIN: a plugin of this machine, host memory between two processes."""
    plugin = os.environ.get("TCPX_TEST_PLUGIN")
    if not plugin:
        pytest.skip("TCPX_TEST_PLUGIN names no plugin")
    done = tool("trace", "run", "-o", tmp_path / "t", "--plugin", plugin, "--", tool.path, "perf",
                "--loopback", "--transport", "plugin", "--size", "1M", "--iters", "8")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "t").glob("*.tct"))) == 2


@pytest.mark.parametrize("version", ["-v10", "-v11"])
def test_under_nccl(tool, build, tmp_path, version): # noqa: F811
    """Two ranks of one host under the real NCCL, each with a GPU; the emulator below the tracer."""
    nccl = os.environ.get("TCPX_TEST_NCCL")
    program = build / "bench/nccl_p2p"
    if not nccl:
        pytest.skip("TCPX_TEST_NCCL names no libnccl.so.2")
    if not program.exists():
        pytest.skip("no bench/nccl_p2p beside the tool")
    env = {"TCPXEMU_STEER": "off", "TCPXEMU_MEM": "cuda-host-bounce", "NCCL_P2P_DISABLE": "1",
           "NCCL_SHM_DISABLE": "1", "NCCL_DYNAMIC_CHUNK_SIZE": "524288",
           "NCCL_P2P_NET_CHUNKSIZE": "524288", "NCCL_BUFFSIZE": "4194304",
           "NCCL_NET": "GPUDirectTCPX_v7", "TCPXEMU_LEAK": "fixed"}
    plugin = build / f"emu/tcpxemu/libnccl-net-tcpxemu{version}.so"
    done = tool("trace", "run", "-o", tmp_path / "t", "--plugin", plugin, "--host", nccl, "--",
                program, "--nccl", nccl, "--sizes", "1M", "--modes", "separate", "--reps", "2",
                "--volume", "16M", env=env)
    if done.returncode == 77:
        pytest.skip(f"nccl_p2p: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stdout + done.stderr
    files = sorted((tmp_path / "t").glob("*.tct"))
    assert len(files) == 2, done.stderr
    for path in files:
        shown = tool("trace", "show", path).stdout
        assert f"table {version[1:]}" in shown and "recv#0" in shown and "isend" in shown
    assert "on the way" in tool("trace", "show", *files).stdout
    assert tool("trace", "diff", files[0], files[0]).returncode == 0
