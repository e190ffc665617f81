# SPDX-License-Identifier: Apache-2.0
"""tcpx doctor --peer: what it asks a serve, what it compares, and a GPU and a NIC at work."""
import pathlib
import re
import socket
import subprocess
import time

import pytest

import netns
from conftest import Serve

TOP = pathlib.Path(__file__).resolve().parents[2]


def verdicts(done, check):
    """Lines of one check, with what stands below them."""
    return re.findall(rf"^(?:PASS|WARN|FAIL|SKIP) {check} .*(?:\n {{9}}.*)*", done.stdout, re.M)


@pytest.fixture(name="facts")
def fixture_facts(tmp_path):
    return tmp_path / "facts"


def test_both_ends_of_one_machine(tool, serve, facts):
    here = serve()
    done = tool("doctor", "--all", "--peer", here.address, "--save-facts", facts)
    assert done.returncode in (0, 3), done.stderr
    for check in ("D08", "D16", "D20"):
        assert [line[:4] for line in verdicts(done, check)] == ["PASS"], done.stdout
    assert "equal on both ends" in verdicts(done, "D16")[0]
    assert re.match(r"PASS D18 tcp: one flow \d+\.\d\d GB/s, \d+ flows ", verdicts(done, "D18")[0])
    saved = facts.read_text(encoding="utf-8")
    assert "\npair.state=up\n" in saved and "\nroute.0.out=lo\n" in saved
    assert "\nreach.0.answer=yes\n" in saved
    assert tool("doctor", "--all", "--facts", facts).stdout == done.stdout
    # it serves on
    assert tool("perf", here.address, "--size", "64K", "--iters", "2").returncode == 0


def test_nobody_there(tool):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        done = tool("doctor", "--peer", address, "--only", "D13,D18,D20")
    assert done.returncode == 3
    assert f"the other end {address} does not answer: " in verdicts(done, "D13")[0]
    assert verdicts(done, "D20")[0].startswith("SKIP D20 clocks: not known: the other end: ")


def test_environments_that_differ(tool, serve):
    here = serve("--chunk", "256K", env={"NCCL_DYNAMIC_CHUNK_SIZE": "131072"})
    done = tool("doctor", "--peer", here.address, "--only", "D16",
                env={"NCCL_DYNAMIC_CHUNK_SIZE": "524288"})
    assert done.returncode == 3
    text = "\n".join(verdicts(done, "D16"))
    assert ("FAIL D16 environment: NCCL_DYNAMIC_CHUNK_SIZE is 524288 here, 131072 at the other end"
            in text)
    assert "WARN D16 environment: chunks of 524288 B here, of 262144 B at the other end" in text


def test_what_is_secret_does_not_travel(tool, serve, facts, key):
    here = serve(env={"TCPX_KEY_FILE": str(key), "NCCL_API_TOKEN": "hush", "TCPX_CHANNELS": "2"})
    done = tool("doctor", "--peer", here.address, "--key", key, "--only", "D16,D17",
                "--save-facts", facts)
    saved = facts.read_text(encoding="utf-8")
    assert "peer.env.TCPX_CHANNELS=2\n" in saved
    assert "peer.env.NCCL_API_TOKEN=(hidden)\n" in saved
    assert "peer.env.TCPX_KEY_FILE" not in saved and "peer.key.file" not in saved
    ids = tool("key", "show-id", key).stdout.strip()
    assert f"\npeer.key.ids={ids}\n" in saved and f"\nkey.ids={ids}\n" in saved
    assert "hush" not in saved and key.read_text(encoding="utf-8").split()[-1] not in saved
    assert [line[:4] for line in verdicts(done, "D17")] == ["PASS"]


def test_another_key_is_named_as_the_cause(tool, serve, facts, key, tmp_path):
    here = serve(env={"TCPX_KEY_FILE": str(key)})
    assert tool("key", "new", tmp_path / "other.key").returncode == 0
    done = tool("doctor", "--peer", here.address, "--key", tmp_path / "other.key",
                "--only", "D13,D17", "--save-facts", facts)
    ids = tool("key", "show-id", tmp_path / "other.key").stdout.strip()
    assert f"FAIL D17 key: the other end refuses this key: key ids {ids} here" in done.stdout
    assert "FAIL D13" not in done.stdout
    done = tool("doctor", "--peer", here.address, "--only", "D13,D17")
    assert done.stdout.count("FAIL") == 2 # the line of the check, and the sum
    assert f"FAIL D17 key: no key is given here, and {here.address} needs one" in done.stdout


