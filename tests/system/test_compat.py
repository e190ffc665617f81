# SPDX-License-Identifier: Apache-2.0
"""scripts/compat: the predecessor's commands, logs, lines and settings."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading

import pytest

from compat import COMPAT, UNIT, build, fixture_a3, fixture_old, fixture_played  # noqa: F401
from conftest import HANG, TOP
from test_node import counted, port_base

AVERAGE = re.compile(r"PERF.*Avg.*BW: ([\d.]+) GB/s")  # what people grep


def assert_log(text, transport):
    assert text.count(UNIT) == 1
    assert f"# transport {transport} (" in text
    assert AVERAGE.search(text), text


def used(text, option):
    """The value of an option of the command that the log shows."""
    return re.search(rf"^# \S*tcpx .*{option} (\S+)", text, re.M)[1]


def test_single_process(played, tmp_path):
    done = played.pair("run_p2p_singleproc.sh", UCCL_TCPX_PERF_SIZE="256KB",
                       UCCL_TCPX_PERF_ITERS="4")
    for role in ("server", "client"):
        text = played.log(f"singleproc_{role}_????????_??????.log")
        assert_log(text, "gpudirect")
        for line in ("GPUs initialised 8/8", "channels created 64/64", "channels accepted 64/64",
                     "memory registered 64/64", "=== ALL GPUs READY ==="):
            assert line in text
        assert re.findall(r"\[PERF\] GPU: (\d)", text) == list("01234567")
        assert re.findall(r"^\[PERF\] Iter (\d) time=[\d.]+ms$", text, re.M) == list("0123") * 8
        for line in (r"\[PERF\] Bandwidth: [\d.]+ GB/s \(per GPU\)", r"Total time: [\d.]+ ms",
                     r"\[PERF\] Avg: [\d.]+ ms, BW: [\d.]+ GB/s"):
            assert len(re.findall(rf"^{line}$", text, re.M)) == 8
    assert re.search(r"rx_devmem_pkts of rank 0: eth1 \+[1-9]", done[0].stdout)
    total = counted(tmp_path)
    assert total["received_messages"] > 0
    assert (total["pages_in_use"], total["violations"]) == (0, 0)


def test_single_process_over_tcp(old):
    old.pair("run_p2p_singleproc.sh", GPU_LIST="0 3", UCCL_TCPX_PERF_SIZE="64KB",
             UCCL_TCPX_NUM_CHANNELS="2", UCCL_TCPX_OOB_PORT=str(port_base()))
    text = old.log("singleproc_client_*.log")
    assert_log(text, "tcp")
    assert "channels created 4/4" in text
    assert used(text, "--iters") == "20"


def test_full_mesh(played):
    played.pair("run_p2p_fullmesh.sh", UCCL_TCPX_PERF_SIZE="256K", UCCL_TCPX_PERF_ITERS="4")
    for gpu, nic in enumerate(["eth1", "eth1", "eth2", "eth2", "eth3", "eth3", "eth4", "eth4"]):
        for role in ("server", "client"):
            text = played.log(f"fullmesh_{role}_gpu{gpu}_????????_??????.log")
            assert_log(text, "gpudirect")
            assert re.findall(r"^\[PERF\] Iter (\d) time=[\d.]+ms$", text, re.M) == list("0123")
            assert f"[PERF] GPU: {gpu}\n" in text
            assert re.search(rf"rx_devmem_pkts of this end: .*{nic} \+\d", text)
            assert used(text, "--plugin-channels") == "2"
    table = played("print_latest_bw.py")
    assert table.returncode == 0
    rows = table.stdout.splitlines()
    assert [row.split()[0] for row in rows[2:]] == [*"01234567", "AVG"]
    assert not re.search(r" \? |\*", table.stdout)


def test_settings_of_the_mesh_can_be_grepped():
    text = (COMPAT / "run_p2p_fullmesh.sh").read_text(encoding="utf-8")
    assert re.search(r"^CHANNELS=\$\{UCCL_TCPX_NUM_CHANNELS:-2\} .* 2\)$", text, re.M)
    after = text[text.index("map_gpu_to_ifaces()"):].splitlines()[:9]  # grep -A 8
    for pair, nic in (("0 | 1", "eth1"), ("2 | 3", "eth2"), ("4 | 5", "eth3"), ("6 | 7", "eth4")):
        assert f"\t{pair}) echo {nic} ;;" in after


def test_full_mesh_of_one(old):
    old.pair("run_p2p_fullmesh.sh", "5", UCCL_TCPX_PERF_SIZE="64K", UCCL_TCPX_NUM_CHANNELS="3")
    text = old.log("fullmesh_client_gpu5_*.log")
    assert_log(text, "tcp")
    assert used(text, "--channels") == "3"
    for line in (r"\[PERF\] Iter 0 time=[\d.]+ms", r"\[PERF\] Avg: [\d.]+ ms, BW: [\d.]+ GB/s",
                 r"Total time: [\d.]+ ms"):
        assert re.search(rf"^{line}$", text, re.M)


def test_full_mesh_says_who_failed(old):
    """Where GPU 1's server should be there is one that hangs up."""
    base = int(old.env["UCCL_TCPX_BOOTSTRAP_PORT_BASE"])
    with socket.create_server(("127.0.0.1", base + 1)) as other:
        threading.Thread(target=hang_up, args=[other], daemon=True).start()
        server = old.start("run_p2p_fullmesh.sh", "server", "0")
        done = old("run_p2p_fullmesh.sh", "client", "127.0.0.1", GPU_LIST="0 1",
                   UCCL_TCPX_PERF_SIZE="64K")
    assert old.end(server).returncode == 0
    assert done.returncode == 1
    assert re.search(r"run_p2p_fullmesh.sh: GPU 1: exit \d+: tcpx perf: peer ", done.stderr)
    assert "GPU 0: exit" not in done.stderr


