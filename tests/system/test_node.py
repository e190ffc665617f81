# SPDX-License-Identifier: Apache-2.0
"""tcpx node: two ranks of several GPUs; what they print, and what each says when one fails."""
import json
import os
import pathlib
import pty
import random
import re
import signal
import socket
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
HANG = 120
SMALL = ["--mem", "host", "--size", "64K", "--iters", "4", "--memory", "128K"]
STAGES = ["GPUs initialised {0}/{0}", "channels created {1}/{1}", "channels accepted {1}/{1}",
          "memory registered {1}/{1}", "=== ALL GPUs READY ==="]
HOST_STAGES = [STAGES[0] + " (host memory in place of each GPU)", *STAGES[1:]]


def port_base():
    """Below the ports that the kernel gives away. The control's port was free a moment ago; those
    of GPUs move on when they are taken."""
    while True:
        port = random.randrange(12000, 32000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port + 1


def ends_of(processes):
    """Their results in order; none is left when one hangs."""
    done = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=HANG)
            done.append(subprocess.CompletedProcess([], process.returncode, out.decode(),
                                                    err.decode()))
    finally:
        for process in processes[len(done):]:
            process.kill()
            process.communicate()
    return done


class Ranks:
    """A server and a client of tcpx node; .done are their results, the server's first."""

    def __init__(self, tool, *args, server=(), client=(), env=None, command="node"):
        base = ["--port-base", port_base(), *args]
        self.processes = [tool.start(command, *base, *server, env=env),
                          tool.start(command, *base, *client, "127.0.0.1", env=env)]
        self.done = []

    def end(self):
        self.done = ends_of(self.processes)
        return self.done


def rows(text):
    """(rank, GPU, links, channels, wrong) of each line of the table."""
    found = re.findall(r"^ +(\d+) \S+ +(\d+)  .* (\d+) +(\d+) +[\d.]+ +[\d.]+ +(\d+)$", text, re.M)
    return [tuple(map(int, row)) for row in found]


@pytest.fixture(scope="session")
def build(tool):
    """The folder that the tool was built in."""
    at = pathlib.Path(tool.path).resolve().parent
    for folder in (at, at.parent, TOP / "build"):
        if (folder / "emu/tcpxemu/libnccl-net-tcpxemu.so").exists():
            return folder
    pytest.fail("no emulator beside the tool")


@pytest.fixture(name="a3")
def fixture_a3(build, tmp_path):
    """The environment of an A3 host that is played: 8 GPUs, 4 NICs, flows are steered."""
    sysfs = tmp_path / "sys"
    sysfs.mkdir()
    subprocess.run([TOP / "scripts/sysfs-unpack.py", TOP / "tests/record/a3-high/sysfs.txt",
                    sysfs], check=True)
    for name in ("stats", "devmem"):
        (tmp_path / name).mkdir()
    return {"TCPX_SYSFS": str(sysfs), "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX": str(sysfs),
            "TCPX_CUDA_LIBRARY": str(build / "emu/fakecuda/libfakecuda.so"),
            "FAKECUDA_DEVICES": "8", "FAKECUDA_PCI": "04,05,0a,0b,84,85,8a,8b",
            "TCPXEMU_MEM": "cuda-host-bounce", "TCPXEMU_STEER": "strict",
            "TCPXEMU_POOL_BYTES": "16777216", "TCPXEMU_STATS": f"{tmp_path}/stats/%p",
            "TCPXEMU_DEVMEM_DIR": f"{tmp_path}/devmem",
            "TCPX_DEVMEM_STATS": f"{tmp_path}/devmem/%s", "TCPX_GPUDIRECT_SAME_HOST": "1"}


@pytest.fixture(name="messages")
def fixture_messages(build):
    return ["--transport", "gpudirect", "--unpack", "d2d", "--plugin",
            str(build / "emu/tcpxemu/libnccl-net-tcpxemu.so"), "--size", "256K", "--iters", "4",
            "--memory", "512K"]


def counted(tmp_path):
    stats = [json.loads(path.read_text(encoding="utf-8"))
             for path in (tmp_path / "stats").iterdir()]
    assert stats
    return {name: sum(one[name] for one in stats)
            for name in ("received_messages", "pages_in_use", "violations")}


