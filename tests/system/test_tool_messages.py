# SPDX-License-Identifier: Apache-2.0
"""tcpx perf over ncclNet plugins, with the emulator's and the stand-in for the CUDA driver."""
import json
import pathlib
import re
import signal
import subprocess

import pytest

from conftest import Serve

TOP = pathlib.Path(__file__).resolve().parents[2]
ROW = ["--size", "64K,300000", "--iters", "6", "--working-set", "2M", "--timeout", "100"]
CHUNK = {"NCCL_DYNAMIC_CHUNK_SIZE": "524288"}


@pytest.fixture(scope="session")
def build(tool):
    """The folder that the tool was built in."""
    at = pathlib.Path(tool.path).resolve().parent
    for folder in (at, at.parent, TOP / "build"):
        if (folder / "emu/tcpxemu/libnccl-net-tcpxemu.so").exists():
            return folder
    pytest.fail("no emulator beside the tool")


@pytest.fixture(scope="session")
def plugin(build):
    return str(build / "emu/tcpxemu/libnccl-net-tcpxemu.so")


@pytest.fixture(name="env")
def fixture_env(tmp_path):
    return {"TCPXEMU_STEER": "off", "TCPXEMU_FRAG": "rand", "TCPXEMU_STATS": f"{tmp_path}/%p"}


@pytest.fixture(name="gpus")
def fixture_gpus(env, build):
    """No NIC of this machine is a GPU's, and the peer is on this host."""
    fake = str(build / "emu/fakecuda/libfakecuda.so")
    return env | {"TCPX_CUDA_LIBRARY": fake, "TCPXEMU_MEM": "cuda-host-bounce",
                  "TCPX_PAIRING": "0", "TCPX_GPUDIRECT_SAME_HOST": "1"}


@pytest.fixture(name="a3")
def fixture_a3(gpus, tmp_path_factory):
    """An A3 host: flows are steered where a NIC and a GPU belong together, and nowhere else."""
    gpus.pop("TCPX_PAIRING")
    return gpus | {"TCPXEMU_STEER": "strict", "FAKECUDA_DEVICES": "8",
                   "FAKECUDA_PCI": "04,05,0a,0b,84,85,8a,8b",
                   "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX": str(tmp_path_factory.mktemp("rxdm"))}


def counted(tmp_path):
    """What the emulator counted in every process."""
    stats = [json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()]
    assert stats
    return {name: sum(one[name] for one in stats)
            for name in ("received_messages", "received_bytes", "pages_in_use", "violations")}


def wrong_of(done):
    """The last column of each row."""
    return [line.split()[-1] for line in done.stdout.splitlines()
            if re.match(r" +\d+[KMG]? +\d+ ", line)]


@pytest.mark.parametrize("level", [None, "warn"])
@pytest.mark.parametrize("way", ["plugin", "tcp"])
def test_a_killed_serve_is_one_line(serve, tool, plugin, env, way, level):
    """Its channels end one after the other. The line names the host as the user does; the
    library's warning, with the name that the peer gave itself, comes where it is asked for."""
    env = env | CHUNK | ({"TCPX_LOG": level} if level else {})
    by = ["--transport", "plugin", "--plugin", plugin] if way == "plugin" else []
    server = serve(*by, env=env)
    client = tool.start("perf", server.address, *(by or ["--transport", "tcp"]), "--size", "1M",
                        "--time", "600", "--working-set", "16M", env=env)
    while not re.match(r"# +size", client.stdout.readline().decode()):
        assert client.poll() is None, client.stderr.read()
    # The kernel closes the sockets of a killed process one by one. The client stands still until
    # all are closed, or a plugin channel may fail before the peer can be known to be dead.
    client.send_signal(signal.SIGSTOP)
    server.process.kill()
    server.process.wait()
    client.send_signal(signal.SIGCONT)
    _, err = client.communicate(timeout=100)
    said = err.decode().splitlines()
    warned = [line for line in said if " WARN " in line]
    assert len(warned) == (1 if level else 0), err.decode()
    assert all("(all channels ended)" in line for line in warned)
    ended = [line for line in said if re.search("closed the connection|reset by peer", line)]
    assert len(ended) == len(warned) + 1, err.decode()
    assert ended[-1].startswith(f"tcpx perf: stopped: {server.address}: channel ")
    assert ended[-1].count(server.address) == 1 and "peer '" not in ended[-1]


