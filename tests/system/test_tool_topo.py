# SPDX-License-Identifier: Apache-2.0
"""tcpx topo: recorded machines against goldens, and this machine with stand-ins for its drivers.

RENEW_GOLDEN=1 writes tests/golden/topo/ anew; look at the difference before it is committed.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
RECORD = TOP / "tests/record"
GOLDEN = TOP / "tests/golden/topo"
MACHINES = sorted(path.parent.name for path in RECORD.glob("*/sysfs.txt"))
SVG = "{http://www.w3.org/2000/svg}"
NODES = {"0": "0-51,104-155", "1": "52-103,156-207"}


@pytest.fixture(scope="session")
def roots(tmp_path_factory):
    """Unpacks a recorded machine once: roots(name) is its sysfs."""
    unpacked = {}

    def get(name):
        if name not in unpacked:
            unpacked[name] = tmp_path_factory.mktemp(name)
            subprocess.run([sys.executable, TOP / "scripts/sysfs-unpack.py",
                            RECORD / name / "sysfs.txt", unpacked[name]], check=True)
        return unpacked[name]
    return get


@pytest.fixture(scope="session")
def emu(tool):
    """The folder of the stand-ins of the tool's own build."""
    built = pathlib.Path(tool.path).resolve()
    for above in built.parents:
        if (above / "emu/fakenvml/libfakenvml.so").exists():
            return above / "emu"
    pytest.fail("no stand-ins beside the tool")


def nvml(emu, **more):
    return {"TCPX_NVML_LIBRARY": str(emu / "fakenvml/libfakenvml.so"), **more}


