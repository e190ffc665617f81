# SPDX-License-Identifier: Apache-2.0
"""tcpx diag: the folder that is collected, what is masked in it, and two folders compared."""
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from conftest import HANG
from test_node import build, fixture_a3, fixture_messages  # noqa: F401 (fixtures)

KINDS = ["interfaces", "counters", "routes", "sysctls", "affinity", "irqs", "interrupts", "cpu"]
ALWAYS = {"SUMMARY.txt", "environment.txt", "topology.txt", "versions.txt", "facts.txt",
          "command.txt"}
KEY = "00112233445566778899aabbccddeeff" * 2


def names(*phases):
    return {f"{kind}.{phase}.txt" for kind in KINDS for phase in phases}


@pytest.fixture(name="collect")
def fixture_collect(tool, tmp_path):
    """Runs 'diag collect' into a folder of its own; (what was done, that folder)."""
    def run(*args, env=None):
        before = set(tmp_path.glob("*"))
        done = tool("diag", "collect", "--out", tmp_path, *args, env=env)
        made = sorted(set(tmp_path.glob("*")) - before)
        return done, made[0] if made else None
    return run


def text_of(folder, name="SUMMARY.txt"):
    return (folder / name).read_text(encoding="utf-8", errors="replace")


def test_without_a_command(collect):
    done, folder = collect()
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"tcpx_\d{8}_\d{6}", folder.name)
    files = {path.name for path in folder.iterdir()}
    assert files == ALWAYS | names("before", "after") and len(files) >= 13
    assert f"Files: {len(files)}," in text_of(folder)
    assert folder.stat().st_mode & 0o077 == 0
    for name in ("interfaces.before.txt", "counters.before.txt", "sysctls.before.txt",
                 "affinity.before.txt", "cpu.before.txt", "topology.txt", "versions.txt"):
        assert text_of(folder, name), name


def test_a_command_that_fails_passes_its_code_on(collect):
    done, folder = collect("--name", "run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n") and "err\n" in done.stderr
    assert {path.name for path in folder.iterdir()} == (
        ALWAYS | names("before", "during", "after") | {"stdout.log", "stderr.log"})
    assert (text_of(folder, "stdout.log"), text_of(folder, "stderr.log")) == ("out\n", "err\n")
    assert folder.name.startswith("run_")
    assert "Exit code: 7 after " in text_of(folder)
    assert "exit code: 7\n" in text_of(folder, "command.txt")


def test_a_command_that_a_signal_ends(collect):
    done, folder = collect("--", "sh", "-c", "kill -KILL $$")
    assert done.returncode == 128 + signal.SIGKILL
    assert "Exit code: 137" in text_of(folder)


def test_a_command_that_is_not_there(collect):
    done, folder = collect("--", "/no/such/program")
    assert done.returncode == 127
    assert "cannot run /no/such/program: No such file" in done.stderr
    assert "No such file" in text_of(folder, "stderr.log")


