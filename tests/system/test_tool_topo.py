# SPDX-License-Identifier: Apache-2.0
"""tcpx topo on recorded machines, against goldens. RENEW_GOLDEN=1 writes them anew."""
import json
import os
import pathlib
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
MACHINES = ["a3-high", "one-nic", "no-gpu", "vm-numa-unknown", "container-7-gpus"]


@pytest.fixture(name="machine", params=MACHINES)
def fixture_machine(request, tmp_path):
    """The folder of a recorded machine, and its name."""
    record = TOP / "tests/record" / request.param / "sysfs.txt"
    subprocess.run([TOP / "scripts/sysfs-unpack.py", record, tmp_path], check=True)
    return tmp_path, request.param


def golden(name, text):
    path = TOP / "tests/golden/topo" / name
    if os.environ.get("RENEW_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_text(tool, machine):
    done = tool("topo", "--root", machine[0])
    assert done.returncode == 0, done.stderr
    golden(machine[1] + ".txt", done.stdout)
    assert tool("topo", "--root", machine[0]).stdout == done.stdout


def test_json(tool, machine):
    done = tool("topo", "--root", machine[0], "--json", "-")
    if done.returncode == 1 and "without jansson" in done.stderr:
        pytest.skip("built without jansson")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["schema"], found["tool"]) == (1, "topo")
    golden(machine[1] + ".json", done.stdout)


def test_owners_of_an_a3(tool, tmp_path):
    record = TOP / "tests/record/a3-high/sysfs.txt"
    subprocess.run([TOP / "scripts/sysfs-unpack.py", record, tmp_path], check=True)
    text = tool("topo", env={"TCPX_SYSFS": str(tmp_path)}).stdout
    for gpu, nic in [("04", "eth1"), ("05", "eth1"), ("0a", "eth2"), ("0b", "eth2"),
                     ("84", "eth3"), ("85", "eth3"), ("8a", "eth4"), ("8b", "eth4")]:
        assert f"0000:{gpu}:00.0  node {0 if gpu < '80' else 1}  receives through {nic} " in text
    assert "  0  CPUs 0-51,104-155\n  1  CPUs 52-103,156-207\n" in text


def test_no_such_machine(tool, tmp_path):
    done = tool("topo", "--root", tmp_path / "none")
    assert done.returncode == 1
    assert "none" in done.stderr and not done.stdout
    assert tool("topo", "--rot", "x").returncode == 2
