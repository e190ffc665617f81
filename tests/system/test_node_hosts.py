# SPDX-License-Identifier: Apache-2.0
"""tcpx node between two A3 hosts that are played: namespaces joined by eth0 to eth4, eight GPUs of
the stand-in each, an RxDM each, and the emulated plugin, which asks it for rules, over eth1 to
eth4."""
import json
import os
import pathlib
import re
import subprocess

import pytest

from conftest import Serve
from netns import Hosts, why_no_namespaces
from test_node import (STAGES, build, counted, ends_of, fixture_a3, fixture_messages,  # noqa: F401
                       port_base, rows)

NICS = {"eth1": "06:00.0:04,05", "eth2": "0c:00.0:0a,0b", "eth3": "86:00.0:84,85",
        "eth4": "8c:00.0:8a,8b"}


class A3Hosts(Hosts):
    """With the names of an A3 host's interfaces."""

    def device(self, host, pair=0):
        return f"eth{pair}"


@pytest.fixture(scope="module")
def pair():
    why = why_no_namespaces()
    if why:
        pytest.skip(why)
    with A3Hosts(5) as made:
        yield made


@pytest.fixture(name="played")
def fixture_played(a3, build, pair, tmp_path): # noqa: F811
    """Each host's environment; its RxDM is there."""
    topo = ";".join(["eth0=eth0"] + [f"{nic}={nic}:{rest}" for nic, rest in NICS.items()])
    running, envs = [], []
    for host in (pair.a, pair.b):
        prefix = tmp_path / host.name
        table = ";".join(f"{nic}={pair.address(host, at + 1)}:{rest}"
                         for at, (nic, rest) in enumerate(NICS.items()))
        rxdm = subprocess.Popen(host.argv(build / "emu/fakerxdm/fakerxdm", "--prefix", prefix,
                                          "--topo", table), stdout=subprocess.PIPE)
        running.append(rxdm)
        assert rxdm.stdout.readline() == b"ready\n"
        envs.append({**a3, "TCPXEMU_TOPO": topo, "TCPXEMU_STEER": "rxdm",
                     "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX": str(prefix)})
    yield envs
    for rxdm in running:
        rxdm.kill()
        rxdm.communicate()


def drive(tool, pair, envs, *args, **more):
    """Both ranks' results, the server's first."""
    base = ["node", "--port-base", port_base(), "--bind", "eth0", "--key", pair.key, *args]
    return ends_of([tool.at(pair.a).start(*base, env={**envs[0], **more}),
                    tool.at(pair.b).start(*base, pair.address("a"), env={**envs[1], **more})])


def received(pair, nic):
    """Bytes that came over a NIC of host b."""
    return int(pair.b.run("cat", f"/sys/class/net/{nic}/statistics/rx_bytes"))


@pytest.mark.usefixtures("with_crypto")
@pytest.mark.parametrize("op, peers", [("write", "same"), ("read", "same"), ("send", "same"),
                                       ("write", "all"), ("read", "all"), ("send", "all")])
def test_eight_gpus_with_eight_channels(tool, pair, played, messages, tmp_path, op, peers):
    before = {nic: received(pair, nic) for nic in NICS}
    done = drive(tool, pair, played, *messages, "--op", op, "--peers", peers)
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    for one in done:
        assert one.stdout.splitlines()[:5] == [line.format(8, 64) for line in STAGES]
    links = 8 if peers == "all" else 1
    assert re.search(r"NIC eth\d carries 32 sockets \(16 channels of 2\); 8 are advised",
                     done[0].stderr)
    assert rows(done[0].stdout) == [(rank, gpu, links, 8, 0) for rank in (0, 1)
                                    for gpu in range(8)]
    # two GPUs a NIC, four transfers of 256 KiB a link: they came over the wire of their own NIC
    for nic in NICS:
        assert received(pair, nic) - before[nic] > 2 * links * 4 * 256 * 1024
        assert re.search(rf"rx_devmem_pkts of rank 1: .*{nic} \+[1-9]", done[0].stdout)
    total = counted(tmp_path)
    assert total["received_messages"] > 0
    assert (total["pages_in_use"], total["violations"]) == (0, 0)


@pytest.mark.usefixtures("with_crypto")
def test_gpu_0_on_eth2_is_relayed(tool, pair, played, messages, tmp_path):
    before = received(pair, "eth2")
    done = drive(tool, pair, played, *messages, "--gpus", "0", "--nics", "eth2", "--channels",
                 "2")
    assert [one.returncode for one in done] == [0, 0], done[0].stderr
    assert "sockets" not in done[0].stderr
    assert re.findall(r"^ +\d \S+ +0  \S+ +(\S+) +(\S+) ", done[0].stdout,
                      re.M) == [("eth2", "relay")] * 2
    assert received(pair, "eth2") - before > 4 * 256 * 1024
    total = counted(tmp_path)
    assert (total["pages_in_use"], total["violations"]) == (0, 0)


