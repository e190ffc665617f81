# SPDX-License-Identifier: Apache-2.0
"""The table of logs, NCCL's reference run, the verdicts of scripts/accept-a3.sh."""
import json
import os
import re
import subprocess

import pytest

from compat import UNIT, build, fixture_a3, fixture_old  # noqa: F401 (fixtures)
from conftest import HANG, TOP
from netns import LONG


def test_table_of_logs(old):
    logs = old.folder / "logs"
    logs.mkdir()
    texts = {"fullmesh_server_gpu0_20251001_100000.log": "[PERF] Avg: 9.0 ms, BW: 1.00 GB/s\n",
             "fullmesh_server_gpu0_20251002_100000.log":
                 "[PERF] GPU: 0\n[PERF] Avg: 8.0 ms, BW: 2.00 GB/s\n",
             "fullmesh_client_gpu0_20251002_100000.log":
                 f"{UNIT}\n[PERF] GPU: 0\n[PERF] Avg (20 iter): 4.0 ms, BW: 3.00 GB/s\n",
             "fullmesh_client_gpu1_20251002_100000.log":
                 f"{UNIT}\n[PERF] GPU: 1\n[PERF] Avg (20 iter): 2.0 ms, BW: 5.00 GB/s\n",
             "other.log": "[PERF] Avg: 1.0 ms, BW: 99.00 GB/s\n"}
    for age, (name, text) in enumerate(texts.items()):
        (logs / name).write_text(text, encoding="utf-8")
        os.utime(logs / name, (1000 + age, 1000 + age))
    rows = [row.split() for row in old("print_latest_bw.py").stdout.splitlines()]
    assert rows[2] == ["0", "8.000", "2.15*", "fullmesh_server_gpu0_20251002_100000.log", "4.000",
                       "3.00", "fullmesh_client_gpu0_20251002_100000.log"]
    assert rows[3][:4] == ["1", "?", "?", "-"]
    assert rows[4] == ["AVG", "8.000", "2.15", "-", "3.000", "4.00", "-"]
    assert rows[5][:4] == ["*", "an", "older", "log,"]
    one = old("print_latest_bw.py", "logs", "1").stdout
    assert "2.000" in one and "8.000" not in one and "*" not in one
    (old.folder / "empty").mkdir()
    assert old("print_latest_bw.py", "empty").returncode == 1


BINDINGS = [("TX", "eth1:8-21,112-125;eth2:8-21,112-125;"
                   "eth3:60-73,164-177;eth4:60-73,164-177"),
            ("RX", "eth1:22-35,126-139;eth2:22-35,126-139;"
                   "eth3:74-87,178-191;eth4:74-87,178-191")]


@pytest.fixture(name="nccl")
def fixture_nccl(old):
    """nccl-tests and a launcher that are played: the launcher runs the program here."""
    home = old.folder / "nccl-tests"
    (home / "build").mkdir(parents=True)
    (old.folder / "bin").mkdir()
    files = {old.folder / "bin/mpirun": 'while [ "${1#*_perf}" = "$1" ]; do shift; done\nexec "$@"',
             **{home / "build" / f"{name}_perf": f'echo {name} "$@" "$NCCL_ALGO" "$NCCL_PROTO"'
                for name in ("all_reduce", "alltoall", "sendrecv")}}
    for path, text in files.items():
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
    hosts = old.folder / "hosts"
    hosts.write_text("# two hosts\n10.0.0.1\n10.0.0.2 slots=4  # more\n\n", encoding="utf-8")
    old.env.update(NCCL_TESTS_HOME=str(home), HOSTFILE=str(hosts),
                   PATH=f"{old.folder}/bin:{old.env['PATH']}")
    return old


@pytest.mark.parametrize("op, program", [("0", "all_reduce"), ("1", "alltoall"),
                                         ("2", "sendrecv")])