@pytest.fixture(name="hosts")
def fixture_hosts():
    why = netns.why_no_namespaces()
    if why:
        pytest.skip(why)
    with netns.Hosts(2) as hosts:
        yield hosts


def between(tool, hosts, serve, facts, *args):
    """doctor on host a, serve on both NICs of host b."""
    there = serve("--bind", "gb0,gb1", "--insecure", where=tool.at(hosts.b), lines=2)
    return tool.at(hosts.a)("doctor", "--peer", there.address, "--insecure", "--save-facts", facts,
                            *args)


def test_two_hosts(tool, hosts, serve, facts):
    done = between(tool, hosts, serve, facts)
    saved = facts.read_text(encoding="utf-8")
    assert [line[:4] for line in verdicts(done, "D12")] == ["PASS"], done.stdout
    assert "routes that leave by their NIC: 4, pairs reached: 4" in verdicts(done, "D12")[0]
    out = re.findall(r"^route\.\d\.out=(.*)", saved, re.M)  # IPv4 and IPv6 of each
    assert sorted(out) == ["ga0", "ga0", "ga1", "ga1"]
    assert "\nmtu.route=1500\n" in saved and "\npeer.mtu.route=1500\n" in saved


def test_hosts_with_different_mtu(tool, hosts, serve, facts):
    hosts.b.run("ip", "link", "set", "gb0", "mtu", "1400")
    done = between(tool, hosts, serve, facts, "--only", "D10")
    assert done.returncode == 0, "TCP uses the smaller size"
    assert "WARN D10 kernel: the MTU is 1500 here, 1400 at the other end" in done.stdout


def test_a_key_that_was_not_given_is_named_as_the_cause(tool, hosts, key):
    address = hosts.address("b")
    done = tool.at(hosts.a)("doctor", "--peer", address, "--only", "D13,D17")
    assert done.returncode == 3 and "FAIL D13" not in done.stdout
    assert f"FAIL D17 key: no key is given here, and {address} needs one" in done.stdout
    assert f"tcpx doctor --peer {address} --key FILE" in done.stdout
    # with one it is asked, and nobody answers
    done = tool.at(hosts.a)("doctor", "--peer", address, "--key", key, "--only", "D13,D17")
    assert "FAIL D13" in done.stdout and "FAIL D17" not in done.stdout


def test_a_way_that_drops_large_packets_in_silence(tool, hosts, serve, facts):
    """Connections are made and facts told; whole packets of one rail never arrive."""
    hosts.b.drop(match='iifname "gb1" meta length > 1400')
    done = between(tool, hosts, serve, facts, "--only", "D10,D12")
    assert done.returncode == 3
    fails = [line for line in verdicts(done, "D10") if line.startswith("FAIL")]
    assert len(fails) == 2, done.stdout  # IPv4 and IPv6
    assert fails[0].startswith(
        "FAIL D10 kernel: from 10.77.1.1 to 10.77.1.2: packets of the whole MTU ")
    assert "pairs reached: 4" in verdicts(done, "D12")[0]


def test_a_router_that_says_its_mtu(tool, hosts, serve, facts):
    hosts.a.run("ip", "route", "replace", "10.77.1.2", "dev", "ga1", "mtu", "1300")
    done = between(tool, hosts, serve, facts, "--only", "D10")
    assert done.returncode == 3
    assert "FAIL D10 kernel: packets of 1300 B pass, the NIC's MTU is 1500" in done.stdout


@pytest.fixture(name="lone")
def fixture_lone(hosts):
    """Hosts of a cloud: each address is alone in its subnet, and routes lead to the others'."""
    for host, here, there in ((hosts.a, 1, 2), (hosts.b, 2, 1)):
        for pair in range(2):
            nic = hosts.device(host, pair)
            host.run("ip", "addr", "flush", "dev", nic)
            host.run("ip", "addr", "add", f"10.77.{pair}.{here}/32", "dev", nic)
            host.run("ip", "route", "add", f"10.77.{pair}.{there}", "dev", nic)
    return hosts