def test_every_stage_is_counted_and_every_byte_compared(tool):
    done = Ranks(tool, *SMALL, "--gpus", "0-2", "--transport", "tcp").end()
    for one in done:
        assert one.returncode == 0, one.stderr
        assert one.stdout.splitlines()[:5] == [line.format(3, 24) for line in HOST_STAGES]
    table = rows(done[0].stdout)
    assert table == [(rank, gpu, 1, 8, 0) for rank in (0, 1) for gpu in (0, 1, 2)]
    assert "every byte compared" in done[0].stdout
    assert not rows(done[1].stdout)


@pytest.mark.parametrize("op", ["write", "read", "send"])
@pytest.mark.parametrize("peers", ["same", "all"])
def test_ways(tool, op, peers):
    done = Ranks(tool, *SMALL, "--gpus", "0-1", "--op", op, "--peers", peers, "--channels",
                 "4").end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    links, channels = (2, 4) if peers == "all" else (1, 4)
    assert rows(done[0].stdout) == [(rank, gpu, links, channels, 0)
                                    for rank in (0, 1) for gpu in (0, 1)]


def test_local_is_taken_or_an_error(tool):
    """The same words as of perf; on one host it is there, beside --no-local it is refused."""
    done = Ranks(tool, *SMALL, "--gpus", "0-1", "--transport", "local").end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert len(re.findall(r"^ +\d+ \S+ +\d+ .* local ", done[0].stdout, re.M)) == 4
    for one in Ranks(tool, *SMALL, "--gpus", "0", "--transport", "local", "--no-local").end():
        assert one.returncode == 2
        assert "--transport local and --no-local exclude each other" in one.stderr


def test_pairs_of_a_file(tool, tmp_path):
    pairs = tmp_path / "pairs"
    pairs.write_text("# who with whom\n0:0 1:1\n1:0 0:1  # the other way round\n\n0:0 1:2\n",
                     encoding="utf-8")
    done = Ranks(tool, *SMALL, "--gpus", "0-2", "--peers", pairs).end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert [row[2] for row in rows(done[0].stdout)] == [2, 1, 0, 1, 1, 1]


@pytest.mark.parametrize("text, words", [
    ("0:0\n", "pairs:1: '0:0' is not 'RANK:GPU RANK:GPU'"),
    ("\n0:0 1:7\n", "pairs:2: there is no GPU 7 of rank 1"),
    ("0:0 0:1\n", "pairs a rank with itself")])
def test_wrong_pairs(tool, tmp_path, text, words):
    pairs = tmp_path / "pairs"
    pairs.write_text(text, encoding="utf-8")
    done = Ranks(tool, *SMALL, "--gpus", "0-1", "--peers", pairs).end()
    assert [one.returncode for one in done] == [1, 1]
    assert any(words in one.stderr for one in done), done # the other's may be cut


def test_json(tool):
    done = Ranks(tool, *SMALL, "--gpus", "0,5", server=["--quiet", "--json", "-"]).end()
    if "without jansson" in done[0].stderr:
        pytest.skip("built without jansson")
    text = done[0].stdout
    found = json.loads(text[text.index("\n{\n") if "\n{\n" in text else text.index("{"):])
    assert (found["schema"], found["tool"], found["verdict"]) == (1, "node", "ok")
    assert [gpu["gpu"] for rank in found["ranks"] for gpu in rank["gpus"]] == [0, 5, 0, 5]
    for rank in found["ranks"]:
        roles = [thread["role"] for thread in rank["threads"]]
        assert {"main", "worker", "control", "priority"} <= set(roles)
        assert all(thread["cpus"] for thread in rank["threads"])
        for gpu in rank["gpus"]:
            assert gpu["bytes_out"] == gpu["bytes_in"] == 4 * 65536
            assert gpu["checked"] >= 4 * 65536 and gpu["wrong"] == 0
            assert gpu["rate_out"] > 0


def test_plain_sockets_beside(tool):
    done = Ranks(tool, *SMALL, "--gpus", "0-2", "--peers", "all", "--ceiling").end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert re.search(r"^ceiling [\d.]+ GB/s of as many plain sockets: the sum is [\d.]+ % of it$",
                     done[0].stdout, re.M)


