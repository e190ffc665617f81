# SPDX-License-Identifier: Apache-2.0
"""Commands of README and guide, run as they are typed; documents and tables that code writes."""
import importlib
import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys

import pytest

from conftest import HANG, TOP, Tool
from netns import hosts, run # noqa: F401  a fixture
from test_nixl import fixture_nixl, fixture_plugin # noqa: F401  fixtures

sys.path.insert(0, str(TOP / "tests/lint"))
import lint # noqa: E402
import pages # noqa: E402

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", TOP / "build"))
BLOCKS = [(name, block) for name in lint.tree(TOP) if pages.COMMANDS.fullmatch(name)
          for block in pages.commands(lint.read(TOP, name))]
TYPED = re.compile(r"(host[ab])\$ (.*)")


def blocks(how):
    found = [(name, block) for name, block in BLOCKS if block.how == how]
    return pytest.mark.parametrize("block", [block for _, block in found],
                                   ids=[f"{name}:{block.line}" for name, block in found])


class Shell:
    """Types a block's lines in a folder of its own, where tcpx is on the PATH."""

    def __init__(self, tool, folder):
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "bin/tcpx").symlink_to(tool.path)
        (folder / "examples").symlink_to(TOP / "examples")
        self.env = {"HOME": str(folder), "PATH": f"{folder}/bin:{os.environ['PATH']}",
                    "TCPX_PERF_ITERS": "4"} # in place of a second for each row

    def start(self, text, before=()):
        return subprocess.Popen([*before, "bash", "-eu", "-c", text], cwd=self.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True,
                                env=Tool.environment(self.env))

    def __call__(self, text, before=()):
        process = self.start(text, before)
        out = process.communicate(timeout=HANG)[0]
        assert process.returncode == 0, f"{text}\n{out}"
        return out


@pytest.fixture
def shell(tool, tmp_path):
    return Shell(tool, tmp_path)


@pytest.fixture
def named(hosts): # noqa: F811
    """Two hosts that know each other as hosta and hostb."""
    table = "127.0.0.1 localhost\n" + "".join(
        f"{hosts.address(which)} host{which}\n" for which in "ab")
    folders = [pathlib.Path("/etc/netns") / host.name for host in (hosts.a, hosts.b)]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "hosts").write_text(table, encoding="ascii")
    yield {"hosta": hosts.a, "hostb": hosts.b}
    for folder in folders:
        shutil.rmtree(folder)


@blocks("run")
def test_commands(shell, with_json, block):
    assert shell("\n".join(block.lines))


@blocks("run: two hosts")
def test_two_hosts(shell, with_crypto, named, block):
    """A command of the first host that waits for the second goes on meanwhile."""
    waiting = []
    try:
        for line in block.lines:
            host, command = TYPED.fullmatch(line).groups()
            before = named[host].argv()
            if re.match("tcpx (serve|node)", command) and host == "hosta":
                waiting.append((command, shell.start("exec " + command, before)))
                if command.startswith("tcpx serve"):
                    lines = iter(waiting[-1][1].stdout.readline, "")
                    assert any(line.startswith("ready ") for line in lines), command
            else:
                shell(command, before)
        for command, process in waiting:
            if command.startswith("tcpx serve"):
                process.terminate()
            out = process.communicate(timeout=HANG)[0]
            assert process.returncode == 0, f"{command}\n{out}"
    finally:
        for _, process in waiting:
            if process.poll() is None:
                process.kill()
                process.communicate()


def install(shell, folder):
    """Installs the library and the headers for what the block compiles."""
    if not shutil.which("meson") or not shutil.which("pkg-config"):
        pytest.skip("no meson or no pkg-config")
    stage = folder / "stage"
    run("meson", "install", "-C", str(BUILD), "--no-rebuild", "--quiet", "--destdir", str(stage))
    (pc,) = stage.rglob("libtcpx.pc")
    shell.env.update(PKG_CONFIG_PATH=str(pc.parent), PKG_CONFIG_SYSROOT_DIR=str(stage),
                     LD_LIBRARY_PATH=str(pc.parent.parent))


@blocks("run: library")
def test_library(shell, tmp_path, block):
    install(shell, tmp_path)
    assert "hello, remote memory" in shell("\n".join(block.lines))


@blocks("run: library, two hosts")
def test_library_on_two_hosts(shell, tmp_path, with_crypto, named, block):
    """The last two lines: a program that waits, and the one that connects to it. The key is made
    by an earlier block of the page."""
    install(shell, tmp_path)
    shell("tcpx key new cluster.key")
    *first, lender, writer = [TYPED.fullmatch(line).groups() for line in block.lines]
    for host, command in first:
        shell(command, named[host].argv())
    process = shell.start("exec " + lender[1], named[lender[0]].argv())
    try:
        assert process.stdout.readline().startswith("ready: port ")
        assert "1048576 bytes written" in shell(writer[1], named[writer[0]].argv())
        assert process.communicate(timeout=HANG)[0].endswith("by the other host, 0 wrong\n")
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


