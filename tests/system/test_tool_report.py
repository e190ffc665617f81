# SPDX-License-Identifier: Apache-2.0
"""tcpx report: what it says of meshes, what it draws, and what it does not believe."""
import copy
import html.parser
import json
import os
import re
import shutil
import xml.etree.ElementTree as xml

import pytest

pytestmark = pytest.mark.usefixtures("with_json")
EVIL = ("a'\"; system \"touch /tmp/tcpx-report-was-here\"; </script><script>alert(1)</script>"
        "\x1b[2J\n")


def mesh(ranks=3, gpus=2, rate=10e9):
    ends = [[rank, gpu] for rank in range(ranks) for gpu in range(gpus)]
    return {"schema": 1, "tool": "mesh", "version": "0.1.0", "op": "write", "size": 4194304,
            "iters": 20, "units": {"time": "s", "size": "B", "rate": "B/s"},
            "ranks": [{"rank": rank, "host": f"host{rank}",
                       "gpus": [{"gpu": gpu, "address": "", "nic": ""} for gpu in range(gpus)]}
                      for rank in range(ranks)],
            "cells": [{"from": a, "to": b, "rate": rate, "least": rate, "most": rate, "wrong": 0}
                      for a in ends for b in ends if a[0] != b[0]], "verdict": "ok"}


@pytest.fixture
def write(tmp_path):
    def write(document, name="mesh.json"):
        path = tmp_path / name
        path.write_text(document if isinstance(document, str) else json.dumps(document),
                        encoding="utf-8")
        return path
    return write


def slow(document, **where):
    """Every cell of that from or to has a tenth of the rate."""
    for cell in document["cells"]:
        if all(cell[key.strip("_")] == value for key, value in where.items()):
            cell["rate"] = cell["least"] = 1e9
    return document


def test_nothing_is_slow(tool, write):
    done = tool("report", write(mesh()))
    assert done.returncode == 0 and not done.stderr
    assert done.stdout == ("mesh of 3 ranks, 6 GPUs: write of 4 MiB, 24 links\n"
                           "median 10.000 GB/s, least 10.000, most 10.000\nno link is slow\n")


def test_a_slow_link(tool, write):
    done = tool("report", write(slow(mesh(), from_=[1, 1], to=[0, 0])))
    assert done.stdout.splitlines()[2:] == [
        "slow link: rank 1 (host1) GPU 1 -> rank 0 (host0) GPU 0: 1.000 GB/s, 10 % of the median"]
    patient = tool("report", "--slow", "95", write(slow(mesh(), from_=[1, 1], to=[0, 0])))
    assert "no link is slow" in patient.stdout


def test_stragglers(tool, write):
    done = tool("report", write(slow(mesh(), to=[2, 1])))
    assert done.stdout.splitlines()[2:] == [
        "straggler: rank 2 (host2) GPU 1 receives at 1.000 GB/s, 10 % of the median; "
        "4 of 4 links are slow"]
    both = slow(slow(mesh(5), from_=[2, 0]), from_=[2, 1])
    assert tool("report", write(both)).stdout.splitlines()[2:] == [
        "straggler: rank 2 (host2), all its GPUs, sends at 1.000 GB/s, 10 % of the median; "
        "16 of 16 links are slow"]


def test_wrong_bytes(tool, write):
    document = mesh()
    document["cells"][3]["wrong"] = 7
    done = tool("report", write(document))
    assert done.returncode == 4
    assert "WRONG DATA: 7 bytes, rank 0 (host0) GPU 0 -> rank 2 (host2) GPU 1" in done.stdout


def without(path):
    def change(document):
        *to, last = path
        for key in to:
            document = document[key]
        del document[last]
    return change


def put(path, value):
    def change(document):
        *to, last = path
        for key in to:
            document = document[key]
        document[last] = value
    return change


@pytest.mark.parametrize("change, words", [
    (put(["tool"], "node"), "of another command"), (without(["tool"]), 'no "tool"'),
    (put(["schema"], 2), '"schema" 1'), (put(["op"], "copy"), '"op"'), (put(["size"], -1), '"op"'),
    (without(["ranks"]), 'no "ranks"'), (put(["ranks"], []), 'no "ranks"'),
    (put(["ranks", 1, "rank"], 5), "ranks from 0"), (without(["ranks", 0, "host"]), "ranks from 0"),
    (put(["ranks", 0, "gpus", 0], {}), "without its number"),
    (put(["ranks", 0, "gpus"], [{"gpu": i} for i in range(5000)]), "more than 4096"),
    (without(["cells"]), 'no "cells"'), (put(["cells", 0, "from"], [9, 0]), "no GPU"),
    (put(["cells", 0, "from"], [0]), "no GPU"), (put(["cells", 0, "to"], [-1, 0]), "no GPU"),
    (put(["cells", 0, "to"], [0, 0]), "no GPU"), (put(["cells", 0, "rate"], -1.0), "without rate"),
    (put(["cells", 0, "rate"], "1"), "without rate"), (put(["cells", 0, "wrong"], -1), "without"),
    (lambda document: document["cells"].append(document["cells"][0]), "twice")])
