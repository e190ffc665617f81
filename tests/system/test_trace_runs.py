# SPDX-License-Identifier: Apache-2.0
"""tcpx trace diff and lint: planted divergences are found, pairs of clean runs have none."""
import json
import multiprocessing
import os
import subprocess

import pytest

from conftest import HANG
from test_node import build, fixture_a3  # noqa: F401 (fixtures)

LONG = os.environ.get("TEST_LONG") == "1"
# (fault, message), and what must be said of it: a section of the diff, and a word there
SEEDS = [
    *[("device", at, "context", "another device") for at in (1,)],
    *[("unconsumed", at, "lint", "T01") for at in (1, 9, 30, 46)],
    *[("tag", at, "divergence", "isend of message") for at in (1, 20, 45)],
    *[("tag-one", at, "divergence", "irecv of message") for at in (2, 17, 46)],
    *[("order", at, "divergence", "isend of message") for at in (1, 13, 44)],
    *[("larger", at, "divergence", "isend of message") for at in (1, 10, 40, 46)],
    *[("smaller", at, "divergence", "isend of message") for at in (3, 25, 46)],
    *[("late", at, "timing", "before isend of message") for at in (1, 15, 46)],
    *[("late-receive", at, "timing", "before irecv of message") for at in (1, 22, 46)],
    *[("exit", at, "divergence", "of message") for at in (2, 15, 40)],
    *[("kill", at, "divergence", "of message") for at in (2, 15, 40)],
    ("register", 1, "lint", "T07"),
    *[("not-head", at, "lint", "") for at in (2, 12, 30)],
    *[("early", at, "lint", "T03") for at in (5, 33)],
    ("host", 1, "divergence", "irecv of message 0"),
    ("extra", 1, "divergence", "the comm"),
    ("fewer", 1, "divergence", "the comm"),
    *[("twice", at, "divergence", "irecvConsumed") for at in (4, 31)],
    *[("untested", at, "divergence", "test of message") for at in (5, 29)],
    ("no-close", 1, "divergence", "close"),
    ("env-changed", 1, "environment", "NCCL_NSOCKS_PERTHREAD"),
    ("env-added", 1, "environment", "NCCL_TRACE_TEST"),
    ("env-gone", 1, "environment", "NCCL_SOME_SETTING"),
]
SHORT = [SEEDS[i] for i in range(0, len(SEEDS), 4)]


def planted(fault):
    """The environment that a fault of the environment has."""
    return {"env-changed": {"NCCL_NSOCKS_PERTHREAD": "2"}, "env-added": {"NCCL_TRACE_TEST": "1"},
            "env-gone": {"NCCL_SOME_SETTING": None}}.get(fault, {})


@pytest.fixture(name="traced", scope="session")
def fixture_traced(build): # noqa: F811
    """Runs the consumer under the tracer; returns its trace."""
    def run(path, seed, fault="none", at=10, load=0):
        env = {**os.environ, "NCCL_DYNAMIC_CHUNK_SIZE": "131072", "TCPXEMU_STEER": "off",
               "TCPXEMU_FATAL": "rc", "NCCL_SOME_SETTING": "1", "NCCL_NSOCKS_PERTHREAD": "1",
               "TCPX_TRACE": str(path),
               "TCPX_TRACE_PLUGIN": str(build / "emu/tcpxemu/libnccl-net-tcpxemu.so"),
               **planted(fault)}
        env = {name: value for name, value in env.items() if value is not None}
        busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(load)]
        for one in busy:
            one.start()
        done = subprocess.run([build / "tests/system/trace_program",
                               build / "plugins/tracer/libnccl-net-tcpxtrace-v7.so", str(seed),
                               fault if not fault.startswith("env-") else "none", str(at)],
                              env=env, timeout=HANG, check=False, capture_output=True, text=True)
        for one in busy:
            one.kill()
            one.join()
        assert path.exists(), done.stderr
        return done
    return run


def spin():
    while True:
        pass


def diff_of(tool, one, other):
    done = tool("trace", "diff", one, other, "--json", "-")
    assert done.returncode in (0, 3), done.stderr
    return json.loads(done.stdout)


@pytest.mark.usefixtures("with_json")
@pytest.mark.parametrize("fault, at, section, word", SEEDS if LONG else SHORT)
def test_a_planted_divergence_is_found(tool, traced, tmp_path, fault, at, section, word):
    assert traced(tmp_path / "a.tct", 7).returncode == 0
    traced(tmp_path / "b.tct", 7, fault, at)
    found = diff_of(tool, tmp_path / "a.tct", tmp_path / "b.tct")
    if fault == "not-head":
        # an older message may be done by then: a second call for it is what the two have not alike
        lint = tool("trace", "lint", tmp_path / "b.tct").stdout
        assert "T02" in lint or found["diverged"], lint
        return
    assert any(word in item["what"] for item in found[section]), json.dumps(found, indent=1)
    assert found["diverged"] or section in ("timing", "environment")