def test_addresses_without_a_subnet(tool, lone, serve, facts):
    done = between(tool, lone, serve, facts, "--only", "D10,D12")
    assert "routes that leave by their NIC: 2, pairs reached: 2" in verdicts(done, "D12")[0], \
        done.stdout
    saved = facts.read_text(encoding="utf-8")
    assert re.findall(r"^route\.\d\.(?:from|to)=(.*)", saved, re.M) == [
        "10.77.0.1", "10.77.0.2", "10.77.1.1", "10.77.1.2"]
    assert "\nmtu.path=1500\n" in saved and saved.count(".full=yes\n") == 2


def test_rails_without_a_subnet_are_those_of_one_name(tool, lone, serve, facts):
    """The route leads elsewhere: that is found, for the pair is not made by it."""
    for host, other in ((lone.a, 2), (lone.b, 1)):
        for pair in range(2):
            host.run("ip", "link", "set", lone.device(host, pair), "down")
            host.run("ip", "link", "set", lone.device(host, pair), "name", f"rail{pair}")
            host.run("ip", "link", "set", f"rail{pair}", "up")
        for pair in range(2):
            host.run("ip", "route", "replace", f"10.77.{pair}.{other}", "dev", "rail0")
    there = serve("--bind", "rail0,rail1", "--insecure", where=tool.at(lone.b), lines=2)
    done = tool.at(lone.a)("doctor", "--peer", there.address, "--insecure", "--only", "D12",
                           "--save-facts", facts)
    assert done.returncode == 3
    assert ("FAIL D12 routes: from 10.77.1.1 (rail1) to 10.77.1.2 packets leave by rail0"
            in done.stdout)


def test_a_route_that_takes_the_other_nic(tool, hosts, serve, facts):
    hosts.a.run("ip", "rule", "add", "from", "10.77.1.1", "table", "77", "pref", "10")
    hosts.a.run("ip", "route", "add", "10.77.1.2", "dev", "ga0", "table", "77")
    done = between(tool, hosts, serve, facts, "--only", "D12")
    assert done.returncode == 3
    assert ("FAIL D12 routes: from 10.77.1.1 (ga1) to 10.77.1.2 packets leave by ga0"
            in done.stdout)


def test_a_rail_that_a_firewall_drops(tool, hosts, serve, facts):
    hosts.b.drop(match='iifname "gb1" meta l4proto tcp')
    done = between(tool, hosts, serve, facts, "--only", "D12")
    assert done.returncode == 3
    assert re.search(r"FAIL D12 routes: from 10\.77\.1\.1 to 10\.77\.1\.2:\d+: silent", done.stdout)


def isolated(host, address, name="aux0"):
    """One more NIC with a carrier, on a network that leads nowhere."""
    host.run("ip", "link", "add", name, "type", "veth", "peer", "name", "auxp")
    host.run("ip", "addr", "add", address, "dev", name)
    for device in (name, "auxp"):
        host.run("ip", "link", "set", device, "up")


@pytest.mark.parametrize("bind", ["auto", "aux0,ga0", None])
def test_a_nic_that_leads_nowhere(tool, hosts, serve, bind):
    """Whatever is bound, and NIXL's default where nothing is."""
    isolated(hosts.a, "172.29.2.1/24")
    there = serve("--bind", hosts.address("b"), "--insecure", where=tool.at(hosts.b))
    done = tool.at(hosts.a)("doctor", "--peer", there.address, "--insecure", "--only", "D13,D21",
                            env={"TCPX_BIND": bind} if bind else None)
    text = "\n".join(verdicts(done, "D21"))
    assert ("WARN D21 rails: rail aux0 (172.29.2.1) does not lead to 10.77.0.2: silent"
            in text), done.stdout
    assert "leave by ga0" in text and "export TCPX_BIND=ga0" in text
    assert verdicts(done, "D13")[0].startswith("PASS") and done.returncode == 0