def perf_to(serve, tool, *args, env):
    """What perf says against a serve, which goes with it."""
    done = tool("perf", serve.addresses[0], *args, *ROW, env=env)
    serve.process.terminate()
    serve.process.communicate()
    return done


@pytest.mark.parametrize("op", ["write", "read"])
def test_host_memory_goes_as_messages(tool, plugin, env, tmp_path, op):
    done = tool("perf", "--loopback", "--transport", "plugin", "--plugin", plugin, "--op", op,
                "--nic", "eth2", "--plugin-channels", "3", *ROW, env=env | CHUNK)
    assert done.returncode == 0, done.stderr
    assert wrong_of(done) == ["0", "0"]
    assert "# path: transport plugin " in done.stdout
    assert f"# messages: plugin {plugin}  NIC eth2  channels 3 " in done.stdout
    seen = counted(tmp_path)
    assert seen["received_bytes"] >= 6 * (65536 + 300000)
    assert (seen["pages_in_use"], seen["violations"]) == (0, 0)


def test_gpu_memory_with_the_recipe(tool, plugin, gpus, tmp_path):
    done = tool("perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                "cuda:0", "--remote-mem", "cuda:1", "--unpack", "d2d", "--verbose", *ROW,
                env=gpus)
    assert done.returncode == 0, done.stderr
    assert wrong_of(done) == ["0", "0"]
    assert "# NCCL_DYNAMIC_CHUNK_SIZE=524288  (one chunk per message" in done.stderr
    assert "NOTE" not in done.stdout
    seen = counted(tmp_path)
    assert seen["received_bytes"] >= 6 * (65536 + 300000)
    assert (seen["pages_in_use"], seen["violations"]) == (0, 0)


@pytest.mark.parametrize("op, steered, code", [("read", 1, 0), ("read", 0, 1), ("write", 0, 0)])
def test_packets_into_gpu_memory_are_counted(tool, plugin, gpus, tmp_path, op, steered, code):
    """The counter that stays where it was, though bytes came, fails the run."""
    played = tmp_path / "played"
    shown = played if steered else tmp_path / "still"
    for folder in {played, shown}:
        folder.mkdir()
    for nic in range(1, 5):
        (shown / f"eth{nic}").write_text("rx_devmem_pkts: 7\n", encoding="utf-8")
    more = {"TCPXEMU_DEVMEM_DIR": str(played), "TCPX_DEVMEM_STATS": f"{shown}/%s",
            "TCPXEMU_STATS": ""}
    done = tool("perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                "cuda:0", "--remote-mem", "cuda:1", "--unpack", "d2d", "--op", op, *ROW,
                env=gpus | more)
    assert done.returncode == code, done.stderr
    grown = re.search(r"^# rx_devmem_pkts of this end: eth1 \+(\d+)  eth2 \+0", done.stdout, re.M)
    assert (int(grown[1]) > 0) == bool(steered)
    assert ("no NIC counted a packet" in done.stderr) == bool(code)


@pytest.mark.parametrize("nic", [1, 2, 3, 4])
def test_every_nic_with_its_gpu(tool, plugin, a3, tmp_path, nic):
    """Of the four only this one counts packets, at the end that receives."""
    gpu = 2 * (nic - 1)
    played = tmp_path / "played"
    played.mkdir()
    more = {"TCPXEMU_DEVMEM_DIR": str(played), "TCPX_DEVMEM_STATS": f"{played}/%s"}
    done = tool("perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                f"cuda:{gpu}", "--remote-mem", f"cuda:{gpu + 1}", "--nic", f"eth{nic}",
                "--unpack", "d2d", "--op", "read", *ROW,
                env=a3 | more | {"TCPXEMU_STATS": ""})
    assert done.returncode == 0, done.stderr
    assert wrong_of(done) == ["0", "0"]
    assert f"NIC eth{nic} " in done.stdout
    grown = re.search(r"^# rx_devmem_pkts of this end: (.*)$", done.stdout, re.M)[1]
    counts = {int(k): int(n) for k, n in re.findall(r"eth(\d) \+(\d+)", grown)}
    assert counts.pop(nic) > 0 and not any(counts.values()), grown