def test_lines_of_the_predecessor(tool):
    for one in Ranks(tool, *SMALL, "--gpus", "0-1", "--perf-lines").end():
        assert len(re.findall(r"^\[PERF\] Avg \(4 iter\): [\d.]+ ms, BW: [\d.]+ GB/s$", one.stdout,
                              re.M)) == 2


def test_a_rank_that_never_comes(tool):
    done = tool("node", *SMALL, "--gpus", "0", "--timeout", "1", "--port-base", port_base())
    assert done.returncode == 124
    assert "rank 1 (never heard of) did not come to stage 'hello' within 1 s" in done.stderr


@pytest.mark.parametrize("command", ["node", "mesh"])
def test_rank_0_says_what_to_type_on_the_other_host(tool, command):
    base = port_base()
    run = [command, "--mem", "host", "--gpus", "0", "--timeout", "1", "--port-base", base]
    first = tool(*run).stderr.splitlines()[0]
    assert first.startswith(
        f"tcpx {command}: waiting for rank 1 at 127.0.0.1 port {base - 1}; on this host run: "
        f"tcpx {command} 127.0.0.1:{base}, with the options of this one")
    assert "--bind and --key" in first
    assert "waiting" not in tool(*run, "--quiet").stderr


@pytest.mark.parametrize("text, words", [
    (None, "is not same, all or a file: No such file"),
    ("0:0 1:0\n1 2\n", "plan:2: '1 2' is not 'RANK:GPU RANK:GPU'"),
    ("0:0 2:0\n", "plan:1: there is no rank 2 of 2"),
    ("1:0 1:1\n", "plan:1: '1:0 1:1' pairs a rank with itself")])
@pytest.mark.parametrize("host", [[], ["127.0.0.1"]])
def test_a_wrong_plan_costs_no_wait(tool, tmp_path, text, words, host):
    """It is found before anybody is met: nobody listens, and nobody is dialled."""
    plan = tmp_path / "plan"
    if text:
        plan.write_text(text, encoding="ascii")
    done = tool("node", *SMALL, "--gpus", "0", "--peers", plan, "--port-base", port_base(), *host)
    assert done.returncode == 1 and words in done.stderr
    assert len(done.stderr.splitlines()) == 1 and "this rank cannot start" in done.stderr


@pytest.mark.parametrize("command, words", [("node", r"moving memory, window 1 of 1"),
                                            ("mesh", r"measuring links, round 2 of 2")])
def test_progress_on_a_terminal(tool, command, words):
    ours, theirs = pty.openpty()
    base = ["--mem", "host", "--gpus", "0", "--size", "64K", "--iters", "4", "--port-base",
            port_base()]
    server = subprocess.Popen([tool.path, command, *map(str, base)], stderr=theirs,
                              stdout=subprocess.DEVNULL, env=tool.environment())
    client = tool(command, *base, "127.0.0.1")
    assert (server.wait(HANG), client.returncode) == (0, 0), client.stderr
    os.close(theirs)
    text = os.read(ours, 65536).decode()
    os.close(ours)
    assert re.search(words, text) and text.endswith("\r\033[K"), text
    assert "of 1" not in client.stderr and "round" not in client.stderr


def test_nobody_to_meet(tool):
    done = tool("node", *SMALL, "--gpus", "0", "--timeout", "1", "--port-base", port_base(),
                "127.0.0.1")
    assert done.returncode == 1
    assert "no control link" in done.stderr and "refused" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name, first, second", [
    ("--op", "write", "read"), ("--transport", "auto", "tcp"), ("--mem", "host", "auto"),
    ("--channels", "8", "7"), ("--size", "65536", "65537"), ("--iters", "4", "44"),
    ("--memory", "131072", "131073"), ("--ceiling", "no", "yes")])
def test_other_options(tool, name, first, second):
    """Of rank 0, as the tests have it, and of rank 1."""
    option = [name] if second == "yes" else [name, second]
    done = Ranks(tool, *SMALL, "--gpus", "0", "--no-local", client=option).end()
    assert [one.returncode for one in done] == [1, 1]
    words = rf"rank 1 \(.*\) was started with {name} {second}, rank 0 \(.*\) with {name} {first}\b"
    assert any(re.search(words, one.stderr, re.M) for one in done), done


