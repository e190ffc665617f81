# SPDX-License-Identifier: Apache-2.0
"""scripts/accept_a3.py: what it makes of figures that only hardware has."""
import copy
import importlib
import re
import sys

import pytest

from conftest import TOP

NICS = ["eth1", "eth1", "eth2", "eth2", "eth3", "eth3", "eth4", "eth4"]
READY = "channels accepted 64/64\n=== ALL GPUs READY ===\n"
# what sendrecv_perf of two ranks says with NCCL_DEBUG=INFO, where mpirun has passed that on
NCCL = """[ "$NCCL_DEBUG" = INFO ] && cat "$NCCL_LOG"
echo '# size count type redop root  time algbw busbw #wrong  time algbw busbw #wrong'
echo '    67108864  16777216  float  none  -1  4479.2  14.98  14.98  0  4400.1  15.25  15.25  N/A'
echo '   134217728  33554432  float  none  -1  8600.3  15.61  15.61  0  8590.0  15.62  15.62  N/A'
echo '# Avg bus bandwidth    : 9.1234'"""
# recorded lines; {0} is the network
LOG = """a3-0:6371:6371 [0] NCCL INFO Using network {0}
a3-1:5120:5120 [0] NCCL INFO Using network {0}
a3-0:6371:6402 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/{0}/0
a3-1:5120:5151 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [send] via NET/{0}/0
"""
TCPX = LOG.format("GPUDirectTCPX_v7")


@pytest.fixture(name="accept")
def fixture_accept(tool, monkeypatch):
    monkeypatch.setenv("TCPX_TOOL", tool.path)
    monkeypatch.syspath_prepend(str(TOP / "scripts"))
    sys.modules.pop("accept_a3", None)
    return importlib.import_module("accept_a3")


def document(rates, packets=(9, 9, 9, 9)):
    gpus = [{"gpu": i, "nic": NICS[i], "rate_out": rate * 1e9, "rate_in": rate * 1e9}
            for i, rate in enumerate(rates)]
    counts = {f"eth{nic}": count for nic, count in enumerate(packets, 1)}
    return {"size": 1 << 26, "ranks": [{"rank": rank, "rx_devmem_pkts": counts,
                                        "gpus": copy.deepcopy(gpus)} for rank in (0, 1)]}


def verdicts(capsys):
    rows = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    return {row[14:60].strip(): row[:13].strip() for row in rows}


def test_all_gpus_at_once(accept, capsys):
    report = accept.Report(False)
    accept.judge_all(report, [0, 0], READY, document([11.5] * 8))
    assert {"> 15 GB/s per GPU, 8 at once": "NOT MEASURED"}.items() <= verdicts(capsys).items()
    assert not report.failed
    accept.judge_all(report, [0, 0], READY, document([11.5] * 7 + [8]))
    found = verdicts(capsys)
    assert found["> 5 GB/s per GPU, 8 at once"] == "PASS"
    assert found["> 10 GB/s per GPU, 8 at once"] == "FAIL"
    assert found["> 20 GB/s per NIC (two GPUs, > 10 each)"] == "FAIL"
    assert found["> 80 GB/s per node (four NICs)"] == "PASS" and report.failed


@pytest.mark.parametrize("packets, word", [
    ((9, 0, 9, 9), "FAIL"), ((), "NOT MEASURED"), ((9,), "NOT MEASURED")])
def test_packets(accept, capsys, packets, word):
    accept.judge_all(accept.Report(False), [0, 0], READY, document([11] * 8, packets))
    assert verdicts(capsys)["rx_devmem_pkts rises on every NIC"] == word


def test_a_run_that_failed(accept, capsys):
    report = accept.Report(False)
    accept.judge_all(report, [1, 1], "tcpx node: no control link\n", None)
    assert accept.judge_one(report, [124, 1], "", None) is None
    assert set(verdicts(capsys).values()) == {"FAIL"} and report.failed


@pytest.mark.parametrize("rate, passed, in_time", [(16, [5, 9, 10, 15], "PASS"),
                                                   (9.5, [5, 9], "PASS"), (8.3, [5], "FAIL")])
def test_one_gpu(accept, capsys, rate, passed, in_time):
    assert accept.judge_one(accept.Report(False), [0, 0], READY, document([rate])) == rate
    found = verdicts(capsys)
    assert [limit for limit in (5, 9, 10, 15)
            if found[f"> {limit} GB/s per GPU alone"] == "PASS"] == passed
    assert found["64 MB (2^26 bytes) in <= 8 ms"] == in_time  # 8.39 GB/s