def test_what_mesh_did_not_write(tool, write, change, words):
    document = copy.deepcopy(mesh())
    change(document)
    path = write(document)
    done = tool("report", path)
    assert done.returncode == 1 and not done.stdout
    assert words in done.stderr and str(path) in done.stderr and "tcpx mesh" in done.stderr


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"a":1,"a":2}', "\0", '{"tool":"mesh"'])
def test_what_is_no_json(tool, write, text):
    done = tool("report", write(text))
    assert done.returncode == 1 and not done.stdout and len(done.stderr.splitlines()) == 1
    assert ": not a result of 'tcpx mesh' or 'tcpx perf --json': " in done.stderr


def test_usage(tool, write, tmp_path):
    assert tool("report").returncode == 2
    missing = tool("report", "/none/mesh.json")
    assert missing.returncode == 1
    assert missing.stderr == "tcpx report: /none/mesh.json: No such file or directory\n"
    done = tool("report", write(mesh()), "-o", tmp_path / "mesh.pdf")
    assert done.returncode == 2 and ".svg, .png or .html" in done.stderr


def test_no_gnuplot(tool, write, tmp_path):
    done = tool("report", write(mesh()), "-o", tmp_path / "mesh.svg", env={"PATH": "/none"})
    assert done.returncode == 1 and "gnuplot-nox" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mesh.json"]


@pytest.fixture(name="gnuplot")
def fixture_gnuplot():
    if not shutil.which("gnuplot"):
        pytest.skip("no gnuplot")


class Page(html.parser.HTMLParser):
    """Elements of a page, and what its script has."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.script, self.inside = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = tag == "script"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.script += data


@pytest.mark.usefixtures("gnuplot")
def test_drawings(tool, write, tmp_path):
    path = write(slow(mesh(), to=[2, 1]))
    for suffix in ("svg", "png", "html"):
        done = tool("report", path, "-o", tmp_path / f"mesh.{suffix}")
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "mesh.png").read_bytes().startswith(b"\x89PNG\r\n")
    text = (tmp_path / "mesh.svg").read_text(encoding="utf-8")
    assert xml.fromstring(text).tag.endswith("svg")
    assert text.count("prefers-color-scheme: dark") == 1
    assert "r2 g1" in text and "write of 4 MiB" in text
    # the straggler receives slowly: marked at the axis of receivers; figures stand in the cells
    assert text.count("*r2 g1") == 1 and "host2" in text
    figures = re.findall(r">\s*(10\.0|1\.0)\s*<", text)
    assert figures.count("1.0") == 4 and figures.count("10.0") >= 20
    page = (tmp_path / "mesh.html").read_text(encoding="utf-8")
    found = Page(page)
    assert json.loads(found.script) == json.loads(path.read_text(encoding="utf-8"))
    assert found.tags.count("svg") == 1 and found.tags.count("tr") == 25
    assert "straggler: rank 2 (host2) GPU 1" in page
    assert not re.search(r"""(src|href)=["']http""", page)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "mesh.html", "mesh.json", "mesh.png", "mesh.svg"]


@pytest.mark.usefixtures("gnuplot")
def test_names_do_nothing(tool, write, tmp_path):
    document = mesh()
    for rank in document["ranks"]:
        rank["host"] = EVIL
    path = write(slow(document, to=[2, 1]))
    for suffix in ("svg", "html"):
        done = tool("report", path, "-o", tmp_path / f"mesh.{suffix}")
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout and len(done.stdout.splitlines()) == 3
    page = Page((tmp_path / "mesh.html").read_text(encoding="utf-8"))
    assert page.tags.count("script") == 1
    assert json.loads(page.script)["ranks"][0]["host"] == EVIL
    assert not os.path.exists("/tmp/tcpx-report-was-here")


@pytest.mark.usefixtures("gnuplot")
def test_a_folder_that_is_not_there(tool, write, tmp_path):
    done = tool("report", write(mesh()), "-o", tmp_path / "none" / "mesh.svg")
    assert done.returncode == 1 and "none/mesh.svg" in done.stderr


def perf(factor=1.0, **changes):
    """A result of perf: two paths, three sizes."""
    paths = [{"transport": transport, "channels": 2, "chunk": 524288, "congestion": "cubic",
              "local_mem": "host", "remote_mem": "host"} for transport in ("tcp", "local")]
    rows = [{"op": "write", "size": size, "batch": 1, "depth": 8, "iters": 9, "wrong_bytes": 0,
             "bytes_per_second": factor * 1e9 * (i + 1), "path": path,
             "time": {"mean": 1e-5, "min": 1e-5, "p50": 1e-5, "p99": 3e-5, "max": 3e-5},
             "ceiling_bytes_per_second": 4e9}
            for path in paths for i, size in enumerate((1048576, 4096, 65536))]
    return {"schema": 1, "tool": "perf", "verdict": "ok", "path": paths[0],
            "results": rows} | changes