@pytest.mark.parametrize("peers", ["same", "all"])
def test_a_word_is_no_file(tool, tmp_path, peers):
    """Whatever lies in the folder that a rank is started in."""
    (tmp_path / peers).write_text("1:0 0:0\n", encoding="ascii")
    args = [*SMALL, "--gpus", "0", "--peers", peers, "--port-base", port_base()]
    server = tool.start("node", *args)
    client = tool.shell(f"cd '{tmp_path}' && exec \"$0\" node "
                        f"{' '.join(map(str, args))} 127.0.0.1")
    err = server.communicate(timeout=HANG)[1].decode()
    assert (server.returncode, client.returncode) == (0, 0), err + client.stderr


def test_no_peer_has_the_number(tool):
    for one in Ranks(tool, *SMALL, server=["--gpus", "0-1"], client=["--gpus", "2-3"]).end():
        assert one.returncode == 1
        assert "has a peer: --peers same" in one.stderr


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_dies(tool, victim):
    """Between READY and the end, which never comes."""
    ranks = Ranks(tool, "--mem", "host", "--gpus", "0-1", "--size", "64K", "--iters", "100000000")
    line = b""
    while b"READY" not in line:
        line = ranks.processes[victim].stdout.readline()
        assert line
    ranks.processes[victim].send_signal(signal.SIGKILL)
    other = ranks.end()[1 - victim]
    assert other.returncode == 1
    assert re.search(rf"rank {victim} \(.*\) is gone, stage '|transfer with rank {victim} \(.*\) "
                     r"GPU \d: ", other.stderr), other.stderr


def test_a_rank_that_is_interrupted(tool):
    ranks = Ranks(tool, "--mem", "host", "--gpus", "0", "--size", "64K", "--iters", "100000000")
    while b"READY" not in ranks.processes[1].stdout.readline():
        pass
    ranks.processes[1].send_signal(signal.SIGINT)
    done = ranks.end()
    assert [one.returncode for one in done] == [1, 1]
    assert re.search(r"rank 1 \(.*\), stage '.*': interrupted", done[0].stderr), done[0].stderr


def test_the_control_port_is_taken(tool):
    base = port_base()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", base - 1))
        taken.listen()
        done = tool("node", *SMALL, "--gpus", "0", "--port-base", base)
    assert done.returncode == 1
    assert "no control link" in done.stderr and str(base - 1) in done.stderr


@pytest.mark.parametrize("args, words", [
    (["--gpus", "3-1"], "'3-1' is not a list"), (["--gpus", "x"], "'x' is not a list"),
    (["--gpus", "0,0"], "GPU 0 twice"), (["--gpus", "0-99"], "more than 64 GPUs"),
    (["--op", "push"], "op"), (["--channels", "0"], "channels"), (["[::1"], "[::1")])
def test_wrong_options(tool, args, words):
    done = tool("node", *args)
    assert done.returncode == 2
    assert words in done.stderr and not done.stdout


def test_fewer_gpus_than_asked(tool, a3):
    done = Ranks(tool, "--gpus", "0-8", "--mem", "cuda", "--timeout", "1", env=a3).end()
    for one in done:
        assert one.returncode == 1
        assert re.search("sees 8 GPUs|no control link", one.stderr), one.stderr


def test_a_nic_that_is_not_there(tool):
    for one in Ranks(tool, *SMALL, "--gpus", "0", "--nics", "none0", "--transport", "tcp",
                     "--timeout", "1").end():
        assert one.returncode == 1
        assert re.search("this host has no none0|no control link", one.stderr), one.stderr


@pytest.mark.parametrize("op, peers", [("write", "same"), ("read", "same"), ("send", "same"),
                                       ("write", "all")])