@pytest.fixture(name="beside")
def fixture_beside(accept, capsys, monkeypatch, tmp_path):
    """The verdict beside an NCCL that is played: 15.25 GB/s at 64 MB, and 80 % of it are 12.2."""
    (tmp_path / "build").mkdir()
    # a launcher that passes on what it is told to
    mpirun = """case " $* " in *" -x NCCL_DEBUG "*) ;; *) unset NCCL_DEBUG ;; esac
while [ "${1#*_perf}" = "$1" ]; do shift; done
exec "$@" """
    for name, text in (("build/sendrecv_perf", NCCL), ("mpirun", mpirun)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "hosts").write_text("10.0.0.1\n10.0.0.2\n", encoding="utf-8")
    monkeypatch.setenv("NCCL_TESTS_HOME", str(tmp_path))
    monkeypatch.setenv("NCCL_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("NCCL_DEBUG_FILE", "/dev/null")
    monkeypatch.setitem(accept.HOSTS, "HOSTFILE", str(tmp_path / "hosts"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def verdict(rate, log):
        (tmp_path / "log").write_text(log, encoding="utf-8")
        accept.judge_nccl(accept.Report(False), accept.Side("server", "-", 20000, []), rate)
        line, = [row for row in capsys.readouterr().out.splitlines() if row[0] != "#"]
        assert "within 20 % of NCCL" in line
        return line

    return verdict


@pytest.mark.parametrize("rate, word", [(12.3, "PASS"), (12.1, "FAIL")])
def test_beside_nccl(accept, beside, monkeypatch, rate, word):
    assert beside(rate, TCPX).startswith(word + " ")
    monkeypatch.setitem(accept.HOSTS, "HOSTFILE", "/nowhere")
    assert re.match("NOT MEASURED .*no run of nccl-tests", beside(rate, TCPX))


@pytest.mark.parametrize("log, why", [
    (LOG.format("Socket"), "NCCL went by Socket, not by TCPX"),
    (TCPX.replace("5120 [0] NCCL INFO Using network GPUDirectTCPX_v7",
                  "5120 [0] NCCL INFO Using network Socket"), "NCCL went by Socket, not by TCPX"),
    (TCPX + "a3-0:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM\n",
     "NCCL went by P2P/CUMEM, not by TCPX"),
    (TCPX.splitlines()[0], "NCCL's log lacks a rank's network"),
    ("", "NCCL's log lacks a rank's network")],
    ids=["sockets", "one-rank", "one-host", "cut", "none"])
def test_beside_nccl_by_another_way(beside, log, why):
    """An NCCL that fell back to sockets is easily reached, and no measure."""
    assert re.match(f"NOT MEASURED .*{why}", beside(12.3, log))


class Played:
    """The runs of a Side; each has a document of its own."""

    def __init__(self, monkeypatch, accept, totals, codes=()):
        self.calls, codes, totals = [], list(codes), iter(totals)

        def node(_, gpus, sizes, **more):
            self.calls.append(gpus)
            found = document([16] if gpus == "0" else [11] * 8)
            found.update(rate=next(totals) * 1e9, wrong=0)
            for rank in found["ranks"]:
                for gpu in rank["gpus"]:
                    gpu["checked"] = 1
            return [codes.pop(0) if codes else 0, 0], READY, found

        monkeypatch.setattr(accept.Side, "node", node)
        monkeypatch.setattr(accept, "fullmesh", lambda side, sizes: [(0, "")])


@pytest.mark.parametrize("codes, words", [
    ([], "PASS .* 3 of 3 exit 0, median 90 GB/s, spread 11.1 %"),
    ([0, 0, 1], "FAIL .* 2 of 3 exit 0, median 90.5 GB/s, spread 11.0 %")])
def test_all_runs_on_hardware(accept, monkeypatch, capsys, codes, words):
    """What main() makes of them: the first two are no part of the median."""
    played = Played(monkeypatch, accept, [1, 2, 90, 95.5, 85.5], codes)
    monkeypatch.setattr(accept, "judge_nccl", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["accept_a3.py", "server", "-", "3", "20000"])
    assert accept.main() == (1 if codes else 0)
    assert played.calls == ["0-7", "0", "0-7", "0-7", "0-7"]
    out = capsys.readouterr().out
    line, = re.findall(r"^.* 3 stable runs .*$", out, re.M)
    assert re.match(words, line)
    assert re.search(r"^PASS +0 wrong bytes +0 of \d+ ", out, re.M)
    assert re.search(r"^PASS +> 80 GB/s per node", out, re.M)


def test_the_clients_end(accept, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["accept_a3.py", "client", "a", "3", "20000"])
    Played(monkeypatch, accept, range(5))
    assert accept.main() == 0
    assert "0 of 6 runs failed here" in capsys.readouterr().out
    Played(monkeypatch, accept, range(5), [0, 0, 0, 9])
    assert accept.main() == 1
    assert "1 of 6 runs failed here" in capsys.readouterr().out