@pytest.mark.parametrize("script, args", [("run_p2p_fullmesh.sh", ["0"]), ("bench_p2p.sh", ["0"])])
def test_a_server_whose_client_failed(played, script, args):
    """The two ends cut messages differently, so nothing is moved, and both ends say so."""
    both = [played.start(script, "server", *args, UCCL_TCPX_CHUNK_BYTES="256K"),
            played.start(script, "client", "127.0.0.1", *args, UCCL_TCPX_CHUNK_BYTES="512K")]
    done = [played.end(one) for one in both]
    assert [one.returncode for one in done] == [1, 1], done
    assert "the client failed: stopped: no channel of messages" in done[0].stdout + done[0].stderr
    assert "[WARN]" not in done[0].stdout


def hang_up(listener):
    while True:
        try:
            listener.accept()[0].close()
        except OSError:
            return


def test_interrupt_ends_the_mesh_and_nothing_else(old):
    bystander = subprocess.Popen(["sleep", "60"])
    mesh = old.start("run_p2p_fullmesh.sh", "server", GPU_LIST="0 1")
    old.until_logged("\nready ", count=2)
    children = pathlib.Path(f"/proc/{mesh.pid}/task/{mesh.pid}/children").read_text().split()
    mesh.send_signal(signal.SIGINT)
    assert old.end(mesh).returncode == 130
    assert len(children) == 2
    assert not [child for child in children if os.path.exists(f"/proc/{child}")]
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_client_that_is_first(old):
    client = old.start("tests/test_tcpx_perf", "client", "127.0.0.1", "0",
                       UCCL_TCPX_PERF_SIZE="64K")
    assert "nobody listens at 127.0.0.1:" in client.stderr.readline()
    assert old("tests/test_tcpx_perf", "server", "0").returncode == 0
    assert old.end(client).returncode == 0


