# SPDX-License-Identifier: Apache-2.0
"""tcpx over GPU memory, with the stand-in for the CUDA driver: rows, ceilings, refusals, info."""
import json
import os
import pathlib
import re

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
ROW = ["--size", "64K,300000", "--iters", "6", "--working-set", "2M", "--timeout", "100"]
GPU = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")


@pytest.fixture(scope="session")
def fake(tool):
    """The environment in which two GPUs are there."""
    built = [pathlib.Path(tool.path).resolve().parent, TOP / "build"]
    paths = [os.environ.get("TCPX_FAKECUDA", "")]
    paths += [str(path / "emu/fakecuda/libfakecuda.so") for path in (built[0], built[0].parent,
                                                                    built[1])]
    for path in paths:
        if path and os.path.exists(path):
            return {"TCPX_CUDA_LIBRARY": path}
    pytest.fail("no stand-in for the CUDA driver beside the tool")


@pytest.fixture(scope="session")
def schema():
    jsonschema = pytest.importorskip("jsonschema")
    text = (TOP / "docs/schema/perf.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft7Validator(json.loads(text))


def wrong_of(done):
    """The last column of each row."""
    return [line.split()[-1] for line in (done.stdout + done.stderr).splitlines()
            if re.match(r" +\d+[KMG]? +\d+ ", line)]


ENDS = [("cuda:0", "cuda:1"), ("cuda:1", "host"), ("host", "cuda:1"), ("cuda", "cuda")]


@pytest.mark.parametrize("op", ["write", "read", "send"])
@pytest.mark.parametrize("local, remote", ENDS)
def test_rows_in_every_direction(tool, fake, local, remote, op):
    done = tool("perf", "--loopback", "--transport", "tcp", "--op", op, "--mem", local,
                "--remote-mem", remote, *ROW, env=fake)
    assert done.returncode == 0, done.stderr
    assert wrong_of(done) == ["0", "0"]


@pytest.mark.parametrize("args", [["--batch", "16", "--size", "64K"], ["--bidir"],
                                  ["--transport", "local"], ["--op", "latency", "--size", "8"],
                                  ["--op", "pingpong", "--size", "8"],
                                  ["--op", "pingpong", "--size", "8", "--transport", "local"]])
def test_variations_move_every_byte(tool, fake, args):
    done = tool("perf", "--loopback", "--transport", "tcp", "--mem", "cuda:0", "--remote-mem",
                "cuda:1", *ROW, *args, env=fake)
    assert done.returncode == 0, done.stderr
    assert wrong_of(done) and set(wrong_of(done)) == {"0"}


@pytest.mark.parametrize("kernels", ["", "none"])
@pytest.mark.parametrize("args", [[], ["--batch", "16", "--size", "64K"], ["--bidir"],
                                  ["--op", "read"]])
def test_kernels_make_and_compare_the_data(tool, fake, args, kernels):
    env = {**fake, "FAKECUDA_KERNELS": kernels, "TCPX_LOG": "info"}
    more = ["perf", "--loopback", "--transport", "tcp", "--mem", "cuda:0", "--remote-mem",
            "cuda:1", *ROW, *args]
    done = tool(*more, env=env)
    assert done.returncode == 0, done.stderr
    assert wrong_of(done) and set(wrong_of(done)) == {"0"}
    assert ("compared by the CPU" in done.stderr) == (kernels == "none")
    assert tool(*more, "--inject-fault", env=env).returncode == 4


@pytest.mark.parametrize("op", ["write", "read"])
def test_one_flipped_byte_is_found(tool, fake, with_json, schema, op):
    done = tool.perf("--loopback", "--transport", "tcp", "--mem", "cuda:0", "--remote-mem",
                     "cuda:1", "--op", op, "--inject-fault", "--size", "64K", "--batch", "4",
                     "--iters", "6", "--working-set", "2M", env=fake)
    assert done.returncode == 4
    schema.validate(done.json)
    assert [row["wrong_bytes"] for row in done.json["results"]] == [1]


def test_json_names_both_gpus(tool, fake, with_json, schema):
    done = tool.perf("--loopback", "--transport", "tcp", "--mem", "cuda", "--remote-mem", "cuda:1",
                     *ROW, env=fake)
    assert done.returncode == 0, done.stderr
    schema.validate(done.json)
    path = done.json["path"]
    assert (path["local_mem"], path["remote_mem"]) == ("cuda", "cuda")
    assert (path["local_gpu"]["ordinal"], path["remote_gpu"]["ordinal"]) == (0, 1)
    assert GPU.fullmatch(path["local_gpu"]["pci"]) and GPU.fullmatch(path["remote_gpu"]["pci"])
    assert path["local_gpu"]["pci"] != path["remote_gpu"]["pci"]
    for gpu in (path["local_gpu"], path["remote_gpu"]):
        assert gpu["pci"] in done.stderr and gpu["name"] in done.stderr


def measured(row):
    return {name for name, rate in row["ceilings"].items() if rate}


@pytest.mark.parametrize("local, remote, op, more, want", [
    ("cuda:0", "cuda:1", "write", [], {"tcp", "d2h", "h2d", "peer"}),
    ("cuda:0", "cuda:1", "read", [], {"tcp", "d2h", "h2d", "peer"}),
    ("cuda:0", "cuda:0", "write", [], {"tcp", "d2h", "h2d"}),
    ("cuda:0", "host", "write", [], {"tcp", "d2h"}),
    ("cuda:0", "host", "read", [], {"tcp", "h2d"}),
    ("host", "cuda:1", "write", [], {"tcp", "h2d"}),
    ("host", "cuda:1", "read", [], {"tcp", "d2h"}),
    ("host", "cuda:1", "write", ["--bidir"], {"tcp", "d2h", "h2d"}),
    ("host", "host", "write", [], {"tcp"}),
])
def test_the_ceiling_is_the_narrowest_part_of_the_path(tool, fake, with_json, schema, local,
                                                       remote, op, more, want):
    done = tool.perf("--loopback", "--transport", "tcp", "--ceiling", "--mem", local,
                     "--remote-mem", remote, "--op", op, "--size", "64K", "--iters", "4",
                     "--working-set", "2M", *more, env={**fake, "FAKECUDA_DELAY_US": "0"})
    assert done.returncode == 0, done.stderr
    schema.validate(done.json)
    row, = done.json["results"]
    rates = row["ceilings"]
    assert measured(row) == want
    engines = [rates[name] for name in ("d2h", "h2d") if rates[name]]
    bound = sum(engines) if more else min(engines, default=rates["tcp"])
    assert row["ceiling_bytes_per_second"] == pytest.approx(min(rates["tcp"], bound), rel=1e-6)
    for name, words in (("d2h", "GPU to host"), ("h2d", "host to GPU"), ("peer", "GPU to GPU")):
        assert (words in done.stderr) == (name in want)


def test_peer_copies_are_the_ceiling_of_the_local_transport(tool, fake, with_json):
    done = tool.perf("--loopback", "--transport", "local", "--ceiling", "--mem", "cuda:0",
                     "--remote-mem", "cuda:1", "--size", "64K", "--iters", "4", "--working-set",
                     "2M", env=fake)
    assert done.returncode == 0, done.stderr
    row, = done.json["results"]
    assert row["ceiling_bytes_per_second"] == row["ceilings"]["peer"]


def test_no_peer_access_no_peer_rate(tool, fake, with_json):
    done = tool.perf("--loopback", "--transport", "tcp", "--ceiling", "--mem", "cuda:0",
                     "--remote-mem", "cuda:1", "--size", "64K", "--iters", "4", "--working-set",
                     "2M", env={**fake, "FAKECUDA_NO_PEER": "1"})
    assert done.returncode == 0, done.stderr
    assert measured(done.json["results"][0]) == {"tcp", "d2h", "h2d"}


NO_DRIVER = {"TCPX_CUDA_LIBRARY": "/nonexistent/libcuda.so.1"}


@pytest.mark.parametrize("option", ["--mem", "--remote-mem"])
def test_no_driver_says_why_and_what_to_do(tool, with_json, option):
    done = tool("perf", "--loopback", option, "cuda", *ROW, env=NO_DRIVER)
    assert done.returncode == 2
    line, = done.stderr.splitlines()
    assert option in line and "/nonexistent/libcuda.so.1" in line and "; " in line


@pytest.mark.parametrize("option", ["--mem", "--remote-mem"])
def test_a_gpu_that_is_not_there(tool, fake, option):
    done = tool("perf", "--loopback", option, "cuda:2", *ROW, env=fake)
    assert done.returncode == 2
    assert option in done.stderr and "sees 2" in done.stderr and "tcpx info" in done.stderr


def test_visible_devices_are_counted(tool, fake):
    env = {**fake, "CUDA_VISIBLE_DEVICES": "1"}
    done = tool("perf", "--loopback", "--mem", "cuda:1", *ROW, env=env)
    assert done.returncode == 2 and "sees 1" in done.stderr


@pytest.mark.parametrize("text, words", [("cuda:x", "not a whole number"), ("gpu", "choose from"),
                                         ("cuda:99", "out of range"), ("host:0", "choose from")])
def test_memory_that_is_none(tool, text, words):
    done = tool("perf", "--loopback", "--mem", text)
    assert done.returncode == 2 and words in done.stderr


def test_what_serve_lacks_is_refused_before_the_first_row(tool, serve, fake):
    server = serve(env=NO_DRIVER)
    done = tool("perf", server.address, "--remote-mem", "cuda", *ROW, env=fake)
    assert done.returncode == 1 and "refused" in done.stderr and "--remote-mem" in done.stderr
    assert not wrong_of(done)
    assert tool("perf", server.address, *ROW).returncode == 0, "it still serves host memory"


def test_serve_gives_the_gpus_that_it_allows(tool, serve, fake, with_json):
    server = serve("--mem", "host,cuda:1", env=fake)
    done = tool.perf(server.address, "--transport", "tcp", "--remote-mem", "cuda", *ROW, env=fake)
    assert done.returncode == 0, done.stderr
    assert done.json["path"]["remote_gpu"]["ordinal"] == 1
    done = tool("perf", server.address, "--remote-mem", "cuda:0", *ROW, env=fake)
    assert done.returncode == 1 and "serve --mem" in done.stderr
    server = serve("--mem", "host", env=fake)
    done = tool("perf", server.address, "--remote-mem", "cuda", *ROW, env=fake)
    assert done.returncode == 1 and "serve --mem" in done.stderr


def test_a_gpu_without_room_says_how_much_is_free(tool, fake):
    env = {**fake, "FAKECUDA_BYTES": str(64 << 20)}
    done = tool("perf", "--loopback", "--mem", "cuda", "--size", "1M", "--working-set", "256M",
                env=env)
    assert done.returncode == 1
    assert "256 MiB" in done.stderr and "free" in done.stderr and "--working-set" in done.stderr


def test_info_lists_the_gpus(tool, fake, with_json):
    done = tool("info", env=fake)
    assert done.returncode == 0
    lines = [line for line in done.stdout.splitlines() if line.startswith("  cuda:")]
    assert len(lines) == 2 and all(GPU.search(line) for line in lines)
    assert "peer access 1" in lines[0] and "peer access 0" in lines[1]
    info = json.loads(tool("info", "--json", "-", env=fake).stdout)["cuda"]
    assert re.fullmatch(r"\d+\.\d+", info["driver"])
    assert [gpu["ordinal"] for gpu in info["gpus"]] == [0, 1]
    assert [gpu["peers"] for gpu in info["gpus"]] == [[1], [0]]
    for gpu in info["gpus"]:
        assert gpu["bytes"] > 0 and gpu["copy_engines"] > 0 and gpu["name"]
        assert GPU.fullmatch(gpu["pci"]) and re.fullmatch("[0-9a-f]{32}", gpu["uuid"])


def test_info_without_a_driver_is_one_line(tool, with_json):
    done = tool("info", env=NO_DRIVER)
    line, = [line for line in done.stdout.splitlines() if line.startswith("gpus: ")]
    assert done.returncode == 0 and "none" in line and "/nonexistent/libcuda.so.1" in line
    info = json.loads(tool("info", "--json", "-", env=NO_DRIVER).stdout)["cuda"]
    assert info["gpus"] == [] and info["driver"] is None and "libcuda" in info["reason"]