def golden(name, text):
    path = GOLDEN / name
    if os.environ.get("RENEW_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def gpus_of(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["gpus"]


@pytest.mark.parametrize("name", MACHINES)
def test_recorded_machines(tool, roots, name):
    done = tool("topo", "--root", roots(name))
    assert (done.returncode, done.stderr) == (0, "")
    golden(f"{name}.txt", done.stdout)
    assert tool("topo", env={"TCPX_SYSFS": str(roots(name))}).stdout == done.stdout


@pytest.mark.parametrize("name", MACHINES)
def test_recorded_machines_as_json(tool, with_json, roots, name):
    done = tool("topo", "--root", roots(name), "--json", "-")
    assert (done.returncode, done.stderr) == (0, "")
    golden(f"{name}.json", done.stdout)
    document = json.loads(done.stdout)
    assert (document["schema"], document["tool"]) == (1, "topo")
    on_pci = {nic["name"]: nic["pci"] for nic in document["nics"] if not nic["virtual"]}
    for gpu in document["gpus"]:
        assert set(gpu["distances"]) == set(on_pci)
        assert gpu["owner"]["pci"] == on_pci.get(gpu["owner"]["nic"])


@pytest.mark.parametrize("name", MACHINES)
def test_recorded_machines_as_a_picture(tool, roots, tmp_path, name):
    done = tool("topo", "--root", roots(name), "--svg", "-")
    assert (done.returncode, done.stderr) == (0, "")
    golden(f"{name}.svg", done.stdout)
    top = xml.fromstring(done.stdout)
    assert top.tag == f"{SVG}svg"
    for text in top.iter(f"{SVG}text"):
        assert 0 <= int(text.get("x")) < int(top.get("width"))
        assert 0 < int(text.get("y")) <= int(top.get("height"))
    file = tmp_path / "machine.svg"
    assert tool("topo", "--root", roots(name), "--svg", file).stdout == ""
    assert file.read_text(encoding="utf-8") == done.stdout


def test_the_picture_of_an_a3_host(tool, roots):
    top = xml.fromstring(tool("topo", "--root", roots("a3-high"), "--svg", "-").stdout)
    cells = [rect for rect in top.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    assert len(cells) == 8 * 5
    owners = [rect.find(f"{SVG}title").text for rect in cells if rect.get("class") == "owner"]
    assert owners == [f"GPU{gpu} eth{gpu // 2 + 1} PIX, its owner" for gpu in range(8)]


def test_threads_of_an_a3_host_run_near_their_nic(tool, with_json, roots):
    for gpu in gpus_of(tool("topo", "--root", roots("a3-high"), "--json", "-")):
        assert (gpu["cpus"], gpu["cpus_near"]) == (NODES[str(gpu["numa"])], "nic")


def test_visible_devices_shift_nothing(tool, roots):
    plain = tool("topo", "--root", roots("container-7-gpus")).stdout
    assert tool("topo", "--root", roots("container-7-gpus"),
                env={"CUDA_VISIBLE_DEVICES": "6,2"}).stdout == plain


def test_a_recorded_machine_asks_no_driver_and_no_rxdm(tool, emu, roots, tmp_path):
    env = nvml(emu, NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=str(tmp_path))
    done = tool("topo", "--root", roots("a3-high"), env=env)
    assert "Stand-in" not in done.stdout
    assert "owners (RxDM: not asked)" in done.stdout


def test_strange_names_do_not_break_the_picture(tool, with_json, tmp_path):
    folder = tmp_path / "sys/class/net"
    for name in (b"a<b&c\"d", b"\xff\x01e"):
        os.makedirs(os.path.join(os.fsencode(folder), name))
    done = tool("topo", "--root", tmp_path / "sys", "--svg", "-")
    texts = [text.text for text in xml.fromstring(done.stdout).iter(f"{SVG}text")]
    assert 'a<b&c"d: virtual, -, -, -' in texts and "??e: virtual, -, -, -" in texts
    done = tool("topo", "--root", tmp_path / "sys", "--json", "-")
    assert [nic["name"] for nic in json.loads(done.stdout)["nics"]] == ['a<b&c"d', "??e"]


def test_this_machine_twice(tool):
    first, second = tool("topo"), tool("topo")
    assert first.returncode == 0, first.stderr
    # others may make and remove a veth in between
    texts = [[line for line in done.stdout.splitlines() if "virtual" not in line]
             for done in (first, second)]
    assert texts[0] == texts[1]
    assert texts[0][0].startswith("scan: sysfs")


def test_names_come_from_nvml_by_address(tool, with_json, emu):
    env = nvml(emu, FAKENVML_GPUS="00000000:E4:00.0=Second;0000:c4:00.0=First;-=Nowhere")
    found = gpus_of(tool("topo", "--no-rxdm", "--json", "-", env=env))
    named = {gpu["pci"]: (gpu["name"], gpu["visible"]) for gpu in found}
    assert named["0000:c4:00.0"] == ("First", True)
    assert named["0000:e4:00.0"] == ("Second", True)
    assert "Nowhere" not in [gpu["name"] for gpu in found]


def test_names_come_from_cuda_where_nvml_does_not_start(tool, emu):
    env = nvml(emu, FAKENVML_FAIL="init",
               TCPX_CUDA_LIBRARY=str(emu / "fakecuda/libfakecuda.so"))
    done = tool("topo", env=env)
    assert re.search(r"^  GPU\d+ +0000:3a:00.0  node .*  Fake GPU 0$", done.stdout, re.M)
    assert "Stand-in" not in done.stdout


def test_without_any_driver_there_are_no_names(tool, with_json):
    env = {"TCPX_NVML_LIBRARY": "/none/libnvidia-ml.so.1", "TCPX_CUDA_LIBRARY": "/none/libcuda.so"}
    done = tool("topo", "--json", "-", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["names"] is None
    assert [gpu for gpu in document["gpus"] if gpu["name"] or gpu["visible"]] == []


@pytest.fixture
def rxdm(emu):
    """The folder of the sockets of RxDM's stand-in, which runs with its preset."""
    with tempfile.TemporaryDirectory(prefix="tcpx-rxdm-") as prefix:  # short enough for sockets
        process = subprocess.Popen([emu / "fakerxdm/fakerxdm", "--prefix", prefix],
                                   stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        yield prefix
        process.terminate()
        process.communicate()


def test_rxdm_says_which_gpus_it_knows(tool, with_json, emu, rxdm):
    env = nvml(emu, NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=rxdm,
               FAKENVML_GPUS="0000:04:00.0=Known;0000:77:00.0=Stranger")
    done = tool("topo", "--json", "-", env=env)
    said = {gpu["name"]: gpu["owner"]["rxdm"] for gpu in gpus_of(done)}
    assert (said["Known"], said["Stranger"]) == ("known", "denied")
    assert json.loads(done.stdout)["rxdm"] == "answers"
    assert "RxDM denies it" in tool("topo", env=env).stdout
    quiet = json.loads(tool("topo", "--no-rxdm", "--json", "-", env=env).stdout)
    assert quiet["rxdm"] == "not asked"
    assert {gpu["owner"]["rxdm"] for gpu in quiet["gpus"]} == {"not asked"}


def test_rxdm_that_is_not_there_is_silent(tool, emu, tmp_path):
    done = tool("topo", env=nvml(emu, NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=str(tmp_path)))
    assert done.returncode == 0
    assert re.search(r"^owners \(RxDM: silent: .+\):$", done.stdout, re.M)


@pytest.mark.parametrize("args, code, words", [
    (["--root", "/none/at/all"], 1, "/none/at/all: No such file"),
    (["--root", str(pathlib.Path(__file__))], 1, "Not a directory"),
    (["--svg", "/none/at/all.svg"], 1, "/none/at/all.svg: No such file"),
    (["--roof", "/"], 2, "did you mean --root"),
    (["--json", "-", "--svg", "-"], 2, "both write to stdout"),
    (["more"], 2, "more"),
])
def test_what_is_wrong_is_said_in_one_line(tool, args, code, words):
    done = tool("topo", *args)
    assert done.returncode == code and done.stdout == ""
    assert words in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_full_disk_is_told(tool, roots):
    done = tool("topo", "--root", roots("a3-high"), "--svg", "/dev/full")
    assert done.returncode == 1 and "No space left" in done.stderr