def test_a_nic_of_the_other_end_that_leads_nowhere(tool, hosts, serve):
    """Both ends have an address in the subnet of two networks that never meet."""
    isolated(hosts.a, "172.29.2.1/24")
    isolated(hosts.b, "172.29.2.2/24")
    there = serve("--bind", "aux0," + hosts.address("b"), "--insecure", where=tool.at(hosts.b),
                  lines=2)
    address = f"{hosts.address('b')}:{there.address.rsplit(':', 1)[1]}"
    done = tool.at(hosts.a)("doctor", "--peer", address, "--insecure", "--only", "D21",
                            env={"TCPX_BIND": "auto"})
    assert ("WARN D21 rails: rail aux0 (172.29.2.1) does not lead to 172.29.2.2: "
            in verdicts(done, "D21")[0]), done.stdout


def test_an_address_that_both_ends_have(tool, hosts, serve):
    for host in (hosts.a, hosts.b):
        isolated(host, "192.168.100.1/24", "tmfifo")
    there = serve("--bind", hosts.address("b") + ",tmfifo", "--insecure", where=tool.at(hosts.b),
                  lines=2)
    done = tool.at(hosts.a)("doctor", "--peer", there.address, "--insecure", "--only", "D21",
                            env={"TCPX_BIND": "auto"})
    text = "\n".join(verdicts(done, "D21"))
    assert "rail tmfifo (192.168.100.1) does not lead to 10.77.0.2: both ends have its" in text


@pytest.mark.parametrize("deaf, words", [
    ("a", "path MTU: packets of the whole MTU from the other end to here are lost"),
    ("b", "path MTU: packets of the whole MTU from here to the other end are lost"),
])
def test_a_path_with_a_smaller_mtu(tool, hosts, serve, deaf, words):
    for host in (hosts.a, hosts.b):
        host.run("ip", "link", "set", hosts.device(host), "gso_max_segs", "1")
    host = hosts.a if deaf == "a" else hosts.b
    host.drop(match=f'iifname "{hosts.device(host)}" meta length > 1300')
    there = serve("--bind", hosts.address("b"), "--insecure", where=tool.at(hosts.b))
    done = tool.at(hosts.a)("doctor", "--peer", there.address, "--insecure", "--only", "D22")
    assert done.returncode == 3
    text = verdicts(done, "D22")
    assert len(text) == 1 and text[0].startswith("FAIL D22 path-mtu: " + words), done.stdout


def test_a_path_without_a_hole(tool, hosts, serve, facts):
    done = between(tool, hosts, serve, facts, "--only", "D21,D22")
    assert verdicts(done, "D22") == ["PASS D22 path-mtu: path MTU: whole packets arrive, both ways"]
    assert verdicts(done, "D21")[0].startswith("PASS D21 rails: ")