@pytest.fixture(name="cut")
def fixture_cut(pair):
    """Host b hears nothing over eth1, as behind a firewall."""
    pair.b.drop(match='iifname "eth1" meta l4proto tcp')
    yield
    pair.b.undrop()


def named(pair, text):
    """The NIC, both its addresses, the port that listens, and the step that did not end."""
    found = re.search(r"channel \d+, NIC eth1.*: (connect|accept)(: not finished in time| is under "
                      r"way) \((to|at) ([\d.]+):\d+ from ([\d.]+)\)", text)
    assert found, text
    assert {found[4], found[5]} == {pair.address(host, 1) for host in (pair.a, pair.b)}, text


SOON = {"TCPX_PLUGIN_TIMEOUT_MS": "1500"}


@pytest.mark.usefixtures("with_crypto", "cut")
def test_a_nic_that_is_not_reached_is_named_by_perf_and_serve(tool, pair, played, messages):
    """In the error itself and at the default level, not: 'the log says why'."""
    common = [*messages[:6], "--nic", "eth1", "--key", pair.key]
    serve = Serve(tool.at(pair.a), *common, "--gpu", "0", "--bind", "eth0", "--once",
                  env=played[0] | SOON)
    done = tool.at(pair.b)("perf", serve.address, *common, "--mem", "cuda:0", "--remote-mem",
                           "cuda:0", "--size", "1M", "--iters", "2", env=played[1] | SOON)
    code, _, err = serve.wait()
    assert (done.returncode, code) == (1, 1)
    last = next(line for line in done.stderr.splitlines() if "tcpx perf: " in line)
    assert "no channel of messages with the other end" in last and "log says" not in last
    named(pair, last)
    assert f"try 'tcpx doctor --peer {serve.address}'" in last
    for text in (done.stderr, err):  # four channels, one cause
        warnings = [line for line in text.splitlines() if "tcpx: WARN" in line]
        assert 0 < len(warnings) <= 2, text  # perf connects twice
        named(pair, warnings[0])


@pytest.mark.usefixtures("with_crypto", "cut")
def test_a_nic_that_is_not_reached_is_named_by_node(tool, pair, played, messages):
    done = drive(tool, pair, played, *messages, "--gpus", "0", "--timeout", "3", **SOON)
    ends = []
    for one in done:
        assert one.returncode
        lines = [line for line in one.stderr.splitlines() if line.startswith("tcpx node: ")]
        ends += [line for line in lines if "channels are up" in line]
        # The rank that gives up second may be told so by the first, while it waits.
        named(pair, next(line for line in lines
                         if "channels are up" in line or "waiting: GPU" in line))
    assert ends
    named(pair, ends[0])


@pytest.mark.usefixtures("with_crypto")
def test_gpu_0_on_eth2_without_its_gpus(tool, pair, played, messages):
    done = drive(tool, pair, played, *messages, "--gpus", "0", "--nics", "eth2",
                 CUDA_VISIBLE_DEVICES="0,1")
    assert [one.returncode for one in done] == [1, 1]
    assert any(re.search("GPU 0: .*0000:04:00.0.*0000:06:00.0", one.stderr) for one in done), done


@pytest.mark.usefixtures("with_crypto")
def test_one_gpu_over_four_nics(tool, pair, played, messages):
    before = {nic: received(pair, nic) for nic in NICS}
    done = drive(tool, pair, played, *messages, "--gpus", "0", "--nics", "all", "--iters", "64")
    assert [one.returncode for one in done] == [0, 0], done[0].stderr
    assert re.search(r"^ +0 \S+ +0  \S+ +eth1,eth2,eth3,eth4 +relay ", done[0].stdout, re.M)
    for nic in NICS:
        assert received(pair, nic) - before[nic] > 256 * 1024


@pytest.mark.usefixtures("with_crypto")
def test_two_gpus_over_four_nics_by_tcp(tool, pair, played):
    before = {nic: received(pair, nic) for nic in NICS}
    done = drive(tool, pair, played, "--transport", "tcp", "--mem", "host", "--gpus", "0-1",
                 "--nics", ",".join(NICS), "--size", "256K", "--iters", "16", "--memory", "4M")
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert re.findall(r"^ +0 \S+ +\d  \S+ +\S* *(eth\S+) ", done[0].stdout, re.M) == [
        "eth1,eth2", "eth3,eth4"]
    for nic in NICS:
        assert received(pair, nic) - before[nic] > 256 * 1024