@blocks("run: mpirun")
def test_mpirun(shell, with_json, block):
    if not shutil.which("mpirun.openmpi"):
        pytest.skip("no Open MPI")
    (shell.folder / "bin/mpirun").symlink_to(shutil.which("mpirun.openmpi"))
    if not shutil.which("gnuplot"):
        pytest.skip("no gnuplot")
    shell.env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                     OMPI_MCA_rmaps_base_oversubscribe="1")
    assert "links: median" in shell("\n".join(block.lines))


@blocks("run: nixl")
def test_nixl(shell, plugin, nixl, block):
    shell.env["PATH"] = f"{shell.folder}/bin:{os.path.dirname(nixl)}:{os.environ['PATH']}"
    package = shell.folder / "nixl" # as package nixl has it, which chooses the CUDA version
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_api.py").write_text("from nixl_cu12._api import *\n", encoding="ascii")
    shell.env["PYTHONPATH"] = str(shell.folder)
    shell("\n".join(block.lines))


def test_json_in_commands_is_json():
    """Of engines that cannot run here, what is handed to them at least parses."""
    found = [text for name in ("README.md", "docs/guide/nixl.md")
             for _, info, _, body in pages.fences(lint.read(TOP, name)) if not info
             for text in re.findall(r"(?:config |PARAMS=)'(\{.*?\})'", "\n".join(body), re.S)]
    assert len(found) >= 4 and all(isinstance(json.loads(text), dict) for text in found)


@pytest.mark.parametrize("command", ["version", "info", "doctor", "topo"])
def test_schema(tool, with_json, command):
    validate(command, json.loads(tool(command, "--json", "-").stdout))


@pytest.mark.parametrize("command", ["node", "mesh"])
def test_schema_of_ranks(tool, with_json, tmp_path, command):
    args = [command, "--mem", "host", "--memory", "4M", "--size", "1M", "--iters", "4", "--gpus",
            "0-1", "--channels", "2", "--port-base", "23400", "--json"]
    first = tool.start(*args, tmp_path / "a.json")
    done = tool(*args, tmp_path / "b.json", "127.0.0.1:23400")
    out = first.communicate(timeout=HANG)
    assert (first.returncode, done.returncode) == (0, 0), (out, done.stderr)
    validate(command, json.loads((tmp_path / "a.json").read_text(encoding="utf-8")))


def validate(command, document):
    jsonschema = pytest.importorskip("jsonschema")
    text = (TOP / f"docs/schema/{command}.schema.json").read_text(encoding="utf-8")
    jsonschema.validate(document, json.loads(text))


def test_reference_pages_are_those_of_the_tool(tool, with_json):
    done = subprocess.run([sys.executable, TOP / "scripts/reference.py", "--check", tool.path],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def site_python():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import markdown"], capture_output=True,
                          check=False).returncode == 0:
            return python
    pytest.skip("no python3-markdown")


def test_site_has_every_page_and_no_dead_link(tmp_path):
    done = subprocess.run([site_python(), TOP / "scripts/site.py", tmp_path / "site"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and " 0 dead links" in done.stdout, done.stdout + done.stderr
    front = (tmp_path / "site/index.html").read_text(encoding="utf-8")
    assert 'href="guide/getting-started.html"' in front
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<(script|img|link)[^>]*(src|href)=\"https?:", text), page
    if shutil.which("mandoc"):
        assert (tmp_path / "site/man/tcpx.7.html").exists()


def test_site_names_dead_links(tmp_path):
    site = {"a.html": '<a href="b.html#there">', "b.html": '<h1 id="here"><a href="gone.html">'}
    for name, text in site.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    made = runpy.run_path(str(TOP / "scripts/site.py"))
    assert list(made["dead_links"](tmp_path)) == [("a.html", "b.html#there"),
                                                  ("b.html", "gone.html")]


def test_a_stored_run_names_no_host_user_or_path(tmp_path, monkeypatch):
    """And comes back as the table that it was; a second one of the day joins it."""
    monkeypatch.syspath_prepend(str(TOP / "bench"))
    monkeypatch.setattr(sys, "argv", [str(TOP / "bench/speed.py"), "--store", "--json",
                                      os.path.expanduser("~/out.json"), str(TOP / "build")])
    store = importlib.import_module("store")
    for name in ("one", "two"):
        path = store.keep({name: {"title": name, "columns": store.columns("line", "GB/s"),
                                  "rows": [["a", *store.spread([1, 3, 2])]]}}, tmp_path)
    text = pathlib.Path(path).read_text(encoding="utf-8")
    document = json.loads(text)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-\w+\.json", os.path.basename(path))
    assert list(document["tables"]) == ["one", "two"]
    assert document["tables"]["two"]["rows"] == [["a", 2, 1, 3]]
    assert document["tables"]["two"]["command"].endswith(
        "bench/speed.py --json ~/out.json build") and document["machine"]["cores"]
    for secret in (str(TOP), os.uname().nodename, os.path.expanduser("~") + "/"):
        assert len(secret) < 4 or secret not in text
    render = importlib.import_module("render")
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/results").symlink_to(tmp_path)
    shown = render.table(str(tmp_path), "docs/a.md", os.path.basename(path)[:-5], "two")
    assert "| a | 2.000 | 1.000 | 3.000 |" in shown