def test_eight_gpus_over_the_emulator(tool, a3, messages, tmp_path, op, peers):
    done = Ranks(tool, *messages, "--op", op, "--peers", peers, env=a3).end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert done[0].stdout.splitlines()[:5] == [line.format(8, 64) for line in STAGES]
    links = 8 if peers == "all" else 1
    assert rows(done[0].stdout) == [(rank, gpu, links, 8, 0) for rank in (0, 1)
                                    for gpu in range(8)]
    for gpu, nic in enumerate(["eth1", "eth1", "eth2", "eth2", "eth3", "eth3", "eth4", "eth4"]):
        assert re.search(rf"^ +0 \S+ +{gpu}  \S+ +{nic} +plugin ", done[0].stdout, re.M)
    assert "relay" not in done[0].stdout
    for nic in ("eth1", "eth2", "eth3", "eth4"):
        assert re.search(rf"rx_devmem_pkts of rank 0: .*{nic} \+[1-9]", done[0].stdout)
    total = counted(tmp_path)
    assert total["received_messages"] > 0
    assert (total["pages_in_use"], total["violations"]) == (0, 0)


def test_a_foreign_nic_is_relayed(tool, a3, messages):
    done = Ranks(tool, *messages, "--gpus", "0,2", "--nics", "eth2", env=a3).end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr
    assert re.findall(r"^ +(\d) \S+ +(\d)  \S+ +eth2 +(\S+) ", done[0].stdout, re.M) == [
        ("0", "0", "relay"), ("0", "2", "plugin"), ("1", "0", "relay"), ("1", "2", "plugin")]
    assert done[0].stdout.count("# relay: a NIC is another GPU's, receives land there") == 1


def test_one_gpu_uses_all_nics(tool, a3, messages):
    done = Ranks(tool, *messages, "--gpus", "0", "--nics", "all", env=a3).end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr
    assert re.search(r"^ +0 \S+ +0  \S+ +eth1,eth2,eth3,eth4 +relay ", done[0].stdout, re.M)


def test_a_foreign_nic_without_its_gpus_is_refused(tool, a3, messages):
    env = {**a3, "CUDA_VISIBLE_DEVICES": "0,1"}
    done = Ranks(tool, *messages, "--gpus", "0", "--nics", "eth2", env=env).end()
    assert [one.returncode for one in done] == [1, 1]
    assert any(re.search("GPU 0: .*0000:04:00.0.*0000:06:00.0", one.stderr) for one in done), done


@pytest.mark.parametrize("what", ["smoke", "devmem"])
def test_checks(tool, a3, messages, what):
    done = Ranks(tool, *messages, "--gpus", "2-5", "--check", what, env=a3).end()
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    for one in done:
        assert one.stdout.splitlines()[-1] == f"PASS {what}"
    assert [row[:3] for row in rows(done[0].stdout)] == [(0, 2, 1), (1, 2, 1)]
    assert tool("node", "--check", "devmem").returncode == 2


def test_a_wrong_pair_that_is_believed(tool, a3, messages):
    """No packet of it comes into GPU memory."""
    env = {**a3, "TCPX_PAIRING": "off", "TCPXEMU_FATAL": "rc", "TCPX_MESSAGE_TIMEOUT_MS": "1000"}
    done = Ranks(tool, *messages, "--gpus", "0", "--nics", "eth2", "--check", "devmem",
                 env=env).end()
    for one in done:
        assert one.returncode == 1
        assert one.stdout.splitlines()[-1] == "FAIL devmem"
    assert any(re.search(r"channel \d+, NIC eth2|no devmem data", one.stderr) for one in done)


@pytest.mark.parametrize("check, code", [((), 4), (("--check", "devmem"), 1)])
def test_a_bit_that_flips_is_seen(tool, a3, messages, check, code):
    env = {**a3, "TCPXEMU_FAULT": "flip:side=send:nth=1"}
    done = Ranks(tool, *messages, "--gpus", "0", *check, env=env).end()
    assert [one.returncode for one in done] == [code] * 2
    assert sum(row[4] for row in rows(done[0].stdout)) > 0


@pytest.mark.skipif(not os.path.exists("/usr/bin/awk"), reason="no awk")
def test_the_demo(tool, build):
    done = subprocess.run([TOP / "scripts/demo-node.sh", build], timeout=HANG, text=True,
                          capture_output=True, env=tool.environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert "=== ALL GPUs READY ===" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("pages in use 0, violations 0")
    assert "are advised" not in done.stderr # its NICs are played
    assert max(map(len, done.stdout.splitlines())) <= 120