def test_what_changed_is_named(collect):
    """Bytes over loopback: their counter grew, and the summary says so."""
    script = ("import socket; a=socket.create_server(('127.0.0.1',0));"
              "b=socket.create_connection(a.getsockname()); c=a.accept()[0];"
              "b.sendall(bytes(100000)); n=0\nwhile n<100000: n+=len(c.recv(65536))")
    done, folder = collect("--", sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
    grown = re.search(r"^  lo rx_bytes: \d+ -> \d+  \(\+(\d+)\)$", text_of(folder), re.M)
    assert int(grown[1]) >= 100000
    assert "Changed in sysctls:\n" in text_of(folder)


def test_threads_of_the_command_and_of_what_it_starts(collect):
    """They are looked at once a second. What was seen is written at the end, so no event tells that
    the command may end: it must take longer than a second."""
    done, folder = collect("--", "sh", "-c", "taskset -c 0 sleep 1.5; true")
    assert done.returncode == 0
    assert re.search(r"^\d+ \d+ sleep: cpus 0 nodes ", text_of(folder, "affinity.during.txt"), re.M)


def test_a_process_that_stays_behind_is_not_waited_for(collect):
    done, _ = collect("--", "sh", "-c", "tail -f /dev/null & echo $!")
    os.kill(int(done.stdout), signal.SIGTERM)
    assert done.returncode == 0


def test_a_signal_is_the_commands(tool, tmp_path):
    process = tool.start("diag", "collect", "--out", tmp_path, "--", "sh", "-c",
                         "tail -f /dev/null & "
                         "trap 'kill $!; echo told; exit 5' TERM; echo up; wait")
    assert process.stdout.readline() == b"up\n"
    process.terminate()
    out, _ = process.communicate(timeout=HANG)
    assert (process.returncode, out) == (5, b"told\n")


def test_keys_are_never_written(collect):
    env = {"NCCL_API_TOKEN": "hush", "TCPX_SECRET": KEY, "TCPX_KEY_FILE": "/etc/k"}
    done, folder = collect("--", "sh", "-c", f"echo key {KEY}.; echo x{KEY}y >&2", env=env)
    assert f"key {KEY}.\n" in done.stdout  # the command's own output is not touched
    for path in folder.iterdir():
        text = text_of(folder, path.name)
        assert KEY not in text and "hush" not in text, path.name
    assert text_of(folder, "stdout.log") == "key (hidden).\n"
    assert text_of(folder, "stderr.log") == "x(hidden)y\n"
    assert "NCCL_API_TOKEN=(hidden)\n" in text_of(folder, "environment.txt")
    assert "TCPX_KEY_FILE=/etc/k\n" in text_of(folder, "environment.txt")


def test_addresses_are_masked_on_demand(collect):
    host = subprocess.run(["hostname"], capture_output=True, text=True, check=True).stdout.strip()
    words = ["10.11.12.13", "fe80::dead:beef", "42:01:0a:80:00:02"]
    line = f"a 10.11.12.13:80 [fe80::dead:beef]:9 42:01:0a:80:00:02 {host}: 10.11.12.13, 1.2.3"
    done, folder = collect("--mask", "--", "echo", line)
    assert done.stdout == line + "\n"
    log = text_of(folder, "stdout.log")
    found = re.fullmatch(r"a (ip-\d+):80 \[(ip-\d+)\]:9 mac-\d+ host-1: \1, 1\.2\.3\n", log)
    assert found and found[1] != found[2], log
    for path in folder.iterdir():
        text = text_of(folder, path.name)
        assert not any(word in text for word in words), path.name
    assert not re.search(r"address (?!ip-|127\.|::1)\S+/", text_of(folder, "interfaces.before.txt"))
    assert host not in re.findall(r"^host=(.*)", text_of(folder, "facts.txt"), re.M)
    _, plain = collect("--", "echo", line)
    assert text_of(plain, "stdout.log") == line + "\n"


def test_two_folders_are_compared(tool, collect):
    _, one = collect("--name", "one", env={"NCCL_ALGO": "Ring", "TCPX_CHANNELS": "4"})
    _, two = collect("--name", "two", env={"NCCL_ALGO": "Tree", "NCCL_PROTO": "Simple"})
    done = tool("diag", "compare", one, two)
    assert done.returncode == 0, done.stderr
    assert "environment.txt:\n  NCCL_ALGO: Ring -> Tree\n" \
           "  NCCL_PROTO: only in the second: Simple\n" \
           "  TCPX_CHANNELS: only in the first: 4\n" in done.stdout
    assert "versions.txt:\n  no difference\n" in done.stdout
    same = tool("diag", "compare", one, one).stdout
    assert same.count("no difference") == 4 and "only" not in same


def test_what_the_tool_set_for_its_plugin(tool, collect, a3, build, messages):
    """The recipe is in the environment of the run, so it is no difference from NCCL's run."""
    plugin = ["--plugin", str(build / "emu/tcpxemu/libnccl-net-tcpxemu.so")]
    args = ["perf", "--loopback", "--transport", "gpudirect", *plugin, "--mem", "cuda:0",
            "--remote-mem", "cuda:1", "--unpack", "d2d", "--size", "64K", "--iters", "1",
            "--chunk", "128K"]
    done, ours = collect("--name", "ours", "--", "env", "TCPX_PAIRING=0", "NCCL_ALGO=Ring",
                         tool.path, *args, env=a3 | {"TCPXEMU_STEER": "off"})
    assert messages and done.returncode == 0, done.stderr
    text = text_of(ours, "environment.txt")
    found = dict(line.split("=", 1) for line in text.splitlines())
    assert found["NCCL_DYNAMIC_CHUNK_SIZE"] == found["TCPX_MESSAGE_BYTES"] == "131072"
    assert {"NCCL_NSOCKS_PERTHREAD", "NCCL_SOCKET_NTHREADS"} <= set(found)
    assert found["NCCL_ALGO"] == "Ring"
    assert "TCPX_RECIPE_FILE" not in found and not (ours / ".recipe").exists()
    assert [line.split("=")[0] for line in text.splitlines()] == sorted(found)
    recipe = {name: value for name, value in found.items() if name.startswith("NCCL_")}
    _, theirs = collect("--name", "theirs", "--", "true", env=recipe)
    assert not re.search(r"^  NCCL_", tool("diag", "compare", ours, theirs).stdout, re.M)


def test_counters(tool, tmp_path):
    """Of the kernel, and of a driver where a file stands in for it."""
    nic = tmp_path / "sys/class/net/eth7/statistics"
    nic.mkdir(parents=True)
    (nic / "rx_bytes").write_text("5\n", encoding="ascii")
    (tmp_path / "eth7").write_text("NIC statistics:\n     rx3_devmem_pkts: 12\n     tx_x: 1\n",
                                   encoding="ascii")
    done = tool("diag", "counters", env={"TCPX_SYSFS": str(tmp_path / "sys"),
                                         "TCPX_DEVMEM_STATS": f"{tmp_path}/%s"})
    assert done.returncode == 0
    assert done.stdout == "eth7 rx_bytes: 5\neth7 rx3_devmem_pkts: 12\neth7 tx_x: 1\n"


def test_nothing_is_made_in_the_current_folder(tool, tmp_path):
    """The folder is of the user's state, and its path is printed."""
    here, home, state = (tmp_path / name for name in ("here", "home", "state"))
    here.mkdir()
    for env, top in (({"HOME": str(home)}, home / ".local/state"),
                     ({"HOME": str(home), "XDG_STATE_HOME": str(state)}, state),
                     ({"HOME": str(home), "XDG_STATE_HOME": "here"}, home / ".local/state")):
        done = tool.shell(f'cd "{here}" && "$0" diag collect',
                          env={"XDG_STATE_HOME": "", **env})
        assert done.returncode == 0, done.stderr
        made = pathlib.Path(re.search(r"^(.*): \d+ files$", done.stderr, re.M)[1])
        assert made.parent == top / "tcpx/diagnostics" and (made / "SUMMARY.txt").exists()
        assert made.stat().st_mode & 0o777 == 0o700
    assert list(here.iterdir()) == []
    done = tool("diag", "collect", env={"HOME": "", "XDG_STATE_HOME": ""})
    assert done.returncode == 2 and "give --out DIR" in done.stderr


@pytest.mark.parametrize("args, code, words", [
    ([], 2, "usage: tcpx diag collect"),
    (["gather"], 2, "unknown action 'gather'"),
    (["compare", "one"], 2, "two folders"),
    (["compare", "--mask", "a", "b"], 2, "are for 'tcpx diag collect'"),
    (["compare", "/no/a", "/no/b"], 1, "No such file"),
    (["collect", "--name", "a/b"], 2, "cannot be the name of a folder"),
    (["collect", "--out", "/proc/no/way"], 1, "cannot make /proc/no/way/tcpx_"),
])
def test_wrong_usage(tool, args, code, words):
    done = tool("diag", *args)
    assert done.returncode == code and words in done.stderr and done.stdout == ""


def test_facts_of_a_folder_can_be_judged(tool, collect):
    _, folder = collect("--mask")
    done = tool("doctor", "--facts", folder / "facts.txt")
    assert done.returncode in (0, 3) and "Doctor: " in text_of(folder)
    assert text_of(folder).split("Doctor: ")[1].startswith(done.stdout.splitlines()[-1][:6])