def test_a_foreign_nic_is_refused_with_its_owner_and_what_to_do(tool, plugin, a3, tmp_path):
    """Its own GPUs are hidden, so there is no relay; with them the same line works."""
    line = ["perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
            "cuda:0", "--remote-mem", "cuda:0", "--nic", "eth2", "--unpack", "d2d", *ROW]
    done = tool(*line, env=a3 | {"CUDA_VISIBLE_DEVICES": "0,1"})
    assert done.returncode == 1
    assert ("GPU 0000:04:00.0 does not receive through NIC 0000:0c:00.0: RxDM steers its flows to "
            "0000:06:00.0 (eth1)") in done.stderr
    assert "use --nic eth1 for this GPU; TCPX_PAIRING=off tries it anyway" in done.stderr
    assert not wrong_of(done)
    assert counted(tmp_path)["received_messages"] == 0
    done = tool(*line, env=a3)
    assert done.returncode == 0, done.stderr
    assert wrong_of(done) == ["0", "0"]
    assert "  NIC eth2  relay eth2  unpack d2d  channels " in done.stdout
    assert "# messages: NIC eth2  relay eth2: " in done.stderr  # of the other end
    assert counted(tmp_path)["violations"] == 0


def test_a_foreign_nic_taken_by_force_ends_the_run_and_is_named(tool, plugin, a3):
    done = tool("perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                "cuda:0", "--remote-mem", "cuda:0", "--nic", "eth2", "--unpack", "d2d", *ROW,
                env=a3 | {"TCPX_PAIRING": "off"})
    assert done.returncode != 0
    assert not wrong_of(done)
    assert "NIC eth2 is used for GPU 0 because TCPX_PAIRING is off: GPU 0000:04:00.0" in done.stderr
    assert "VIOLATION no-cmsg: NIC eth2" in done.stderr