def unpack(folder):
    """The recorded A3 host as a tree of its own."""
    at = ""
    text = (TOP / "tests/record/a3-high/sysfs.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            at = line.strip("[]")
            continue
        name, link, value = re.fullmatch(r"(\S+) (=|->) ?(.*)", line).groups()
        path = folder / at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if link == "->":
            path.symlink_to(value)
        else:
            path.write_text(value + "\n", encoding="utf-8")
    return folder


@pytest.fixture(name="a3")
def fixture_a3(tool, tmp_path):
    """The A3 host with the emulator, the stand-in for the driver, and counters of its NICs."""
    build = pathlib.Path(tool.path).resolve().parent
    build = next((at for at in (build, build.parent, TOP / "build")
                  if (at / "emu/tcpxemu/libnccl-net-tcpxemu.so").exists()), None)
    if not build:
        pytest.fail("no emulator beside the tool")
    for name in ("rxdm", "played"):
        (tmp_path / name).mkdir()
    for nic in range(1, 5):
        (tmp_path / f"played/eth{nic}").write_text("rx_devmem_pkts: 0\n", encoding="utf-8")
    return {"TCPX_SYSFS": str(unpack(tmp_path / "sys")), "TCPXEMU_STEER": "strict",
            "TCPX_CUDA_LIBRARY": str(build / "emu/fakecuda/libfakecuda.so"),
            "TCPX_PLUGIN_PATH": str(build / "emu/tcpxemu/libnccl-net-tcpxemu.so"),
            "TCPXEMU_MEM": "cuda-host-bounce", "TCPX_GPUDIRECT_SAME_HOST": "1",
            "FAKECUDA_DEVICES": "8", "FAKECUDA_PCI": "04,05,0a,0b,84,85,8a,8b",
            "NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX": str(tmp_path / "rxdm"),
            "TCPXEMU_DEVMEM_DIR": f"{tmp_path}/played", "TCPX_UNPACK_IMPL": "d2d",
            "TCPX_DEVMEM_STATS": f"{tmp_path}/played/%s",
            "NCCL_GPUDIRECTTCPX_CTRL_DEV": "lo"}


@pytest.mark.parametrize("fails, words", [
    ("", "FAIL D14 devices: 8 GPUs on PCI, 2 by the driver"),
    ("init", "PASS D14 devices: GPUs on PCI: 8"),
])
def test_gpus_by_nvml(tool, a3, fails, words):
    """Where it says nothing, the driver's own list counts, if there is one."""
    library = pathlib.Path(a3["TCPX_CUDA_LIBRARY"]).parents[1] / "fakenvml/libfakenvml.so"
    if fails and pathlib.Path("/proc/driver/nvidia/gpus").exists():
        pytest.skip("this machine has GPUs of its own")
    done = tool("doctor", "--only", "D14",
                env=a3 | {"TCPX_NVML_LIBRARY": str(library), "FAKENVML_FAIL": fails})
    assert words in done.stdout


@pytest.fixture(name="rxdm")
def fixture_rxdm(tool, a3):
    """Starts the stand-in for RxDM; it ends with the test."""
    program = pathlib.Path(a3["TCPX_PLUGIN_PATH"]).parents[2] / "emu/fakerxdm/fakerxdm"
    running = []

    def start(mode):
        process = subprocess.Popen(
            [program, "--prefix", a3["NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX"], "--mode", mode],
            stdout=subprocess.PIPE, env=tool.environment())
        running.append(process)
        assert process.stdout.readline() == b"ready\n"

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_an_rxdm_that_answers(tool, a3, rxdm):
    rxdm("ok")
    done = tool("doctor", "--only", "D01,D07,D19", env=a3)
    assert done.returncode == 0, done.stdout
    assert verdicts(done, "D01")[0].startswith(
        "PASS D01 owner: 8 GPUs, by RxDM's preset: 0000:04:00.0")
    assert verdicts(done, "D07")[0].startswith("PASS D07 rxdm: 19 sockets in ")
    assert verdicts(done, "D19")[0].startswith("PASS D19 libraries: ")


@pytest.mark.parametrize("mode, check, words", [
    ("refuse", "D01",
     "FAIL D01 owner: GPU 0000:04:00.0 has no NIC of its own; RxDM has no queues for it"),
    ("silent", "D07", "FAIL D07 rxdm: RxDM's socket .*/queue_ids_by_gpu: silent"),
    (None, "D07", "FAIL D07 rxdm: none of RxDM's 19 sockets is in "),
])
def test_an_rxdm_that_does_not(tool, a3, rxdm, mode, check, words):
    if mode:
        rxdm(mode)
    done = tool("doctor", "--only", "D01,D07,D16", env=a3 | {"TCPX_PLUGIN": "default"})
    assert done.returncode == 3
    assert re.match(words, verdicts(done, check)[0]), done.stdout


def test_a_socket_that_is_missing(tool, a3, rxdm):
    rxdm("ok")
    folder = pathlib.Path(a3["NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX"])
    (folder / "rx_rule_manager").unlink()
    done = tool("doctor", "--only", "D07,D08", env=a3)
    assert done.returncode == 3
    text = verdicts(done, "D07")
    assert len(text) == 1 and "/rx_rule_manager: missing" in text[0]


def probe(tool, env, *args):
    """doctor against a serve of the same kind, which is GPU 0's or that of the NIC."""
    there = Serve(tool, "--transport", "gpudirect", "--plugin", "default", "--gpu", "0",
                  env=env)
    done = tool("doctor", "--peer", there.address, "--plugin", "default", "--only", "D01,D03,D14",
                *args, env=env)
    there.stop()
    return done


def test_packets_that_land_in_gpu_memory(tool, a3):
    done = probe(tool, a3, "--gpu", "0")
    assert [line[:4] for line in verdicts(done, "D01")] == ["PASS"], done.stdout
    assert re.match(r"PASS D03 devmem: 4 probes, rx_devmem_pkts: eth1 \+[1-9]\d*, eth2 \+[1-9]",
                    verdicts(done, "D03")[0]), done.stdout
    assert verdicts(done, "D14")[0].startswith("PASS D14 devices: GPUs on PCI: 8")


def test_each_gpu_with_each_nic(tool, a3, facts):
    """Its own first, then the others by relays; of the GPUs that this process has."""
    two = a3 | {"FAKECUDA_DEVICES": "2", "FAKECUDA_PCI": "04,0a"}
    done = probe(tool, two, "--save-facts", facts)
    saved = facts.read_text(encoding="utf-8")
    pairs = [re.search(rf"^probe\.{at}\.{key}=(.*)", saved, re.M)[1]
             for at in range(4) for key in ("gpu", "nic")]
    assert pairs == ["0000:04:00.0", "eth1", "0000:0a:00.0", "eth2",
                     "0000:04:00.0", "eth2", "0000:0a:00.0", "eth1"], done.stdout
    assert "probe.4.gpu" not in saved and "\nprobe.left=0\n" in saved
    assert [line[:4] for line in verdicts(done, "D03")] == ["PASS"], done.stdout


def test_the_eth2_mystery(tool, a3):
    done = probe(tool, a3 | {"TCPX_PAIRING": "off"}, "--gpu", "0", "--nic", "eth2")
    assert done.returncode == 3
    assert ("FAIL D01 owner: GPU0 (0000:04:00.0) belongs to eth1 by RxDM's preset; "
            "you listen on eth2") \
        in verdicts(done, "D01")[0]
    assert "fix:   export TCPX_NIC=eth1" in verdicts(done, "D01")[0]
    text = verdicts(done, "D03")[0]
    assert text.startswith(
        "FAIL D03 devmem: probe of eth2 and GPU 0000:04:00.0: 8388608 B received, 0 ")
    assert "8388608 B in host memory" in text and "(D01)" in text


def test_an_end_without_the_plugin(tool, a3, serve, tmp_path):
    here = serve()
    done = tool("doctor", "--peer", here.address, "--plugin", "default", "--only", "D03", "--gpu",
                "0", "--save-facts", f"{tmp_path}/facts", env=a3)
    assert done.returncode == 0
    assert verdicts(done, "D03")[0].startswith("SKIP D03 devmem: not probed: ")
    assert "\nprobe.left=4\n" in (tmp_path / "facts").read_text(encoding="utf-8")


if netns.LONG: # the longest runs there may be
    @pytest.mark.parametrize("name, match", [
        ("a peer that is not there", "meta l4proto tcp"),
        ("a peer whose large packets are dropped", "meta length > 1400"),
        ("a peer that goes silent in the middle", "meta l4proto tcp quota over 400 kbytes"),
    ])
    def test_how_long_the_longest_runs_take(tool, hosts, serve, facts, name, match):
        """All three end by themselves, with what they did not learn as not known."""
        there = serve("--bind", "gb0,gb1", "--insecure", where=tool.at(hosts.b), lines=2)
        hosts.b.drop(match=match)
        start = time.monotonic()
        done = tool.at(hosts.a)("doctor", "--peer", there.address, "--insecure",
                                "--save-facts", facts)
        netns.measure(f"doctor --peer, {name}", round(time.monotonic() - start, 1), "s")
        assert done.returncode == 3 or "goes silent" in name, done.stdout
        large = "large packets" in name  # they get smaller
        assert [line[:4] for line in verdicts(done, "D18")] == ["SKIP"] or large, done.stdout

    def test_how_long_a_machine_takes_that_hangs_everywhere(tool, a3, rxdm, tmp_path):
        """RxDM is silent, and the plugin and the driver never come back."""
        rxdm("silent")
        (tmp_path / "bad.c").write_text("#include <unistd.h>\n__attribute__((constructor)) "
                                        "static void run(void) { for (;;) pause(); }\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "bad.so", tmp_path / "bad.c"],
                       check=True)
        start = time.monotonic()
        done = tool("doctor", "--plugin", tmp_path / "bad.so",
                    env=a3 | {"TCPX_CUDA_LIBRARY": str(tmp_path / "bad.so"),
                              "TCPX_NVML_LIBRARY": str(tmp_path / "bad.so")})
        netns.measure("doctor, everything hangs", round(time.monotonic() - start, 1), "s")
        assert "no answer in time" in verdicts(done, "D19")[0]
