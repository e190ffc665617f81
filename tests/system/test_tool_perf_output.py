# SPDX-License-Identifier: Apache-2.0
"""Forms of perf's results: units, intervals, CSV."""
import csv
import json
import re

import pytest

from conftest import SMALL
from test_tool_perf import rows, schema  # noqa: F401, a fixture

TCP = ["--loopback", "--transport", "tcp"]


@pytest.mark.parametrize("units", ["GB", "Gbit", "GB,Gbit", "Gbit,GB"])
def test_units_are_columns(tool, units):
    done = tool("perf", *TCP, "--units", units, *SMALL)
    assert done.returncode == 0, done.stderr
    units = [f"{unit}/s" for unit in units.split(",")]
    head = re.search(r"^# +size .*$", done.stdout, re.M)[0].split()[1:]
    assert head[3:-5] == units
    row, = rows(done.stdout)
    assert len(row) == len(head)
    rate = dict(zip(units, map(float, row[3:-5])))
    if len(rate) == 2:
        assert rate["Gbit/s"] == pytest.approx(8 * rate["GB/s"], abs=0.005)
    assert re.search("; best " + ", ".join(rf"[\d.]+ {unit}" for unit in units) + "$", done.stdout)


def test_intervals(tool, with_json, schema):  # noqa: F811
    args = [*TCP, "--size", "64K", "--working-set", "1M", "--time", "0.5", "-i", "0.05"]
    done = tool.perf(*args)
    assert done.returncode == 0, done.stderr
    schema.validate(done.json)
    row, = done.json["results"]
    parts = row["intervals"]
    assert parts and parts[0]["start"] == 0
    assert all(part["end"] - part["start"] >= 0.05 for part in parts[:-1])
    assert all(a["end"] == b["start"] for a, b in zip(parts, parts[1:]))
    assert all(part["bytes_per_second"] > 0 for part in parts)
    lines = re.findall(r"^# +64K +[\d.]+\.\.[\d.]+ +s  [\d.]+ GB/s$", done.stderr, re.M)
    assert len(lines) == len(parts)
    assert "intervals" not in tool.perf(*TCP, *SMALL).json["results"][0]


def test_no_intervals_of_latency(tool):
    done = tool("perf", *TCP, "--op", "latency", "--interval", "1")
    assert done.returncode == 2 and "--interval is for --op write, read and send" in done.stderr


def test_csv(tool, with_json, tmp_path):
    args = ["--loopback", "--transport", "tcp,local", "--ceiling", *SMALL, "--json",
            tmp_path / "a.json"]
    done = tool("perf", *args, "--csv")
    assert done.returncode == 0, done.stderr
    found = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["transport"] for row in found] == ["tcp", "local"]
    assert len(rows(done.stderr)) == 2, "the table goes to stderr"
    for row, wanted in zip(found, json.loads((tmp_path / "a.json").read_text())["results"]):
        assert (row["op"], int(row["size"]), int(row["wrong_bytes"])) == ("write", 65536, 0)
        assert row["transport"] == wanted["path"]["transport"]
        for column, value in (("bytes_per_second", wanted["bytes_per_second"]),
                              ("time_p99", wanted["time"]["p99"]),
                              ("ceiling_bytes_per_second", wanted["ceiling_bytes_per_second"])):
            assert float(row[column]) == pytest.approx(value, rel=1e-6)
    done = tool("perf", *args[:3], *SMALL, "--csv", tmp_path / "a.csv")
    found = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert len(found) == 2 and len(rows(done.stdout)) == 2
    assert found[0]["ceiling_bytes_per_second"] == ""


def test_csv_to_a_place_that_cannot_be_written(tool, tmp_path):
    done = tool("perf", *TCP, *SMALL, "--csv", tmp_path / "no" / "file")
    assert done.returncode == 1 and "--csv" in done.stderr and "No such file" in done.stderr
    assert tool("perf", *TCP, *SMALL, "--csv", "/dev/full").returncode == 1
    done = tool("perf", *TCP, *SMALL, "--csv", "--json")
    assert done.returncode == 2 and "cannot both have stdout" in done.stderr
