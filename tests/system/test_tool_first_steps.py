# SPDX-License-Identifier: Apache-2.0
"""What somebody types who has just built the tool, and what must not surprise them."""
import re

import pytest

from conftest import SMALL
from test_tool_perf import rows, schema  # noqa: F401, a fixture


def test_loopback_measures_tcp_and_shared_memory(tool):
    done = tool("perf", "--loopback", *SMALL)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^# path: transport (\w+)", done.stdout, re.M) == ["tcp", "local"]
    assert len(rows(done.stdout)) == 2
    assert re.search(r"; best [\d.]+ GB/s over tcp, [\d.]+ GB/s over local$", done.stdout, re.M)


@pytest.mark.parametrize("args, env, transports", [
    (["--transport", "auto"], {}, ["local"]), (["--transport", "tcp"], {}, ["tcp"]),
    ([], {"TCPX_LOCAL": "0"}, ["tcp"])])
def test_a_transport_that_is_asked_for_is_alone(tool, args, env, transports):
    done = tool("perf", "--loopback", *args, *SMALL, env=env)
    assert re.findall(r"^# path: transport (\w+)", done.stdout, re.M) == transports
    assert not re.search(r"; best .* over ", done.stdout)


def test_latency_is_no_rate(tool):
    done = tool("perf", "--loopback", "--op", "latency", "--iters", "20", "--transport", "tcp")
    assert [row[3] for row in rows(done.stdout)] == ["-"]


@pytest.mark.parametrize("args", [["--port", "22"], ["-p", "1023"],
                                  ["--insecure", "--bind", "127.0.0.1", "--port", "80"]])
def test_a_port_of_the_system_wants_a_key(tool, args):
    done = tool("serve", *args)
    assert done.returncode == 2 and "is below 1024, and there is no key" in done.stderr
    done = tool("serve", env={"TCPX_OOB_PORT": "443"})
    assert done.returncode == 2 and "port 443 is below 1024" in done.stderr


def test_a_failure_has_no_empty_members(tool, with_json, schema):  # noqa: F811
    done = tool.perf("localhost:9", *SMALL)
    assert done.returncode == 1 and done.json["path"] == {}
    schema.validate(done.json)
