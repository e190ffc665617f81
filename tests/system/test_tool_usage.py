# SPDX-License-Identifier: Apache-2.0
"""What the tool says before it does anything: help, man pages, wrong options, sizes, info."""
import json
import pathlib
import re

import pytest

from conftest import SMALL, Tool

TOP = pathlib.Path(__file__).resolve().parents[2]
# as the table of commands has them
COMMANDS = [name.replace("_", "-") for name in re.findall(
    r"&command_(\w+)", (TOP / "tools/tcpx/commands.c").read_text(encoding="utf-8"))]


def options_of(text):
    """Options a help text lists: {"--size": ("", "LIST")}, the letter of the short form first."""
    return {name: (letter, value) for letter, name, value in
            re.findall(r"^  (?:-(\w), |    )(--[a-z0-9-]+)(?: (\S+))?", text, re.M)}


@pytest.mark.parametrize("command", [[]] + [[name] for name in COMMANDS])
def test_help_fits_one_screen(tool, command):
    done = tool(*command, "--help")
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) <= 50
    assert [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_man_page_has_exactly_the_options_of_the_help(tool, command):
    page = (TOP / f"docs/man/tcpx-{command}.1").read_text(encoding="utf-8").replace("\\-", "-")
    options = page.split(".SH OPTIONS")[1].split(".SH ")[0]
    # "--x" heads a paragraph: .B --x, .BI --x " VALUE" or .BI "-x\\fR, \\fB--x" " VALUE"
    described = {name: (letter, value.strip('" ')) for letter, name, value in re.findall(
        r"^\.TP\n\.BI? \"?(?:-(\w)\\fR, \\fB)?(--[a-z0-9-]+)\"?(.*)$", options, re.M)}
    expected = options_of(tool(command, "--help").stdout)
    assert expected.pop("--help") == ("h", "")
    assert described == expected


def test_every_command_is_in_the_overview(tool):
    shown = re.findall(r"^  ([a-z-]+) +[A-Z]", tool("--help").stdout, re.M)
    assert shown == COMMANDS


def test_version(tool):
    done = tool("version")
    assert done.returncode == 0
    assert re.fullmatch(r"tcpx \d+\.\d+\.\d+\n", done.stdout)
    assert tool("--version").stdout == done.stdout


@pytest.mark.parametrize("args, words", [
    ([], "no command"),
    (["prf"], "did you mean 'perf'"),
    (["perf"], "HOST[:PORT] or --loopback"),
    (["perf", "--loopbak"], "did you mean --loopback"),
    (["perf", "--loopback", "--deptt=4"], "did you mean --depth"),
    (["perf", "--loopback", "--xyzzyqwert"], "unknown option '--xyzzyqwert'"),
    (["perf", "--loopback", "-z"], "unknown option '-z'"),
    (["perf", "--loopback", "--size"], "--size needs a value"),
    (["perf", "--loopback", "--bidir=1"], "takes no value"),
    (["perf", "--loopback", "host"], "exclude one another"),
    (["perf", "one", "two"], "unexpected argument 'two'"),
    (["perf", "--loopback", "--size", "12Q"], "--size: '12Q' is not a size"),
    (["perf", "--loopback", "--size", "1M,"], "--size: '' is not a size"),
    (["perf", "--loopback", "--size", "4M:1M"], "is not ascending"),
    (["perf", "--loopback", "--size", "1M:4M:4"], "not a step"),
    (["perf", "--loopback", "--size", "1M:4M:x1"], "out of range 2..1024"),
    (["perf", "--loopback", "--chunk", "1K"], "--chunk: 1K is out of range 4K..16M"),
    (["perf", "--loopback", "--depth", "0"], "--depth: 0 is out of range 1..1024"),
    (["perf", "--loopback", "--depth", "many"], "--depth: 'many' is not a whole number"),
    (["perf", "--loopback", "-n", "1G"], "--iters: '1G' is a size, and a plain number is needed"),
    (["perf", "--loopback", "--iters", "99999999999999999999"], "out of range"),
    (["perf", "--loopback", "--time", "nan"], "not a number of seconds"),
    (["perf", "--loopback", "--time", "-1"], "out of range"),
    (["perf", "--loopback", "--op", "push"], "invalid value 'push'; choose from write|read|send"),
    (["perf", "--loopback", "--transport", "tcp,rdma"], "invalid value 'rdma'; choose from tcp"),
    (["perf", "--loopback", "--mem", "gpu"], "invalid value 'gpu'; choose from"),
    (["perf", "--loopback", "--channels", "65"], "--channels: 65 is out of range 1..64"),
    (["perf", "--loopback", "--size", "64K", "--batch", "3"], "does not divide --size 64K"),
    (["perf", "--loopback", "--op", "notify", "--bidir"], "--bidir, --batch and --depth are for"),
    (["perf", "--loopback", "--op", "notify", "--size", "65M"], "at most 64M"),
    (["perf", "--loopback", "--op", "latency", "--depth", "2"], "and --depth are for"),
    (["perf", "--loopback", "--bidir", "--size", "1T"], "lower --size or --working-set"),
    (["perf", "--loopback", "--bidir", "--working-set", "1T"], "buffers of 4 TiB (both ends)"),
    (["help", "prf"], "did you mean 'perf'"),
    (["help", "xyzzy"], "unknown command 'xyzzy'"),
    (["perf", "--loopback", "--no-check", "--inject-fault"], "needs the check"),
    (["perf", ""], "the host is empty"),
    (["perf", "host:0"], "'host:0' is not HOST[:PORT]: the port"),
    (["perf", "host:99999"], "the port is not in 1..65535"),
    (["perf", "host:"], "the port is not in 1..65535"),
    (["perf", "[::1"], "the ] is missing"),
    (["perf", "h" * 256], "longer than 255 bytes"),
    (["serve", "--port", "65536"], "--port: 65536 is out of range 0..65535"),
    (["serve", "--prot", "1"], "did you mean --port"),
    (["serve", "extra"], "unexpected argument 'extra'"),
    (["key", "new"], "usage: tcpx key"),
    (["key", "make", "f"], "unknown action 'make'"),
    (["info", "--enf"], "did you mean --env"),
])
def test_wrong_usage_is_named_and_exits_2(tool, args, words):
    done = tool(*args)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1


def test_info_names_what_is_built_and_the_interfaces(tool):
    done = tool("info")
    assert done.returncode == 0
    assert re.search(r"^  tcp +yes ", done.stdout, re.M)
    assert re.search(r"^  cuda +yes +\S", done.stdout, re.M)
    assert re.search(r"^  ncclnet +yes +\S", done.stdout, re.M)
    assert re.search(r"^  tls +no +\S", done.stdout, re.M), "what is left out says why"
    # the words of --transport
    assert re.search(r"^transports: tcp local( plugin gpudirect)?$", done.stdout, re.M)
    assert re.search(r"^  lo +127\.0\.0\.1/8 .*loopback", done.stdout, re.M)


def test_info_env_lists_every_option_with_its_facts(tool):
    done = tool("info", "--env", env={"UCCL_TCPX_CHUNK_BYTES": "256K", "TCPX_SILENT_MS": "2000"})
    assert done.returncode == 0
    heads = re.findall(r"^(TCPX_\w+)=", done.stdout, re.M)
    assert len(heads) > 20 and len(heads) == len(set(heads))
    assert "TCPX_CHUNK_BYTES=256K  (alias)" in done.stdout
    assert "TCPX_SILENT_MS=2000  (environment)" in done.stdout
    assert re.search(r"default 512K; 4K\.\.16M\n    alias UCCL_TCPX_CHUNK_BYTES", done.stdout)


def test_info_env_tells_what_perf_does_when_nothing_is_set(tool):
    """The defaults that are listed are the ones that tcpx perf takes."""
    text = tool("info", "--env").stdout
    size = re.search(r"^TCPX_PERF_SIZE=\S*  \(default\)(.*?)^TCPX", text, re.M | re.S)[1]
    assert "empty: 64K:256M:x4" in size and "64M;" not in size
    iters = re.search(r"^TCPX_PERF_ITERS=\S*  \(default\)(.*?)^TCPX", text, re.M | re.S)[1]
    assert "empty: as many as --time allows" in iters
    done = tool("perf", "--loopback", "--transport", "auto", "--time", "0.01", "--no-check",
                "--depth", "1", "--timeout", "100")
    found = re.findall(r"^ +(\d+[KMG]?) +(\d+) ", done.stdout, re.M)
    assert [row[0] for row in found] == ["64K", "256K", "1M", "4M", "16M", "64M", "256M"]


def test_info_names_unknown_variables_with_the_nearest(tool):
    done = tool("info", env={"TCPX_CHUNKBYTES": "1M", "UCCL_TCPX_DEBUG": "0"})
    line = "unknown variable TCPX_CHUNKBYTES is ignored; did you mean TCPX_CHUNK_BYTES?"
    assert line in done.stdout.splitlines()
    assert "UCCL_TCPX_DEBUG" not in done.stdout


@pytest.mark.parametrize("name, value", [
    ("TCPX_PERF_SIZE", "12Q"), ("UCCL_TCPX_PERF_SIZE", "1M,2M"), ("TCPX_PERF_ITERS", "0"),
    ("UCCL_TCPX_PERF_ITERS", "many"), ("TCPX_PERF", "maybe")])
def test_a_malformed_default_is_named_and_exits_2(tool, name, value):
    done = tool("perf", "--loopback", *SMALL, env={name: value})
    assert done.returncode == 2
    assert done.stderr.startswith(f"tcpx perf: {name} in the environment: invalid value '{value}'")


def test_perf_and_serve_name_unknown_variables_once(tool, serve):
    env = {"TCPX_CHUNKBYTES": "1M"}
    line = "unknown variable TCPX_CHUNKBYTES is ignored; did you mean TCPX_CHUNK_BYTES?\n"
    done = tool("perf", "--loopback", *SMALL, env=env)
    assert done.returncode == 0 and done.stderr == "tcpx perf: " + line
    assert "tcpx serve: " + line in serve(env=env).stop()[2]


def test_the_library_names_near_variables_once(tool, tmp_path):
    """In a program that does not ask for them; a name that is near none may be somebody else's."""
    program = pathlib.Path(tool.path).resolve().parents[1] / "examples/queue_1000"
    done = tool.run([program], env={"TCPX_CHANELS": "2", "TCPX_SERVICE_HOST": "10.0.0.1"})
    assert done.returncode == 0, done.stderr
    warnings = [row for row in done.stderr.splitlines() if "unknown variable" in row]
    assert warnings == ["tcpx: WARN unknown variable TCPX_CHANELS is ignored; did you mean "
                        "TCPX_CHANNELS?"]


def test_info_json(tool, with_json):
    done = tool("info", "--json", "-", env={"TCPX_CHUNKBYTES": "1M"})
    document = json.loads(done.stdout)
    assert document["schema"] == 1 and document["tool"] == "info"
    assert "tcp" in document["transports"]
    assert {"name": "TCPX_CHUNKBYTES", "nearest": "TCPX_CHUNK_BYTES"} in document["unknown"]
    assert all(option["help"] and option["range"] for option in document["options"])


def test_json_is_refused_in_words_where_it_was_left_out(tool):
    done = tool("version", "--json", "-")
    if done.returncode:
        assert done.returncode == 2 and "built without jansson" in done.stderr
        assert tool("perf", "--loopback", "--json", "-").returncode == 2
    else:
        assert json.loads(done.stdout)["tool"] == "version"


def test_json_to_a_place_that_cannot_be_written_fails(tool, with_json, tmp_path):
    done = tool("version", "--json", tmp_path / "no" / "file")
    assert done.returncode == 1 and "No such file" in done.stderr


def test_full_stdout_is_an_error(tool):
    for args in (["info"], ["info", "--env"], ["--help"], ["version", "--json", "-"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = tool(*args, out=full)
        assert done.returncode == (2 if "without jansson" in done.stderr else 1)
        assert done.returncode == 2 or "results: No space left on device" in done.stderr


def test_missing_standard_descriptors_are_taken_by_nothing_else(tool, serve):
    closed = Tool(tool.path, ["sh", "-c", 'exec "$@" <&- 2>&-', "sh"])
    folder = pathlib.Path(f"/proc/{serve(where=closed).process.pid}/fd")
    assert [str((folder / name).readlink()) for name in "02"] == ["/dev/null"] * 2