def test_nccl_run(nccl, op, program):
    done = nccl("run_nccl_test_tcpx.sh", "nccl", 2, 8, op, 1, NCCL_PROTO="LL")
    assert done.returncode == 0
    assert done.stdout == f"{program} -b 1K -e 1G -f 2 -w 50 -n 50 -g 8 Ring LL\n"
    dry = nccl("run_nccl_test_tcpx.sh", "nccl", 2, 8, op, "--dry-run").stdout
    for words in ("NCCL_P2P_NET_CHUNKSIZE='524288'", "NCCL_BUFFSIZE='8388608'", "NCCL_ALGO='Ring'",
                  "NCCL_PROTO='Simple'", "NCCL_SOCKET_IFNAME='eth0'",
                  "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX='/run/tcpx'",
                  "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME='eth1,eth2,eth3,eth4'",
                  "NCCL_GPUDIRECTTCPX_CTRL_DEV='eth0'",
                  "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS='50000'",
                  *(f"NCCL_GPUDIRECTTCPX_{way}_BINDINGS='{cpus}'" for way, cpus in BINDINGS)):
        assert f"export {words}\n" in dry
    assert "mpirun --host 10.0.0.1:1\\,10.0.0.2:4 -np 2 " in dry
    assert "ssh\\ -p\\ 2222" in dry and "-x NCCL_ALGO " in dry and "NCCL_DEBUG" not in dry
    dry = nccl("run_nccl_test_tcpx.sh", "nccl", "--dry-run", NCCL_DEBUG="INFO").stdout
    assert "-x NCCL_DEBUG " in dry  # what is set here alone is not set there


def test_nccl_tests_of_the_old_place(nccl):
    """$UCCL_HOME, where the predecessor's checkout was."""
    place = nccl.folder / "uccl/thirdparty/nccl-tests"
    place.parent.mkdir(parents=True)
    (nccl.folder / "nccl-tests").rename(place)
    done = nccl("run_nccl_test_tcpx.sh", "nccl", "--dry-run", UCCL_HOME=str(nccl.folder / "uccl"))
    assert f" {place}/build/all_reduce_perf " in done.stdout


def test_nccl_run_is_collected(nccl):
    subprocess.run([nccl.env["TCPX_TOOL"], "diag", "collect", "--out", "diagnostics", "--name",
                    "ours", "--", "true"],
                   cwd=nccl.folder, env={**nccl.env, "NCCL_ALGO": "Tree"}, check=True,
                   capture_output=True)
    assert nccl("run_nccl_test_tcpx.sh", "nccl", 2, 8, 0, 1, 1).returncode == 0
    folder, = (nccl.folder / "diagnostics").glob("nccl_????????_??????")
    assert len(list(folder.iterdir())) >= 13
    assert "all_reduce" in (folder / "stdout.log").read_text(encoding="utf-8")
    summary = (folder / "SUMMARY.txt").read_text(encoding="utf-8")
    assert "Compared with our run, diagnostics/ours_" in summary
    assert re.search("NCCL_ALGO.*Tree|Tree.*NCCL_ALGO", summary, re.S)


def test_nccl_hosts(nccl):
    nccl.env["HOSTFILE"] = str(nccl.folder / "none")
    done = nccl("run_nccl_test_tcpx.sh", "nccl", "--dry-run")
    assert done.returncode == 2
    assert "no list of hosts" in done.stderr and "10.0.0.2 slots=1" in done.stderr
    example = re.search(r"(/\S+/node_ips/tcpx.txt.example) is one to copy", done.stderr)[1]
    nccl.env["HOSTFILE"] = example
    done = nccl("run_nccl_test_tcpx.sh", "nccl", "--dry-run")
    assert done.returncode == 0 and "--host 10.0.0.1:1,10.0.0.2:1 " in done.stdout.replace("\\", "")
    nccl.env["HOSTFILE"] = str(nccl.folder / "none")
    for text, words in (("a b c d\n", "'a b c d' is not 'ADDRESS [slots=N]'"),
                        ("10.0.0.1\n", "room for 1 processes, and 2 were asked")):
        (nccl.folder / "none").write_text(text, encoding="utf-8")
        done = nccl("run_nccl_test_tcpx.sh", "nccl", "--dry-run")
        assert done.returncode == 2 and words in done.stderr


@pytest.mark.parametrize("line, slots", [
    ("127.0.0.1", 1), ("127.0.0.1 slots=4", 4), ("127.0.0.1 4", 4), ("  127.0.0.1\t4 # four", 4),
    ("127.0.0.1 4\r", 4), ("127.0.0.1 1024", 1024), ("127.0.0.1 08", 8), ("127.0.0.1 0", None),
    ("127.0.0.1 slots=1025", None), ("127.0.0.1 slots=", None), ("127.0.0.1 four", None),
    ("127.0.0.1 4 5", None), ("127.0.0.1 slots = 4", None), ("127.0.0.1 -1", None)])