def test_a_server_that_cannot_be(old):
    """There is no such name, so nothing is waited for."""
    done = old("tests/test_tcpx_perf", "client", "a..b", "0")
    assert done.returncode == 1
    assert "host 'a..b'" in done.stdout and "nobody listens" not in done.stderr


def test_a_port_that_is_taken(old):
    """The client knows of no other port, unless it is asked for."""
    base = int(old.env["UCCL_TCPX_BOOTSTRAP_PORT_BASE"])
    with socket.create_server(("127.0.0.1", base)):
        done = old("tests/test_tcpx_perf", "server", "0")
        assert done.returncode == 1 and f"127.0.0.1:{base} is taken" in done.stdout
        server = old.start("tests/test_tcpx_perf", "server", "0", UCCL_TCPX_PORT_RETRIES="9")
        while "ready 127.0.0.1:" not in (line := server.stdout.readline()):
            assert line, old.end(server)
        server.kill()
        old.end(server)


@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv")
@pytest.mark.parametrize("script", ["run_p2p_singleproc.sh", "tests/test_connection"])
def test_what_ends_a_script_ends_its_tool(old, script):
    """Else it holds the output until the other end's time is over, and says so."""
    running = old.start(script, "server")
    old.until_logged("tcpx node: waiting for rank 1")
    running.kill()
    assert "did not come to stage" not in old.end(running).stdout


def test_bench(old):
    done = old.pair("bench_p2p.sh", 2, more=["--size=1MB", "--iters=6", "--chunk=256K",
                                             "--skip-warmup=2"])
    for role, one in zip(("server", "client"), done):
        text = old.log(f"bench_{role}_????????_??????.log")
        assert_log(text, "tcp")
        assert re.search(r"^\[STEADY-STATE\] Avg time: [\d.]+ ms, BW: [\d.]+ GB/s$", text, re.M)
        assert text.splitlines()[-1] == one.stdout.splitlines()[-1]
        assert used(text, "--chunk") == "256K"
    times = re.findall(r"Iter \d time=([\d.]+)ms", text)
    steady = float(re.search(r"STEADY-STATE.* ([\d.]+) ms", text)[1])
    assert len(times) == 6 and abs(steady - sum(map(float, times[2:])) / 4) < 0.002
    information = old.log("infomation.log")
    for words in ("NUMA nodes:", "interfaces before the run", "interfaces after the run", " lo:"):
        assert words in information


def test_bench_leaves_all_out(old):
    done = old.pair("bench_p2p.sh", 0, more=["--size=64K", "--iters=2", "--skip-warmup=5"])
    assert "[WARN] fewer iterations than --skip-warmup=5" in done[1].stdout


@pytest.mark.parametrize("nic, steered", [("eth1", "eth1"), ("eth2", "eth2"), ("eth4", "eth4")])
def test_bench_of_each_nic(played, nic, steered):
    """Also the case that failed: GPU 0 behind eth2."""
    env = {"TCPX_LOG": "info"}
    done = played.pair("bench_p2p.sh", 0, more=[f"--ifaces={nic}", "--size=256K", "--iters=4",
                                                "--impl=d2d", "--nsocks=2"], **env)
    assert re.search(rf"rx_devmem_pkts of this end: .*{steered} \+[1-9]", done[0].stdout)
    relayed = re.search(rf"NIC {nic} is not GPU 0's: receives land on GPU", done[0].stdout)
    assert bool(relayed) == (nic != "eth1")
    # of the driver, in the server's half of the file or in the client's, before and after
    packets = re.findall(rf"^{steered} rx_devmem_pkts: (\d+)$", played.log("infomation.log"), re.M)
    assert packets and int(packets[-1]) > 0


def test_bench_refuses_a_nic_without_its_gpu(played):
    server = played.start("bench_p2p.sh", "server", 0, "--ifaces=eth2", CUDA_VISIBLE_DEVICES="0,1")
    done = played.end(server)
    assert done.returncode != 0
    assert re.search("0000:04:00.0.*0000:06:00.0", done.stdout), done.stdout