@pytest.mark.usefixtures("with_json")
def test_clean_runs_do_not_diverge(tool, traced, tmp_path):
    """Under load, which moves threads and the order in which comms are made."""
    pairs = 100 if LONG else 6
    for i in range(pairs):
        one, other = tmp_path / f"a{i}.tct", tmp_path / f"b{i}.tct"
        assert traced(one, i, load=2).returncode == 0
        assert traced(other, i, load=2).returncode == 0
        found = diff_of(tool, one, other)
        assert not found["diverged"], (i, json.dumps(found, indent=1))
        assert not found["environment"] and not found["library"] and not found["remark"]
        done = tool("trace", "lint", one)
        assert done.returncode == 0, (i, done.stdout)


@pytest.mark.usefixtures("with_json")
def test_nothing_is_concluded_across_a_gap(tool, traced, tmp_path, monkeypatch):
    """A ring that is far too small; the divergence is in a comm that lost records."""
    assert traced(tmp_path / "a.tct", 7).returncode == 0
    data = (tmp_path / "a.tct").read_bytes()
    (tmp_path / "b.tct").write_bytes(without_block(data))
    done = tool("trace", "diff", tmp_path / "a.tct", tmp_path / "b.tct")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("B: ") and "RECORDS ARE MISSING" in done.stdout.splitlines()[0]
    assert "\nrecords are missing, no conclusion for:\n" in done.stdout
    done = tool("trace", "lint", tmp_path / "b.tct")
    assert done.returncode == 3 and done.stdout.startswith("T12") and "T01" not in done.stdout


def without_block(data):
    """The file without the first of two blocks of records of one thread, as after a full disk."""
    at, last, blocks = 64, {}, []
    while at + 32 <= len(data):
        kind, thread = int.from_bytes(data[at + 4:at + 6], "little"), data[at + 6:at + 8]
        length = 32 + int.from_bytes(data[at + 8:at + 12], "little")
        if kind == 1:
            blocks.append((thread, at, length))
        at += length
    for index, (thread, at, length) in enumerate(blocks):
        if any(other[0] == thread for other in blocks[index + 1:]):
            return data[:at] + data[at + length:]
        last[thread] = at
    # one block a thread: its first record is cut off, and its position says so
    thread, at, length = max(blocks, key=lambda block: block[2])
    head = bytearray(data[at:at + 32])
    head[8:12] = (length - 32 - 64).to_bytes(4, "little")
    head[16:24] = (1).to_bytes(8, "little")
    return data[:at] + bytes(head) + data[at + 96:]


def test_more_blocks_than_a_byte_counts(tool, build, tmp_path): # noqa: F811
    """Half a million records of four threads; one of them differs."""
    make = build / "bench/trace_cost"
    if not make.exists():
        pytest.skip("no bench/trace_cost beside the tool")
    for name, more in (("a", []), ("b", ["300000"])):
        subprocess.run([make, "make", tmp_path / f"{name}.tct", "524288", *more], check=True)
    done = tool("trace", "show", tmp_path / "a.tct")
    assert done.returncode == 0 and "524288 records" in done.stdout
    done = tool("trace", "diff", tmp_path / "a.tct", tmp_path / "b.tct")
    assert done.returncode == 3 and "B: 1 bytes" in done.stdout
    assert done.stdout.count("isend of message") == 1


def test_no_byte_of_the_payload(traced, tmp_path):
    """The messages are full of a word that must not be in the file."""
    assert traced(tmp_path / "a.tct", 3).returncode == 0
    data = (tmp_path / "a.tct").read_bytes()
    assert b"PAYLOAD" not in data and b"nic.0.name=eth1" in data


@pytest.mark.usefixtures("with_json")
def test_the_receiver_never_saw_it(tool, traced, tmp_path):
    """The receiver stops asking; the other end of the connection is in the same trace."""
    traced(tmp_path / "a.tct", 3, "untested", 20)
    found = json.loads(tool("trace", "lint", tmp_path / "a.tct", "--json", "-").stdout)["findings"]
    lost = [one for one in found if one["rule"] == "T10" and "->" in one["where"]]
    assert lost and "under way for 1." in lost[0]["text"] and "last call was" in lost[0]["text"]


def test_the_library_has_no_finding(tool, build, a3, tmp_path): # noqa: F811
    """Four channels to a GPU, whose threads share the messages otherwise in each run."""
    env = {**a3, "TCPX_PLUGIN": str(build / "emu/tcpxemu/libnccl-net-tcpxemu.so")}
    receivers = []
    for i in range(6 if LONG else 3):
        done = tool("trace", "run", "--quiet", "-o", tmp_path / f"t{i}", "--", tool.path, "perf",
                    "--loopback", "--transport", "gpudirect", "--gpu", "0", "--mem", "cuda:0",
                    "--remote-mem", "cuda:0", "--plugin-channels", "4", "--unpack", "d2d",
                    "--size", "512K", "--iters", "20", "--working-set", "4M", env=env)
        assert done.returncode == 0, done.stderr
        files = sorted((tmp_path / f"t{i}").glob("*.tct"), key=lambda path: path.stat().st_size)
        assert len(files) == 2
        done = tool("trace", "lint", *files)
        assert done.returncode == 0, done.stdout
        receivers.append(files[1])
    for other in receivers[1:]:
        done = tool("trace", "diff", receivers[0], other)
        assert done.returncode == 0 and done.stdout.rstrip().endswith("no divergence"), done.stdout