def test_one_list_of_hosts_for_all(nccl, tool, line, slots):
    """NCCL's run, tcpx node and tcpx mesh take the same lines, and refuse the same."""
    path = nccl.folder / "list"
    path.write_text(f"# one\n{line}\n\n", encoding="utf-8")
    done = nccl("run_nccl_test_tcpx.sh", "nccl", 1, "--dry-run", HOSTFILE=str(path))
    assert done.returncode == (0 if slots else 2)
    if slots:
        assert f"--host 127.0.0.1:{slots} " in done.stdout
    for command in ("node", "mesh"):
        done = tool(command, "--mem", "host", env={"HOSTFILE": str(path)})
        assert done.returncode == 1
        assert ("1 rank by the hostfile" if slots == 1 else
                f"{slots} ranks on this host" if slots else f"{path}:2: ") in done.stderr


def test_no_list_of_hosts(nccl, tool):
    for done in (nccl("run_nccl_test_tcpx.sh", "nccl", HOSTFILE="/nowhere/hosts"),
                 *(tool(command, "--mem", "host", "--hostfile", "/nowhere/hosts")
                   for command in ("node", "mesh"))):
        assert done.returncode and "/nowhere/hosts" in done.stderr
        assert "10.0.0.2 slots=" in done.stderr  # an example


@pytest.mark.usefixtures("with_json")
def test_accept(tool, build, tmp_path):
    """A list of hosts, which NCCL's run needs, and a launcher's variables lead none astray."""
    runs = 20 if LONG else 2
    env = {"TCPX_TOOL": tool.path, "HOSTFILE": "/nowhere/hosts", "RANK": "0", "WORLD_SIZE": "4"}
    done = subprocess.run([TOP / "scripts/accept-a3.sh", "--dry-run", "--runs", str(runs),
                           "--build", build], cwd=tmp_path, text=True, capture_output=True,
                          timeout=HANG, env=tool.environment(env), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = dict(reversed(re.match(r"(PASS|FAIL|NOT MEASURED) +(.*?)  ", line).groups())
                    for line in done.stdout.splitlines() if not line.startswith("#"))
    assert {name for name, word in verdicts.items() if word == "PASS"} == {
        "READY with 64 channels", "rx_devmem_pkts rises on every NIC",
        "fallback: 8 processes, one a GPU", f"{runs} stable runs", "0 wrong bytes"}
    assert re.search(rf"{runs} of {runs} exit 0, median [\d.]+ GB/s, spread [\d.]+ %", done.stdout)
    unmeasured = {name for name, word in verdicts.items() if word == "NOT MEASURED"}
    assert {"> 5 GB/s per GPU alone", "> 9 GB/s per GPU alone", "> 10 GB/s per GPU alone",
            "> 15 GB/s per GPU alone", "64 MB (2^26 bytes) in <= 8 ms", "within 20 % of NCCL",
            "> 10 GB/s per GPU, 8 at once"} <= unmeasured
    assert "all-reduce's bus bandwidth" in done.stdout


@pytest.mark.usefixtures("with_json")
def test_accept_fails(tool, build, tmp_path):
    """Every run's first message has a wrong bit."""
    script = tmp_path / "tool"
    script.write_text(f'#!/bin/sh\nTCPXEMU_FAULT=flip:side=send:nth=1 exec {tool.path} "$@"\n',
                      encoding="utf-8")
    script.chmod(0o755)
    done = subprocess.run([TOP / "scripts/accept-a3.sh", "--dry-run", "--runs", "1", "--build",
                           build], text=True, capture_output=True, timeout=HANG, check=False,
                          env=tool.environment({"TCPX_TOOL": str(script)}))
    assert done.returncode == 1
    for name in ("1 stable runs", "fallback: 8 processes, one a GPU", "0 wrong bytes"):
        assert re.search(rf"^FAIL +{name}", done.stdout, re.M), done.stdout


@pytest.mark.parametrize("op, factor", [("sendrecv", 1), ("all-reduce", 1), ("all-to-all", 0.5)])
def test_yardstick(build, op, factor):
    """What bench/nccl_p2p would measure; the factor of the bus is that of nccl-tests."""
    program = [build / "bench/nccl_p2p", "--op", op]
    done = subprocess.run([*program, "--sizes", "64K,1M", "--dry-run"], text=True, check=True,
                          capture_output=True, timeout=HANG)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["bytes"] for row in rows] == [65536, 1048576]
    assert all(row["dry_run"] and row["bus_factor"] == factor and row["ranks"] == 2
               for row in rows)
    if op != "sendrecv":
        assert {row["mode"] for row in rows} == {op}
        done = subprocess.run([*program, "--sizes", "12", "--dry-run"], text=True, check=False,
                              capture_output=True, timeout=HANG)
        assert done.returncode == 2 and "12 is no multiple of 8" in done.stderr