def test_bench_options_of_the_plugin(played, a3):
    prefix = a3["NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX"]
    done = played.pair("bench_p2p.sh", 1, more=[
        f"--unix-prefix={prefix}", "--host-recv", "--nthreads=1", "--size=64K", "--iters=2"],
        NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX="/nowhere")
    assert used(done[1].stdout, "--unpack") == "host-recv"
    server = played.start("bench_p2p.sh", "server", 1, "--no-unix")
    while "--no-unix: RxDM steers" not in (line := server.stdout.readline()):
        assert line, played.end(server)
    server.terminate()
    assert played.end(server).returncode == -signal.SIGTERM  # and no serve holds its output


@pytest.fixture(name="said")
def fixture_said(old):
    """What a server of bench_p2p.sh calls: words and NCCL's environment, by a tool that says it."""
    tool = old.folder / "tool"
    tool.write_text("#!/bin/sh\necho \"$@\"\nenv | grep ^NCCL_\n:\n", encoding="ascii")
    tool.chmod(0o755)

    def call(*options, **env):
        done = old("bench_p2p.sh", "server", "2", *options, TCPX_TOOL=str(tool), TCPX_BIND="",
                   **{"TCPX_COMPAT_TRANSPORT": "gpudirect", **env})
        assert done.returncode == 0, done.stderr
        return done.stdout.replace("\n", " ")

    return call


@pytest.mark.parametrize("options, words, env", [
    ([], ["--bind eth0", "--gpu 2 --mem cuda:2", "--chunk 512K", "--plugin-channels 1"],
     ["NSOCKS_PERTHREAD=4", "SOCKET_NTHREADS=1"]),
    (["--nsocks=2", "--nthreads=3"], [], ["NSOCKS_PERTHREAD=2", "SOCKET_NTHREADS=3"]),
    (["--ctrl=eth7"], ["--bind eth7"], ["GPUDIRECTTCPX_CTRL_DEV=eth7"]),
    (["--ifaces=eth1,eth2"], ["--nic eth1,eth2"], []),
    (["--unix-prefix=/run/other"], [], ["GPUDIRECTTCPX_UNIX_CLIENT_PREFIX=/run/other"]),
    (["--impl=kernel"], ["--unpack kernel"], []), (["--impl=d2d"], ["--unpack d2d"], []),
    (["--host-recv"], ["--unpack host-recv"], [])])
def test_bench_options(said, options, words, env):
    shown = said(*options)
    for text in [*words, *(f"NCCL_{one}" for one in env)]:
        assert f" {text} " in shown


def test_bench_interfaces_of_tcp(said):
    assert "--bind eth1,eth2 " in said("--ifaces=eth1,eth2", TCPX_COMPAT_TRANSPORT="tcp")
    shown = said("--no-unix", NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX="/run/x")
    assert "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX" not in shown


DEFAULTS = {
    "run_p2p_singleproc.sh": ["node", "--gpus 0-7", "--channels 8", "--size 64M", "--iters 20"],
    "run_p2p_fullmesh.sh": ["perf", "--channels 2", "--size 64M", "--iters 20", "--chunk 512K"],
    "bench_p2p.sh": ["perf", "--channels 1", "--size 64M", "--iters 20", "--chunk 512K"],
    "tests/test_tcpx_perf": ["perf", "--channels 1", "--size 4M", "--iters 10", "--chunk 512K"],
    "tests/test_tcpx_perf_multi": ["perf", "--channels 2", "--size 64M", "--iters 20",
                                   "--chunk 512K"],
    "tests/test_tcpx_transfer": ["perf", "--op send", "--size 23,64K", "--iters 4"],
    "tests/test_connection": ["node", "--check smoke", "--gpus 0"]}