def test_runs_of_perf_are_compared(tool, write):
    done = tool("report", write(perf(), "a.json"), write(perf(1.5), "b.json"))
    assert done.returncode == 0, done.stderr
    parts = done.stdout.split("\n\n")
    assert [re.search(r"/(\w)\.json: write (\w+), 2 channels, depth 8", part).groups()
            for part in parts] == [("a", "tcp"), ("a", "local"), ("b", "tcp"), ("b", "local")]
    assert [line.split() for line in parts[0].splitlines()[2:]] == [
        ["4K", "2.000", "10.00", "30.00", "50.0"], ["64K", "3.000", "10.00", "30.00", "75.0"],
        ["1M", "1.000", "10.00", "30.00", "25.0"]]
    assert "%" not in parts[1].split("%ceil")[1]
    assert parts[2].count("150 % of the rate") == 3


@pytest.mark.usefixtures("gnuplot")
@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
@pytest.mark.parametrize("op", ["write", "latency"])
def test_curves(tool, write, tmp_path, suffix, op):
    document = perf()
    for row in document["results"]:
        row |= {"op": op} | ({"ceiling_one_way": 5e-6} if op == "latency" else {})
    out = tmp_path / f"bw.{suffix}"
    done = tool("report", write(document, "a.json"), "-o", out)
    assert done.returncode == 0, done.stderr
    data = out.read_bytes()
    if suffix == "png":
        assert data.startswith(b"\x89PNG")
        return
    text = data.decode()
    assert text.count("prefers-color-scheme: dark") == 1
    assert suffix == "svg" or "color-scheme:light dark" in text
    svg = xml.fromstring(text[text.index("<svg"):text.index("</svg>") + 6])
    words = " ".join("".join(node.itertext()) for node in svg.iter() if node.tag.endswith("text"))
    for word in (f"{op} tcp", f"{op} local", "its ceiling", "4K", "64K", "1M", "us"):
        assert word in words, words
    assert ("GB/s" in words) == (op == "write")


@pytest.mark.usefixtures("gnuplot")
def test_words_of_a_perf_file_do_nothing(tool, write, tmp_path):
    document = perf()
    for row in document["results"]:
        row["path"]["transport"] = EVIL
    path = write(document, "a';system 'touch x.json")
    done = tool("report", path, path, "-o", tmp_path / "bw.html")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "bw.html").read_text()
    assert "<script" not in text and not os.path.exists("/tmp/tcpx-report-was-here")


@pytest.mark.parametrize("changes, words", [
    ({"schema": 2}, '"schema" 1'), ({"results": []}, 'no "results"'), ({"results": 7}, "results"),
    ({"results": [{}]}, "a row without"), ({"results": [1]}, "a row without"),
    ({"results": [{"size": 1, "bytes_per_second": -1}]}, "a row without"),
    ({"results": [{"size": 1, "bytes_per_second": 1, "op": f"o{i}"} for i in range(40)]},
     "more than 32 curves")])
def test_what_perf_did_not_write(tool, write, changes, words):
    done = tool("report", write(perf(**changes)))
    assert done.returncode == 1 and not done.stdout
    assert "not a result of 'tcpx perf --json'" in done.stderr and words in done.stderr


def test_wrong_bytes_of_perf(tool, write):
    document = perf()
    document["results"][1]["wrong_bytes"] = 3
    done = tool("report", write(document))
    assert done.returncode == 4 and done.stdout.count("WRONG BYTES") == 1


def test_runs_and_meshes_are_not_mixed(tool, write):
    runs, matrix = write(perf(), "a.json"), write(mesh(), "b.json")
    done = tool("report", matrix, runs)
    assert done.returncode == 2 and "several files are for results of 'tcpx perf'" in done.stderr
    done = tool("report", runs, matrix)
    assert done.returncode == 1 and "b.json: not a result of 'tcpx perf" in done.stderr
    done = tool("report", "--slow", "5", runs)
    assert done.returncode == 2 and "--slow is for" in done.stderr


def test_a_run_is_drawn_as_it_was_written(tool, tmp_path):
    done = tool("perf", "--loopback", "--size", "4K,64K", "--iters", "4", "--working-set", "1M",
                "--json", tmp_path / "a.json")
    assert done.returncode == 0, done.stderr
    done = tool("report", tmp_path / "a.json")
    assert done.returncode == 0 and done.stdout.count("write tcp") == 1, done.stderr