@pytest.fixture(name="pair_of_gpus")
def fixture_pair_of_gpus(tool, build):
    """bench/nccl_p2p over stand-ins for NCCL and the driver."""
    env = tool.environment({"TCPX_CUDA_LIBRARY": str(build / "emu/fakecuda/libfakecuda.so")})
    argv = [build / "bench/nccl_p2p", "--nccl", build / "tests/system/libfakenccl.so", "--sizes",
            "64K,18M", "--volume", "4M", "--reps", "1", "--window", "2", "--trips", "10",
            "--timeout", "60"]
    return lambda *more, **settings: subprocess.run(
        [*argv, *more], text=True, capture_output=True, timeout=HANG, check=False,
        env={**env, **settings})


@pytest.mark.parametrize("op, factor", [("all-reduce", 1), ("all-to-all", 0.5)])
def test_yardstick_of_collectives(pair_of_gpus, op, factor):
    done = pair_of_gpus("--op", op)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["mode"], row["bytes"], row["iters"]) for row in rows] == [
        (op, 65536, 64), (op, 18 << 20, 1)]
    for row in rows:
        assert row["wrong_bytes"] == 0 and row["channels"] == 1
        assert abs(row["bus_gb_per_s"] - factor * row["alg_gb_per_s"]) < 0.002
    done = pair_of_gpus("--op", op, FAKENCCL_FLIP="1")
    assert done.returncode == 1
    assert f"bytes of {op} are wrong: void" in done.stderr


def test_yardstick_of_messages(pair_of_gpus):
    done = pair_of_gpus()
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["mode"] for row in rows] == ["pingpong"] * 2 + ["separate", "grouped", "single"] * 2
    assert not any(row.get("wrong_bytes") for row in rows)
    done = pair_of_gpus("--modes", "grouped", FAKENCCL_FLIP="1")
    assert done.returncode == 1 and "arrived wrong: void" in done.stderr


def test_yardstick_of_no_op(build):
    done = subprocess.run([build / "bench/nccl_p2p", "--op", "broadcast"], text=True, check=False,
                          capture_output=True, timeout=HANG)
    assert done.returncode == 2 and "'broadcast' is none of" in done.stderr


def test_nccl_run_without_nccl_tests(old, build):
    """Two GPUs of this host, and said so; the interface of its sockets stays its own."""
    env = {"NCCL_P2P": str(build / "bench/nccl_p2p"), "NCCL_TESTS_HOME": "/nowhere"}
    done = old("run_nccl_test_tcpx.sh", "nccl", 2, 8, 1, "--dry-run", **env)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].strip() == f"{env['NCCL_P2P']} --op all-to-all"
    assert "no measure of the plugin" in done.stderr
    assert "NCCL_SOCKET_IFNAME='" not in done.stdout.replace("TCPX_SOCKET_IFNAME", "")
    env["NCCL_P2P"] = "/nowhere/nccl_p2p"
    done = old("run_nccl_test_tcpx.sh", "nccl", **env)
    assert done.returncode == 1 and "neither nccl-tests nor /nowhere" in done.stderr


def test_no_reference_without_gpus(old):
    """77 is a test runner's code; a script fails in words."""
    yardstick = old.folder / "nccl_p2p"
    yardstick.write_text("#!/bin/sh\nexit 77\n", encoding="ascii")
    yardstick.chmod(0o755)
    done = old("run_nccl_test_tcpx.sh", NCCL_P2P=str(yardstick), NCCL_TESTS_HOME="/nowhere")
    assert done.returncode == 1
    assert "no reference: this host has no NCCL, no CUDA driver or no second GPU" in done.stderr