@pytest.mark.parametrize("script", DEFAULTS)
def test_defaults(old, script):
    """Seen from a tool that says its words, with a server that it waits for."""
    port = int(old.env["UCCL_TCPX_BOOTSTRAP_PORT_BASE"])
    gpu = ["0"] if script != "run_p2p_singleproc.sh" else []
    with socket.create_server(("127.0.0.1", port)):
        done = old(script, "client", "127.0.0.1", *gpu, TCPX_TOOL="/bin/echo")
    assert done.returncode == 0, done.stderr
    shown, = [log.read_text(encoding="utf-8") for log in old.folder.glob("logs/*_*.log")] or \
        [old.log("client.log")]
    said = shown.splitlines()[4] + " "
    assert said.startswith(DEFAULTS[script][0] + " ")
    for words in DEFAULTS[script]:
        assert words + " " in said
    assert ("fewer iterations" in shown) == (script == "bench_p2p.sh")  # it measures nothing


@pytest.mark.parametrize("script", ["bench_p2p.sh", "run_p2p_fullmesh.sh", "run_p2p_singleproc.sh",
                                    "run_nccl_test_tcpx.sh", "print_latest_bw.py"])
def test_found_where_it_lay(old, script):
    """'cd scripts; ./NAME', and it finds what it sources and the tool."""
    done = subprocess.run([f"./{script}", "--help"], cwd=TOP / "scripts", env=old.env, text=True,
                          capture_output=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr
    assert script in done.stdout


@pytest.mark.parametrize("script, channels", [
    ("run_p2p_singleproc.sh", 8), ("run_p2p_fullmesh.sh", 2), ("bench_p2p.sh", 1),
    ("tests/test_tcpx_perf", 1), ("tests/test_tcpx_perf_multi", 2)])
@pytest.mark.parametrize("env, wins", [({}, None), ({"UCCL_TCPX_NUM_CHANNELS": "3"}, 3),
                                       ({"UCCL_TCPX_NUM_CHANNELS": "3", "TCPX_CHANNELS": "5"}, 5),
                                       ({"TCPX_NUM_CHANNELS": "4"}, 4)])
def test_channels(old, script, channels, env, wins):
    """grep "CHANNELS=" shows the variable and the default, which is what is used."""
    text = (COMPAT / script).read_text(encoding="utf-8")
    shown = re.findall(r"^CHANNELS=(\S+)", text, re.M)
    assert shown == [f"${{UCCL_TCPX_NUM_CHANNELS:-{channels}}}"]
    gpu = ["0"] if script != "run_p2p_singleproc.sh" else []
    with socket.create_server(("127.0.0.1", int(old.env["UCCL_TCPX_BOOTSTRAP_PORT_BASE"]))):
        done = old(script, "client", "127.0.0.1", *gpu, TCPX_TOOL="/bin/echo", **env)
    assert done.returncode == 0, done.stderr
    shown, = [log.read_text(encoding="utf-8") for log in old.folder.glob("logs/*.log")
              if log.name != "infomation.log"]
    assert f" --channels {wins or channels} " in shown


@pytest.mark.parametrize("name", ["test_tcpx_perf", "test_tcpx_perf_multi"])
def test_pair_programs(old, name):
    old.pair(f"tests/{name}", 0, UCCL_TCPX_PERF_SIZE="64K")
    for role in ("server", "client"):
        assert_log(old.log(f"{role}.log"), "tcp")


def test_settings_have_an_order(old):
    """TCPX_ beats UCCL_TCPX_, which beats NCCL's."""
    env = {"UCCL_TCPX_PERF_SIZE": "128K", "TCPX_PERF_SIZE": "64K", "UCCL_TCPX_PERF_ITERS": "3",
           "UCCL_TCPX_CHUNK_BYTES": "65536", "NCCL_P2P_NET_CHUNKSIZE": "1M",
           "UCCL_TCPX_NUM_CHANNELS": "2", "UCCL_TCPX_OOB_PORT": str(port_base())}
    old.pair("tests/test_tcpx_perf", 4, **env)
    shown = old.log("client.log").splitlines()[3]
    for words in ("--size 64K", "--iters 3", "--chunk 65536", "--channels 2"):
        assert words in shown
    assert f":{env['UCCL_TCPX_OOB_PORT']}" in old.log("server.log")
    assert "[PERF] GPU: 4" in old.log("server.log")


def test_transfer(played, tmp_path):
    done = played.pair("tests/test_tcpx_transfer", 3)
    for role, one in zip(("server", "client"), done):
        assert one.stdout.splitlines()[-1] == "PASS transfer"
        assert_log(played.log(f"{role}.log"), "gpudirect")
    assert re.search(r"^ +23 +4 .* 0$", done[1].stdout, re.M)
    assert re.search(r"rx_devmem_pkts of this end: .*eth2 \+[1-9]", done[0].stdout)
    # 4 times and a window before them, of each size: the 23 bytes went through the plugin, too
    assert counted(tmp_path)["received_messages"] == 16
    done = played.pair("tests/test_tcpx_transfer", 3, UCCL_TCPX_PAYLOAD_BYTES="40")
    assert re.search(r"^ +40 +4 ", done[1].stdout, re.M)


@pytest.mark.parametrize("name, word", [("test_devmem_validation", "devmem"),
                                        ("test_connection", "smoke")])
def test_checks(played, name, word):
    for one in played.pair(f"tests/{name}", 2):
        assert one.stdout.splitlines()[-1] == f"PASS {word}"
    for role in ("server", "client"):
        shown = played.log(f"{role}.log")
        assert_log(shown, "gpudirect")
        assert re.findall(r"\[PERF\] GPU: (\d)", shown) == ["2"]
    assert "channels created " + ("4/4" if word == "devmem" else "8/8") in shown


def test_a_check_that_fails(played):
    both = [played.start("tests/test_devmem_validation", *words,
                         TCPXEMU_FAULT="flip:side=send:nth=1")
            for words in (["server"], ["client", "127.0.0.1"])]
    for done in map(played.end, both):
        assert done.returncode == 1
        assert done.stdout.splitlines()[-1] == "FAIL devmem"


def test_devmem_wants_the_plugin(old):
    done = old("tests/test_devmem_validation", "server")
    assert done.returncode == 2
    assert "for --transport gpudirect" in done.stdout


def test_devices(played, tmp_path):
    done = played("tests/test_device_discovery")
    assert done.returncode == 0
    for nic in ("eth1", "eth2", "eth3", "eth4"):
        assert f" {nic} " in done.stdout
    assert done.stdout.splitlines()[-1] == "PASS device discovery"
    done = played("tests/test_device_discovery", UCCL_TCPX_PLUGIN_PATH=str(tmp_path / "none.so"))
    assert done.returncode != 0 and "none.so" in done.stdout and "PASS" not in done.stdout


def test_devices_without_a_plugin(old, tmp_path):
    subprocess.run([TOP / "scripts/sysfs-unpack.py", TOP / "tests/record/no-gpu/sysfs.txt",
                    tmp_path], check=True)
    done = old("tests/test_device_discovery", TCPX_SYSFS=str(tmp_path))
    assert "GPUs: 0" in done.stdout
    assert done.stdout.splitlines()[-1] == "PASS device discovery (no GPU: host memory alone)"


@pytest.mark.parametrize("script, args, words", [
    ("bench_p2p.sh", ["server"], "the number of its GPU"),
    ("bench_p2p.sh", ["client", "127.0.0.1"], "the number of its GPU"),
    ("bench_p2p.sh", ["server", "0", "--size=big"], "'big' is no size"),
    ("bench_p2p.sh", ["server", "0", "--chunk=0"], "'0' is no size"),
    ("bench_p2p.sh", ["server", "0", "--iters=x"], "'x' is no number"),
    ("bench_p2p.sh", ["server", "0", "--nsocks="], "'' is no number"),
    ("bench_p2p.sh", ["server", "0", "--impl=fast"], "'--impl=fast' is no option, or has"),
    ("bench_p2p.sh", ["server", "0", "--fast"], "'--fast' is no option"),
    ("run_p2p_singleproc.sh", [], "the first word is server or client, not ''"),
    ("run_p2p_singleproc.sh", ["client"], "the server's address"),
    ("run_p2p_singleproc.sh", ["server", "1", "2"], "too many words"),
    ("run_p2p_fullmesh.sh", ["server", "x"], "'x' is no number"),
    ("run_p2p_fullmesh.sh", ["server", "0", "1"], "too many words"),
    ("tests/test_tcpx_perf", ["server"], "the number of its GPU"),
    ("tests/test_tcpx_perf", ["client", "127.0.0.1", "0", "--size=1M"], "too many words"),
    ("tests/test_connection", ["both"], "the first word is server or client, not 'both'"),
    ("tests/test_device_discovery", ["all"], "no words are wanted"),
    ("run_nccl_test_tcpx.sh", ["uccl"], "the reference is nccl"),
    ("run_nccl_test_tcpx.sh", ["nccl", "two"], "'two' is no number"),
    ("run_nccl_test_tcpx.sh", ["nccl", "2", "8", "0", "1", "2"], "COLLECT is 0 or 1"),
    ("../accept-a3.sh", ["--runs", "0"], "begins at 1"),
    ("../accept-a3.sh", ["server", "1"], "too many words"),
    ("print_latest_bw.py", [".", "a"], "usage:"),
    ("print_latest_bw.py", ["nowhere"], "there is no folder nowhere")])
def test_wrong_usage(old, script, args, words):
    done = old(script, *args)
    assert done.returncode == 2
    assert words in done.stderr
    assert not done.stdout


def test_wrong_surroundings(old):
    done = old("run_p2p_fullmesh.sh", "server", GPU_LIST="0 one")
    assert done.returncode == 2 and "GPU_LIST: 'one' is no number" in done.stderr
    assert not (old.folder / "logs").exists()
    done = old("bench_p2p.sh", "server", 0, TCPX_COMPAT_TRANSPORT="rdma")
    assert done.returncode == 2 and "neither tcp nor gpudirect" in done.stderr
    done = old("bench_p2p.sh", "server", 0, TCPX_TOOL="/nowhere/tcpx")
    assert done.returncode == 1 and "/nowhere/tcpx cannot be run" in done.stderr


@pytest.mark.usefixtures("with_crypto")
def test_beyond_loopback_wants_a_key(old):
    done = old("bench_p2p.sh", "server", 0, TCPX_BIND="0.0.0.0")
    assert done.returncode == 1 and "key" in done.stdout


def test_the_demo(tool, build):
    done = subprocess.run([TOP / "scripts/demo-compat.sh", build], timeout=HANG, text=True,
                          capture_output=True, env=tool.environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert "=== ALL GPUs READY ===" in done.stdout
    assert "8 processes ended, logs in logs" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("AVG ")


@pytest.mark.parametrize("script", [*DEFAULTS, "run_nccl_test_tcpx.sh", "print_latest_bw.py",
                                    "tests/test_devmem_validation", "tests/test_device_discovery",
                                    "../accept-a3.sh"])
def test_help(old, script):
    done = old(script, "--help")
    assert done.returncode == 0 and not done.stderr
    assert f"usage: {os.path.basename(script)}" in done.stdout


def test_make_names_the_wrappers():
    for target, script in (("test_tcpx_perf_orchestrator", "run_p2p_singleproc.sh"),
                           ("test_tcpx_perf_multi", "tests/test_tcpx_perf_multi")):
        done = subprocess.run(["make", "-n", target], cwd=TOP, text=True, capture_output=True,
                              timeout=HANG, check=True)
        assert f"scripts/compat/{script} server | client IP" in done.stdout
        assert "scripts/build.sh build" in done.stdout
        assert os.access(COMPAT / script, os.X_OK)
