# SPDX-License-Identifier: Apache-2.0
"""Forms of perf's results: units, intervals, CSV."""
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
