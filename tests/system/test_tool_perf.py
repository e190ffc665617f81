# SPDX-License-Identifier: Apache-2.0
"""tcpx perf against serve: rows, bytes compared, JSON, exit codes, lines for old scripts."""
import json
import os
import pathlib
import re
import select
import signal

import pytest

from conftest import HANG, SMALL, stop

TOP = pathlib.Path(__file__).resolve().parents[2]


def rounded(text):
    """Returns the least and the greatest value that are printed as this number."""
    half = 0.5 * 10 ** -len(text.partition(".")[2])
    return float(text) - half, float(text) + half


def rows(text):
    """Rows of the table, split in columns."""
    return [line.split() for line in text.splitlines()
            if re.match(r" +\d+[KMG]? +\d+ ", line)]


@pytest.fixture(scope="session")
def schema():
    jsonschema = pytest.importorskip("jsonschema")
    text = (TOP / "docs/schema/perf.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft7Validator(json.loads(text))


@pytest.mark.parametrize("transport", ["tcp", "local", "auto"])
@pytest.mark.parametrize("op", ["write", "read", "send", "notify", "latency", "pingpong"])
def test_every_operation_over_every_transport(tool, op, transport):
    bulk = op in ("write", "read", "send")
    sizes = ["--size", "64K,100000", "--working-set", "1M"] if bulk else []
    done = tool("perf", "--loopback", "--op", op, "--transport", transport, "--iters", 20, *sizes)
    assert done.returncode == 0, done.stderr
    found = rows(done.stdout)
    assert len(found) == (2 if sizes else 1)
    assert all(row[1] == "20" and row[-1] == "0" for row in found)
    assert done.stdout.splitlines()[-1].startswith("# result: OK, 0 wrong bytes")
    if transport != "auto":
        assert f"# path: transport {transport} " in done.stdout


@pytest.mark.parametrize("text, expected", [
    ("64M", ["64M"]), ("64MB", ["64M"]), ("64MiB", ["64M"]), ("67108864", ["64M"]),
    ("64k", ["64K"]), ("1.5M", ["1536K"]), ("1000", ["1000"]),
    ("64K:512K", ["64K", "128K", "256K", "512K"]), ("64K:1M:x4", ["64K", "256K", "1M"]),
    ("1,64K:128K,3", ["1", "64K", "128K", "3"]), ("64K:100K", ["64K"]),
])
def test_sizes(tool, text, expected):
    done = tool("perf", "--loopback", "--transport", "auto", "--size", text, "--iters", 1,
                "--working-set", "1M")
    assert done.returncode == 0, done.stderr
    assert [row[0] for row in rows(done.stdout)] == expected


@pytest.mark.parametrize("args", [
    ["--batch", "16"], ["--bidir"], ["--bidir", "--op", "read"], ["--bidir", "--op", "send"],
    ["--batch", "8", "--op", "read"], ["--batch", "8", "--op", "send"], ["--busy-poll"],
    ["--channels", "1"], ["--channels", "3", "--chunk", "16K"], ["--depth", "1"],
    ["--working-set", "32K"], ["--seed", "77", "--batch", "4"],
])
def test_variations_move_every_byte(tool, args):
    done = tool("perf", "--loopback", "--transport", "tcp", *SMALL, *args)
    assert done.returncode == 0, done.stderr
    assert [row[-1] for row in rows(done.stdout)] == ["0"]


def test_lists_give_rows_for_each_path(tool, with_json, schema):
    done = tool.perf("--loopback", "--transport", "tcp,local", "--channels", "1,2", "--chunk",
                     "64K,128K", *SMALL)
    assert done.returncode == 0, done.stderr
    schema.validate(done.json)
    assert len(done.json["results"]) == 8
    paths = [row["path"] for row in done.json["results"]]
    assert paths[0] == done.json["path"]
    assert {(path["transport"], path["chunk"]) for path in paths} == {
        ("tcp", 65536), ("tcp", 131072), ("local", 65536), ("local", 131072)}


def test_json_follows_the_schema_and_uses_base_units(tool, with_json, schema):
    done = tool.perf("--loopback", "--transport", "tcp", "--ceiling", *SMALL)
    assert done.returncode == 0, done.stderr
    schema.validate(done.json)
    assert done.json["verdict"] == "ok" and done.json["path"]["transport"] == "tcp"
    row, = done.json["results"]
    assert (row["op"], row["size"], row["iters"], row["wrong_bytes"]) == ("write", 65536, 4, 0)
    assert row["bytes_per_second"] == pytest.approx(4 * 65536 / row["elapsed"], rel=1e-6)
    time = row["time"]
    assert 0 < time["min"] <= time["p50"] <= time["p99"] <= time["max"] < HANG
    assert row["ceiling_bytes_per_second"] > 0
    assert rows(done.stderr), "with JSON on stdout the table goes to stderr"


def test_json_in_a_file_leaves_the_table_on_stdout(tool, with_json, tmp_path, schema):
    path = tmp_path / "result.json"
    done = tool("perf", "--loopback", "--json", path, *SMALL)
    assert done.returncode == 0 and rows(done.stdout)
    schema.validate(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("op", ["write", "read", "send", "latency", "notify"])
def test_one_flipped_byte_is_found_and_exits_4(tool, with_json, schema, op):
    done = tool.perf("--loopback", "--transport", "auto", "--op", op, "--inject-fault", "--size",
                     "4K", "--iters", "8", "--working-set", "1M")
    assert done.returncode == 4
    schema.validate(done.json)
    assert done.json["verdict"] == "wrong_data"
    assert [row["wrong_bytes"] for row in done.json["results"]] == [1]
    assert "1 wrong bytes" in done.stderr


def test_both_ends_of_a_ping_pong_are_compared(tool, with_json, schema):
    done = tool.perf("--loopback", "--transport", "auto", "--op", "pingpong", "--inject-fault",
                     "--size", "4K", "--iters", "8")
    assert done.returncode == 4
    schema.validate(done.json)
    assert [row["wrong_bytes"] for row in done.json["results"]] == [2], "one flipped at each end"


def test_no_check_says_so(tool, with_json, schema):
    done = tool.perf("--loopback", "--no-check", *SMALL)
    assert done.returncode == 0
    assert "NOT CHECKED" in done.stderr and "not checked" in done.stderr.splitlines()[-1]
    assert done.json["results"][0]["checked"] is False
    schema.validate(done.json)


def test_ceiling_column(tool):
    done = tool("perf", "--loopback", "--transport", "tcp", "--ceiling", *SMALL, "--size",
                "64K:256K:x4")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^# ceiling of the first row: [\d.]+ GB/s by \d+ plain sockets \(\w+\)",
                     done.stdout, re.M)
    found = rows(done.stdout)
    assert len(found) > 1
    for row in found:
        rate, ceiling, share = (rounded(row[column]) for column in (3, -3, -2))
        assert share[0] <= 100 * rate[1] / ceiling[0]
        assert share[1] >= 100 * rate[0] / ceiling[1]


@pytest.mark.parametrize("args", [["--op", "read"], ["--bidir"]])
def test_ceiling_of_other_directions(tool, args):
    done = tool("perf", "--loopback", "--transport", "tcp", "--ceiling", *SMALL, *args)
    assert done.returncode == 0, done.stderr


def test_perf_lines_in_both_logs(tool, serve):
    server = serve("--once", "--perf-lines")
    done = tool("perf", server.address, "--perf-lines", *SMALL)
    assert done.returncode == 0, done.stderr
    code, log, _ = server.wait()
    assert code == 0
    for text in (done.stdout, log):
        assert len(re.findall(r"^\[PERF\] Iter \d+ time=[\d.]+ms$", text, re.M)) == 4
        assert re.search(r"^\[PERF\] Avg: [\d.]+ ms, BW: [\d.]+ GB/s$", text, re.M)
        assert re.search(r"^\[PERF\] Avg \(4 iter\): [\d.]+ ms, BW: [\d.]+ GB/s$", text, re.M)
        assert re.search(r"^\[PERF\] GPU: \d+$", text, re.M)
        assert re.search(r"^\[PERF\] Bandwidth: [\d.]+ GB/s \(per GPU\)$", text, re.M)
        assert re.search(r"^Total time: [\d.]+ ms$", text, re.M)
        assert re.search(r"PERF.*Avg.*BW:", text)
        assert len(re.findall(r"10\^9 bytes \(the predecessor", text)) == 1


@pytest.mark.parametrize("depth, shares", [("1", (False, True)), ("8", (True, True))])
def test_iterations_have_times_of_their_own(tool, serve, depth, shares):
    """Where one ends before the next begins; elsewhere a line says that they share a window's."""
    server = serve("--once", "--perf-lines")
    done = tool("perf", server.address, "--perf-lines", *SMALL, "--depth", depth)
    assert done.returncode == 0, done.stderr
    logs = [done.stdout, server.wait()[1]]
    note = "[PERF] note: iterations of a window have equal shares of its time"
    assert tuple(note in text for text in logs) == shares
    for text, share in zip(logs, shares):
        times = [float(ms) for ms in re.findall(r"^\[PERF\] Iter \d time=([\d.]+)ms$", text, re.M)]
        total = float(re.search(r"^Total time: ([\d.]+) ms$", text, re.M)[1])
        assert len(times) == 4 and sum(times) <= total + 0.01
        assert not share or len(set(times)) == 1


@pytest.mark.parametrize("name", ["TCPX_PERF", "UCCL_TCPX_PERF"])
def test_perf_lines_by_environment(tool, name):
    done = tool("perf", "--loopback", *SMALL, env={name: "1"})
    assert "[PERF] Avg" in done.stdout


@pytest.mark.parametrize("prefix", ["TCPX_", "UCCL_TCPX_"])
def test_size_and_iterations_by_environment(tool, prefix):
    env = {prefix + "PERF_SIZE": "512KB", prefix + "PERF_ITERS": "7"}
    path = ["--loopback", "--transport", "auto"]
    done = tool("perf", *path, "--working-set", "1M", env=env)
    assert [row[:2] for row in rows(done.stdout)] == [["512K", "7"]]
    done = tool("perf", *path, *SMALL, env=env)
    assert [row[:2] for row in rows(done.stdout)] == [["64K", "4"]], "an option beats the variable"


@pytest.mark.parametrize("name", ["TCPX_OOB_PORT", "UCCL_TCPX_OOB_PORT"])
def test_the_port_by_environment_is_that_of_both_ends(tool, serve, name):
    port = serve().address.rsplit(":", 1)[1]
    done = tool("perf", "127.0.0.1", *SMALL, env={name: port})
    assert done.returncode == 0, done.stderr


def test_the_environment_does_not_move_the_serve_of_loopback(tool):
    done = tool("perf", "--loopback", *SMALL, env={"TCPX_BIND": "::1"})
    assert done.returncode == 0, done.stderr
    assert "->  127.0.0.1:" in done.stdout


def test_bind_moves_the_serve_of_loopback(tool):
    done = tool("perf", "--loopback", "--bind", "127.0.0.2,127.0.0.3", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "->  127.0.0.2:" in done.stdout


def test_a_long_name_is_looked_up(tool):
    name = ".".join(["x" * 60] * 3) + ".invalid"
    done = tool("perf", name, "--timeout", "20", *SMALL)
    assert done.returncode in (1, 124) and name in done.stderr, done.stderr
    assert "HOST[:PORT]" not in done.stderr


def test_an_option_beats_its_variable(tool):
    env = {"TCPX_LOCAL": "0"}
    for args, transport in (([], "tcp"), (["--transport", "auto"], "local"),
                            (["--transport", "local"], "local")):
        done = tool("perf", "--loopback", *args, *SMALL, env=env)
        assert f"# path: transport {transport} " in done.stdout, done.stderr
    done = tool("perf", "--loopback", "--size", "1K", "--working-set", "1M", "--time", "0.001",
                env={"TCPX_PERF_ITERS": "1"})
    assert int(rows(done.stdout)[0][1]) > 1, "--time beats TCPX_PERF_ITERS"


def test_time_holds_for_large_notifications(tool):
    done = tool("perf", "--loopback", "--transport", "auto", "--op", "notify", "--size", "4M,16M",
                "--time", "0.00001")
    assert done.returncode == 0, done.stderr
    assert [row[1] for row in rows(done.stdout)] == ["1", "1"], "one takes longer than that"


def test_several_clients_at_once(tool, serve):
    server = serve()
    clients = [tool.start("perf", server.address, *SMALL, "--op", op, "--seed", seed)
               for seed, op in enumerate(["write", "read", "send", "write"])]
    for client in clients:
        out, err = client.communicate(timeout=HANG)
        assert client.returncode == 0, err
        assert rows(out.decode())[0][-1] == "0"
    assert server.stop()[0] == 0


def test_no_serve_there_exits_1_and_says_what_to_do(tool, serve):
    server = serve()
    address = server.address
    server.stop()
    done = tool("perf", address, *SMALL)
    assert done.returncode == 1
    line, = [line for line in done.stderr.splitlines() if "refused" in line]
    assert line.count("refused") == 1 and address in line


def test_json_of_a_failed_run_says_why(tool, serve, with_json, schema):
    server = serve("--max-memory", "1M")
    done = tool.perf(server.address, "--size", "64K,2M", "--iters", "1", "--working-set", "1M")
    assert done.returncode == 1
    schema.validate(done.json)
    assert done.json["verdict"] == "failed" and "--max-memory" in done.json["error"]
    assert done.json["error"] in done.stderr
    assert done.json["results"] == [], "sizes are checked before the first row"


def start_long(tool, address, *args):
    """A perf run that is well under way."""
    client = tool.start("perf", address, "--size", "1M", "--time", "600", "--working-set", "16M",
                        *args)
    while True:
        line = client.stdout.readline().decode()
        assert line, client.stderr.read()
        if re.match(r"# +size", line):
            return client


def finish(client):
    out, err = client.communicate(timeout=HANG)
    return client.returncode, out.decode(), err.decode()


def test_what_the_other_end_does_not_take_is_said(tool, serve):
    server = serve("--channels", "1", "--chunk", "64K")
    done = tool("perf", server.address, "-P", "3", "--chunk", "1M", "--transport", "tcp", *SMALL)
    assert "# note: 3 channels were asked for, the other end takes 1\n" in done.stdout
    assert "# note: chunks of 1M were asked for, the other end takes 64K\n" in done.stdout
    done = tool("perf", server.address, "--transport", "tcp", *SMALL)
    assert "# note" not in done.stdout


def test_a_serve_that_dies_exits_1(tool, serve):
    server = serve()
    client = start_long(tool, server.address)
    server.process.kill()
    code, out, err = finish(client)
    assert code == 1 and "FAILED" in out and "tcpx perf: " in err


def test_a_stopped_serve_times_out_with_124(tool, serve):
    server = serve()
    client = start_long(tool, server.address, "--timeout", "2")
    stop(server.process.pid)
    code, out, _ = finish(client)
    assert code == 124 and "TIMED OUT" in out


def test_timeout_while_all_is_well_exits_124(tool, with_json, schema):
    done = tool.perf("--loopback", "--time", "600", "--timeout", "1", "--size", "1M",
                     "--working-set", "16M")
    assert done.returncode == 124
    schema.validate(done.json)
    assert done.json["verdict"] == "timed_out"


def test_interrupt_ends_cleanly_and_leaves_no_process(tool, serve):
    client = start_long(tool, "--loopback")
    children = (pathlib.Path(f"/proc/{client.pid}/task/{client.pid}/children")
                .read_text(encoding="ascii").split())
    assert len(children) == 1
    client.send_signal(signal.SIGINT)
    code, _, err = finish(client)
    assert code == 1 and "interrupted" in err
    assert not alive(children[0])


def alive(pid):
    """Whether the process is there and no zombie."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return False
    return text.rsplit(")", 1)[1].split()[0] not in "ZX"


def test_serve_of_loopback_ends_with_a_killed_perf(tool):
    client = start_long(tool, "--loopback")
    child = (pathlib.Path(f"/proc/{client.pid}/task/{client.pid}/children")
             .read_text(encoding="ascii").strip())
    end = os.pidfd_open(int(child))
    try:
        client.kill()
        client.communicate()
        assert select.select([end], [], [], HANG)[0], "serve outlives the perf that started it"
    finally:
        os.close(end)


def test_serve_once_ends_after_its_client(tool, serve):
    server = serve("--once")
    assert tool("perf", server.address, *SMALL).returncode == 0
    code, out, err = server.wait()
    assert code == 0
    assert out == f"ready {server.address}\n", "stdout carries results only"
    assert "connected" in err and "left" in err


def test_serve_once_tells_of_a_client_that_died(tool, serve):
    server = serve("--once")
    client = start_long(tool, server.address)
    client.kill()
    client.communicate()
    assert server.wait()[0] == 1


def test_serve_ends_on_sigterm(serve):
    server = serve()
    server.process.terminate()
    assert server.wait()[0] == 0


def test_serve_refuses_what_it_does_not_allow(tool, serve):
    server = serve("--mem", "host", "--max-memory", "1M")
    done = tool("perf", server.address, "--size", "64K", "--working-set", "2M", "--iters", "1")
    assert done.returncode == 1 and "--max-memory" in done.stderr
    done = tool("perf", server.address, *SMALL, "--remote-mem", "cuda")
    assert done.returncode == 1 and "serve --mem" in done.stderr
    assert tool("perf", server.address, *SMALL).returncode == 0, "it still serves others"


@pytest.mark.parametrize("env, base", [({}, 20000), ({"TCPX_PORT_BASE": "23100"}, 23100),
                                       ({"UCCL_TCPX_BOOTSTRAP_PORT_BASE": "23200"}, 23200)])
def test_default_port_is_the_base_or_one_of_the_next(tool, serve, env, base):
    first, second = (int(serve(port=None, env=env).address.rsplit(":", 1)[1]) for _ in range(2))
    assert base <= first < second <= base + 16


def test_name_that_is_none(tool):
    done = tool("perf", "no-such-host.invalid", "--timeout", "20", *SMALL)
    assert done.returncode in (1, 124), "124 where the name servers are silent"
    assert "no-such-host.invalid" in done.stderr


def test_port_that_is_taken_is_named(tool, serve):
    server = serve()
    port = server.address.rsplit(":", 1)[1]
    done = tool("serve", "--port", port)
    assert done.returncode == 1 and port in done.stderr


def test_stdout_that_is_closed_is_no_crash(tool):
    client = tool.start("perf", "--loopback", *SMALL)
    client.stdout.close()
    assert client.stderr.read() == b"", "whoever closed it knows"
    assert client.wait(timeout=HANG) == 1


ROWS = [*SMALL, "--size", "64K,64K,64K"]


def test_a_run_whose_stdout_is_full_ends_at_the_next_row(tool, with_json, tmp_path):
    path = tmp_path / "result.json"
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = tool("perf", "--loopback", "--json", path, *ROWS, out=full)
    assert done.returncode == 1
    assert done.stderr == "tcpx perf: cannot write results: No space left on device\n"
    assert len(json.loads(path.read_text(encoding="utf-8"))["results"]) == 1


@pytest.mark.parametrize("path, words", [("/dev/full", "No space left"), ("/", "Is a directory")])
def test_json_that_cannot_be_written_fails(tool, with_json, path, words):
    done = tool("perf", "--loopback", "--json", path, *SMALL)
    assert done.returncode == 1 and words in done.stderr
    assert ("# result" in done.stdout) == (path == "/dev/full"), "a file is opened before the run"


def test_json_on_a_full_stdout_names_the_cause(tool, with_json):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = tool("perf", "--loopback", "--json", "-", *SMALL, out=full)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("cannot write results: No space left on device")


def test_serve_that_cannot_say_ready_ends(tool):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = tool("serve", "--port", 0, out=full)
    assert done.returncode == 1 and "cannot write results: No space left" in done.stderr
    done = tool.shell('"$0" serve --port 0 >&-')
    assert done.returncode == 1 and "cannot write results: Bad file descriptor" in done.stderr


@pytest.mark.parametrize("args", [["--op", "latency"], ["--op", "notify"], ["--op", "pingpong"],
                                  ["--op", "latency", "--busy-poll"]])
def test_ceiling_of_latency_is_a_plain_ping_pong(tool, with_json, schema, args):
    done = tool.perf("--loopback", "--transport", "auto", "--ceiling", "--iters", "200", "--size",
                     "8,128K", *args)
    assert done.returncode == 0, done.stderr
    schema.validate(done.json)
    small, large = done.json["results"]
    assert 0 < small["ceiling_one_way"] < HANG
    assert "ceiling_one_way" not in large, "beyond 64 KiB it would measure bandwidth"