def test_chunks_in_turn_and_json(tool, plugin, gpus):
    done = tool.perf("--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                     "cuda", "--remote-mem", "cuda", "--unpack", "host", "--chunk", "64K,1M",
                     "--size", "1M", "--iters", "4", "--working-set", "2M", "--timeout", "100",
                     env=gpus)
    if done.returncode == 2 and "without jansson" in done.stderr:
        pytest.skip("built without jansson")
    assert done.returncode == 0, done.stderr
    counts = done.json["message_channels"]
    assert [(row["path"], row["nic"]) for row in counts] == [(i // 4, "eth1") for i in range(8)]
    for row in counts:
        assert row["sends_posted"] == row["sends_done"]
        assert row["posted"] == row["done"] == row["unpacked"] == row["consumed"]
    assert sum(row["sends_posted"] for row in counts if row["path"] == 0) >= 4 * 16
    paths = [row["path"] for row in done.json["results"]]
    assert [path["chunk"] for path in paths] == [65536, 1048576]
    assert {(path["transport"], path["plugin"], path["message_channels"])
            for path in paths} == {("gpudirect", plugin, 4)}
    assert done.json["verdict"] == "ok"
    jsonschema = pytest.importorskip("jsonschema")
    text = (TOP / "docs/schema/perf.schema.json").read_text(encoding="utf-8")
    jsonschema.Draft7Validator(json.loads(text)).validate(done.json)


def test_nothing_unpacked_is_wrong_data(tool, plugin, gpus):
    done = tool("perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                "cuda", "--remote-mem", "cuda", "--unpack", "none", *ROW, env=gpus)
    assert done.returncode == 4
    assert "# INVALID DATA: unpack none" in done.stdout


def host_recv(tool, plugin, env, devices, *more):
    env = env | {"FAKECUDA_PCI": "04,05,0a,0b", "FAKECUDA_DEVICES": devices,
                 "TCPXEMU_STEER": "strict"}
    env.pop("TCPX_PAIRING")
    return tool("perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                "cuda:0", "--remote-mem", "cuda:0", *more, *ROW, env=env)


@pytest.mark.parametrize("op, env, option", [
    ("write", {}, ["--unpack", "host-recv"]), ("read", {}, ["--unpack", "host-recv"]),
    ("read", {"UCCL_TCPX_HOST_RECV_DEBUG": "1"}, [])])
def test_unsteered_packets_come_to_host_memory(tool, plugin, gpus, tmp_path, op, env, option):
    """Listened with another NIC's GPU, so that no rule steers them; no page of the pool is used."""
    still = tmp_path / "still"
    still.mkdir()
    for nic in range(1, 5):
        (still / f"eth{nic}").write_text("rx_devmem_pkts: 7\n", encoding="utf-8")
    done = host_recv(tool, plugin, gpus | env | {"TCPX_DEVMEM_STATS": f"{still}/%s",
                                                 "TCPXEMU_STATS": f"{tmp_path}/stats-%p"},
                     "4", "--op", op, *option)
    assert done.returncode == 0, done.stderr
    assert wrong_of(done) == ["0", "0"]
    stats = [json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.glob("stats-*")]
    assert sum(one["received_bytes"] for one in stats) >= 6 * (65536 + 300000)
    assert sum(one["pages_peak"] for one in stats) == 0


def test_the_predecessors_name_for_that(tool, plugin, gpus):
    done = host_recv(tool, plugin, gpus | {"UCCL_TCPX_HOST_RECV_DEBUG": "1"}, "2")
    assert done.returncode == 1
    assert "host-recv: NIC eth1 steers flows of every visible GPU" in done.stderr
    assert "make a GPU of another NIC visible" in done.stderr


def test_the_users_value_wins_and_is_refused_with_the_line(tool, plugin, gpus):
    done = tool("perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                "cuda", "--remote-mem", "cuda", *ROW, env=gpus | {"NCCL_USE_DMA_BUF": "0"})
    assert done.returncode == 1
    assert "export NCCL_USE_DMA_BUF=1" in done.stderr
    assert not done.stdout


def test_the_library_sets_nothing_by_itself(tool, plugin, env):
    done = tool("serve", "--transport", "plugin", "--plugin", plugin, "--port", 0, env=env)
    assert done.returncode == 1
    assert "export NCCL_DYNAMIC_CHUNK_SIZE=524288" in done.stderr


def test_a_serve_without_the_plugin_is_not_measured_over_tcp(tool, plugin, env):
    done = perf_to(Serve(tool), tool, "--transport", "plugin", "--plugin", plugin, env=env | CHUNK)
    assert done.returncode == 1
    assert "no channel of messages" in done.stderr
    assert wrong_of(done) == []


def test_the_same_host_is_refused_with_reason_and_next_step(tool, plugin, gpus):
    gpus.pop("TCPX_GPUDIRECT_SAME_HOST")
    done = tool("perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                "cuda:0", "--remote-mem", "cuda:1", "--unpack", "d2d", *ROW, env=gpus)
    assert done.returncode == 1
    assert "the peer is on this host, where a NIC steers nothing" in done.stderr
    assert "try TCPX_GPUDIRECT_SAME_HOST=1" in done.stderr
    assert "no channel of messages" in done.stderr


def test_a_driver_that_exports_no_memory_is_named(tool, plugin, gpus):
    """The plugin would go on with descriptor 0, so it gets no memory, and perf measures nothing."""
    gpus["FAKECUDA_FAIL"] = "cuMemGetHandleForAddressRange:0:1"
    done = tool("perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                "cuda:0", "--remote-mem", "cuda:1", "--unpack", "d2d", *ROW, env=gpus)
    assert done.returncode == 1
    assert "everything would go over tcp" in done.stderr
    assert "cuMemGetHandleForAddressRange: CUDA_ERROR_INVALID_VALUE" in done.stderr
    assert wrong_of(done) == []


def test_memory_that_goes_over_tcp_is_named(tool, plugin, gpus):
    """Buffers of 512 KiB begin inside a page of the stand-in, and here it exports none of those."""
    gpus["FAKECUDA_COVER_STRICT"] = "1"
    done = tool("perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                "cuda:0", "--remote-mem", "cuda:1", "--unpack", "d2d", "--size", "64K",
                "--iters", "6", "--working-set", "512K", "--timeout", "100", env=gpus)
    assert done.returncode == 0, done.stderr
    assert wrong_of(done) == ["0"]
    said = [line for line in done.stderr.splitlines() if "goes over tcp, not by the plugin" in line]
    assert said and all("WARN the region of 524288 bytes" in line for line in said), done.stderr
    assert "no channel of messages was used" in done.stdout


def test_ends_that_cut_differently_agree_on_none(tool, plugin, env):
    serve = Serve(tool, "--transport", "plugin", "--plugin", plugin,
                  env=env | {"NCCL_DYNAMIC_CHUNK_SIZE": "262144"})
    done = perf_to(serve, tool, "--transport", "plugin", "--plugin", plugin, env=env | CHUNK)
    assert done.returncode == 1
    assert "no channel of messages" in done.stderr


def test_each_chunk_of_a_list_is_the_plugins(tool, plugin, gpus):
    """A plugin reads its chunk once, so each row has a plugin of its own, at both ends."""
    done = tool("perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
                "cuda:0", "--remote-mem", "cuda:1", "--unpack", "d2d", "--verbose", "--chunk",
                "64K,256K", "--size", "1M", "--iters", "2", "--working-set", "2M", env=gpus)
    assert done.returncode == 0, done.stderr
    assert wrong_of(done) == ["0"] * 2
    set_here = re.findall(r"^# NCCL_DYNAMIC_CHUNK_SIZE=(\d+)  ", done.stderr, re.M)
    assert set_here == ["65536", "65536", "262144", "262144"] or \
        set_here == ["65536", "262144"], done.stderr


def test_a_list_of_chunks_ends_at_the_first_failure(tool, plugin, gpus, with_json):
    args = ["perf", "--loopback", "--transport", "gpudirect", "--plugin", plugin, "--mem",
            "cuda:0", "--remote-mem", "cuda:1", "--unpack", "d2d", "--chunk", "64K,256K",
            "--size", "1M", "--iters", "2", "--working-set", "2M", "--inject-fault"]
    done = tool(*args, "--json", "-", env=gpus)
    assert done.returncode == 4
    found = json.loads(done.stdout)
    assert found["verdict"] == "wrong_data"
    assert [row["path"]["chunk"] for row in found["results"]] == [65536]


@pytest.mark.parametrize("above, messages", [("0", True), ("22", True), ("23", False),
                                             (None, False)])
@pytest.mark.parametrize("op", ["write", "read", "send"])
def test_few_bytes_go_as_messages_where_asked(tool, plugin, env, tmp_path, op, above, messages):
    more = {"TCPX_MESSAGE_ABOVE": above} if above else {}
    done = tool("perf", "--loopback", "--transport", "plugin", "--plugin", plugin, "--op", op,
                "--size", "23", "--iters", "4", "--working-set", "4K", env=env | CHUNK | more)
    assert done.returncode == 0, done.stderr
    assert wrong_of(done) == ["0"]
    found = counted(tmp_path)
    assert (found["received_messages"] > 0) == messages
    assert found["pages_in_use"] == found["violations"] == 0


def test_both_ends_by_hand(tool, plugin, env):
    serve = Serve(tool, "--transport", "plugin", "--plugin", plugin, env=env | CHUNK)
    done = perf_to(serve, tool, "--transport", "tcp,plugin", "--plugin", plugin, env=env | CHUNK)
    assert done.returncode == 0, done.stderr
    assert wrong_of(done) == ["0"] * 4


def test_what_went_over_tcp_alone_is_said(tool, plugin, gpus, tmp_path):
    """Messages carry memory of the GPU that is named, and the peer's is another one's."""
    serve = Serve(tool, "--transport", "gpudirect", "--plugin", plugin, "--gpu", "0",
                  "--unpack", "d2d", "--once", env=gpus)
    done = tool("perf", serve.addresses[0], "--transport", "gpudirect", "--plugin", plugin,
                "--mem", "cuda:0", "--remote-mem", "cuda:1", "--unpack", "d2d", *ROW, env=gpus)
    code, _, err = serve.wait()
    assert (done.returncode, code) == (0, 0), done.stderr + err
    assert "# NOTE: no channel of messages was used, all bytes went over tcp: " in done.stdout
    assert counted(tmp_path)["received_messages"] == 0


COUNTS = re.compile(r"^# channel \d+, eth3: sends posted (\d+), done (\d+); receives posted (\d+), "
                    r"done (\d+), unpacked (\d+), consumed (\d+)$", re.M)


def test_what_one_end_sends_the_other_gives_back(tool, plugin, env):
    serve = Serve(tool, "--transport", "plugin", "--plugin", plugin, "--nic", "eth3", "--verbose",
                  "--once", env=env | CHUNK)
    done = tool("perf", serve.addresses[0], "--transport", "plugin", "--plugin", plugin, "--nic",
                "eth3", "--verbose", *ROW, env=env | CHUNK)
    code, _, err = serve.wait()
    assert (done.returncode, code) == (0, 0), done.stderr + err
    here, there = COUNTS.findall(done.stdout), COUNTS.findall(err)
    assert len(here) == 4
    for ours, theirs in zip(here, there, strict=True):
        sends, sent, *received = ours
        assert sends == sent and set(received) == {"0"}
        assert theirs == ("0", "0", sends, sends, sends, sends)
    assert sum(int(ours[0]) for ours in here) >= 12


def chunks_of(side, text):
    return re.findall(rf"\[PERF\]\[{side}\] (chunk_idx=\d+ tag=\d+ size=\d+ offset=\d+)", text)


def test_each_chunk_is_traced_on_both_ends(tool, plugin, env):
    trace = env | CHUNK | {"TCPX_LOG": "trace"}
    serve = Serve(tool, "--transport", "plugin", "--plugin", plugin, "--plugin-channels", "1",
                  "--once", env=trace)
    done = tool("perf", serve.addresses[0], "--transport", "plugin", "--plugin", plugin,
                "--plugin-channels", "1", "--size", "1M", "--iters", "2", "--working-set", "2M",
                "--timeout", "100", env=trace)
    code, _, err = serve.wait()
    assert (done.returncode, code) == (0, 0), done.stderr + err
    sent = chunks_of("CLIENT", done.stderr)
    assert sent == chunks_of("SERVER", err)
    assert sent[:2] == ["chunk_idx=0 tag=0 size=524288 offset=0",
                        "chunk_idx=1 tag=1 size=524288 offset=524288"]


@pytest.mark.parametrize("args, words", [
    (["--transport", "plugin", "--plugin", "/none.so"], "no plugin at /none.so"),
    (["--transport", "plugin", "--nic", "eth9"], "has no NIC eth9; it has eth1 eth2"),
])
def test_what_is_not_there_is_named(tool, plugin, env, args, words):
    done = tool("perf", "--loopback", "--plugin", plugin, *args, *ROW, env=env | CHUNK)
    assert done.returncode == 1
    assert words in done.stderr


@pytest.mark.parametrize("args, words", [
    (["--transport", "gpudirect"], "carries GPU memory"),
    (["--transport", "tcp", "--nic", "eth1"], "--nic is for --transport plugin or gpudirect"),
    (["--transport", "plugin", "--unpack", "none"], "--unpack is for --transport gpudirect"),
    (["--transport", "plugin", "--chunk", "8K"], "messages have 16384 bytes or more"),
    (["--transport", "gpudirect", "--mem", "cuda:1", "--remote-mem", "cuda", "--gpu", "0"],
     "is not the GPU of --mem"),
    (["--transport", "plugin,gpudirect"], "different environments"),
    (["--transport", "plugin", "--plugin-channels", "64"], "out of range"),
    (["--transport", "gpudirect", "--unpack", "magic"], "--unpack"),
])
def test_wrong_usage(tool, args, words):
    done = tool("perf", "--loopback", *args)
    assert done.returncode == 2
    assert words in done.stderr


def test_the_demo(build):
    done = subprocess.run([TOP / "scripts/demo-tcpx.sh", build, "--size", "64K", "--iters", "8",
                           "--working-set", "1M"], capture_output=True, text=True, timeout=120,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^emulator: \d+ messages, pages in use 0, violations 0$", done.stdout, re.M)
    assert done.stdout.count("channels 4  (up to 16K: tcp)") == 4