@pytest.mark.usefixtures("with_crypto")
@pytest.mark.parametrize("name", ["--bind", "TCPX_BIND"])
def test_owners_among_the_rails_by_tcp(tool, pair, played, name):
    """A GPU whose NIC is no rail goes over all of them."""
    rails = "eth1,eth2,eth4"
    args = ["node", "--port-base", port_base(), "--key", pair.key, "--transport", "tcp", "--mem",
            "cuda", "--size", "64K", "--iters", "2", "--memory", "128K", "--gpus", "0-7"]
    args += ["--bind", rails] if name == "--bind" else []
    envs = [env if name == "--bind" else {**env, "TCPX_BIND": rails} for env in played]
    done = ends_of([tool.at(pair.a).start(*args, env=envs[0]),
                    tool.at(pair.b).start(*args, pair.address("a", 1), env=envs[1])])
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert re.findall(r"^ +0 \S+ +\d  \S+ +(\S+) ", done[0].stdout, re.M) == [
        "eth1", "eth1", "eth2", "eth2", "-", "-", "eth4", "eth4"]


@pytest.mark.usefixtures("with_crypto")
def test_local_wants_one_host(tool, pair, played):
    done = drive(tool, pair, played, "--transport", "local", "--mem", "host", "--gpus", "0",
                 "--size", "64K", "--iters", "2", "--memory", "128K")
    assert [one.returncode for one in done] == [1, 1]
    for one in done:
        assert "peer is not on this host, and the session is LOCAL_ONLY" in one.stderr


@pytest.mark.usefixtures("with_crypto", "with_json")
def test_a_wrong_pair_that_is_believed(tool, pair, played, messages):
    """Pairing is off: the run ends, names the place, and the doctor the cause and the way out."""
    more = {"TCPX_PAIRING": "off", "TCPXEMU_FATAL": "rc", "TCPX_MESSAGE_TIMEOUT_MS": "1000",
            "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": "=eth2"}
    done = drive(tool, pair, played, *messages, "--gpus", "0", "--nics", "eth2", **more)
    assert [one.returncode for one in done] == [1, 1]
    texts = done[0].stderr + done[1].stderr
    assert re.search(r"channel \d+, NIC eth2, .*no-cmsg: NIC eth2 .*GPU 0 ", texts), texts
    for one in done:
        assert re.search(r"no devmem data: rx_devmem_pkts .*eth2 \+0.*tcpx doctor --nic eth2",
                         one.stderr)
    doctor = tool.at(pair.b)("doctor", "--nic", "eth2", "--json", "-", env={**played[1], **more})
    assert doctor.returncode == 3
    checks = {check["id"]: check for check in json.loads(doctor.stdout)["checks"]}
    assert checks["D01"]["verdict"] == "FAIL"
    assert "belongs to eth1" in checks["D01"]["evidence"]
    assert "miss the GPU's queues" in checks["D01"]["cause"] and "eth1" in checks["D01"]["fix"]


@pytest.mark.usefixtures("with_crypto", "with_json")
@pytest.mark.parametrize("pin", [True, False])
def test_threads_are_near_their_nic_and_gpu(tool, pair, played, pin):
    """The two nodes of an A3 host have a CPU of ours each."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        pytest.skip("one CPU")
    for node, cpu in enumerate(cpus):
        path = f"{played[0]['TCPX_SYSFS']}/devices/system/node/node{node}/cpulist"
        pathlib.Path(path).write_text(f"{cpu}\n", encoding="ascii")
    args = ["--transport", "tcp", "--mem", "cuda", "--nics", ",".join(NICS), "--size", "64K",
            "--iters", "2", "--memory", "128K", "--quiet", "--json", "-"]
    done = drive(tool, pair, played, *args, TCPX_WORKERS="4", **({} if pin else {"TCPX_PIN": "0"}))
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    text = done[0].stdout
    for rank in json.loads(text[text.index("\n{") + 1:])["ranks"]:
        nodes = [(gpu["numa"], gpu["nic_numa"]) for gpu in rank["gpus"]]
        assert nodes == [(0, 0)] * 4 + [(1, 1)] * 4
        found = {thread["name"]: thread for thread in rank["threads"]}
        for name, node in [("tcpx-work-0", 0), ("tcpx-work-1", 0), ("tcpx-work-2", 1),
                           ("tcpx-work-3", 1), *((f"tcpx-gpu-{i}", i // 4) for i in range(8))]:
            if pin:
                assert (found[name]["cpus"], found[name]["numa"]) == (str(cpus[node]), node), name
            else:
                assert found[name]["cpus"] != str(cpus[node]), name
        assert found["tcpx-control"]["cpus"] != str(cpus[0])
