# SPDX-License-Identifier: Apache-2.0
"""tcpx doctor: recorded machines against goldens, facts that are none, and this machine.

RENEW_GOLDEN=1 writes tests/golden/doctor/ anew; look at the difference before it is committed.
"""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
FACTS = TOP / "tests/record/facts"
GOLDEN = TOP / "tests/golden/doctor"
FAILS = {"a3-healthy": [], "a3-eth2": ["D01", "D03"],
         "wrong-environment": ["D06", "D09", "D16", "D16"], "a3-no-rxdm": ["D07", "D16"],
         "laptop": [],
         "peer-differs": ["D10", "D10", "D12", "D12", "D16", "D17", "D22", "D22"],
         "everything-wrong": ["D01", "D01", "D02", "D03", "D03", "D03", "D05", "D05", "D05", "D05",
                              "D06", "D07", "D07", "D07", "D08", "D09", "D09", "D10", "D10", "D11",
                              "D11", "D13", "D14", "D14", "D15", "D17", "D19", "D19", "D21"],
         "container": ["D01", "D07", "D14", "D14", "D14", "D17"],
         "key-owner": ["D17"], "key-missing": ["D17"], "key-denied": ["D17"],
         "key-malformed": ["D17"], "key-refused": ["D17"],
         "key-not-given": ["D17"], "slow-link": [], "virtual-link": [],
         "mtu-differs": [], "peer-refused": ["D13"], "peer-silent": ["D13"],
         "peer-no-name": ["D13"], "peer-unreachable": ["D13"],
         "wrong-values": ["D16", "D16", "D17"]}
IDS = [f"D{number:02}" for number in range(1, 23)]


def golden(name, text):
    path = GOLDEN / name
    if os.environ.get("RENEW_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def results(text):
    """[(verdict, id, lines below it)]"""
    found = []
    for line in text.splitlines()[:-1]:
        head = re.match(r"(PASS|WARN|FAIL|SKIP) (D\d\d) \S", line)
        if head:
            found.append((head[1], head[2], []))
        else:
            assert line.startswith("         ")
            found[-1][2].append(line.strip())
    return found


@pytest.mark.parametrize("name", sorted(FAILS))
def test_recorded_machines(tool, name):
    done = tool("doctor", "--all", "--facts", FACTS / f"{name}.facts")
    assert done.stderr == ""
    assert done.returncode == (3 if FAILS[name] else 0)
    golden(f"{name}.txt", done.stdout)
    found = results(done.stdout)
    assert [check for verdict, check, _ in found if verdict == "FAIL"] == FAILS[name]
    assert sorted({check for _, check, _ in found}) == IDS
    for verdict, _, below in found:
        assert [line.split()[0] for line in below if re.match(r"(cause|fix):", line)] == (
            ["cause:", "fix:"] if verdict in ("WARN", "FAIL") else [])
    counts = [sum(verdict == name for verdict, _, _ in found)
              for name in ("FAIL", "WARN", "PASS", "SKIP")]
    assert done.stdout.splitlines()[-1] == "{} FAIL, {} WARN, {} PASS, {} SKIP".format(*counts)


@pytest.mark.parametrize("name", sorted(FAILS))
def test_recorded_machines_as_json(tool, with_json, name):
    done = tool("doctor", "--facts", FACTS / f"{name}.facts", "--json", "-")
    assert done.returncode == (3 if FAILS[name] else 0)
    golden(f"{name}.json", done.stdout)
    document = json.loads(done.stdout)
    assert (document["schema"], document["tool"]) == (1, "doctor")
    for check in document["checks"]:
        assert set(check) == {"id", "name", "verdict", "evidence", "cause", "fix"}
        wrong = check["verdict"] in ("WARN", "FAIL")
        assert check["evidence"] and bool(check["cause"]) == bool(check["fix"]) == wrong
    assert sum(document["counts"].values()) == len(document["checks"])


def test_skipped_checks_are_one_line(tool):
    """All of them with --all; those that are asked for by --only are shown anyway."""
    facts = ["--facts", FACTS / "key-missing.facts"]
    lines = tool("doctor", *facts).stdout.splitlines()
    assert [line for line in lines if line.startswith("SKIP")] == []
    assert lines[-2:] == ["20 checks skipped; --all shows them", "1 FAIL, 0 WARN, 1 PASS, 20 SKIP"]
    assert tool("doctor", "--all", *facts).stdout.count("\nSKIP ") == 19
    lines = tool("doctor", "--only", "D12", *facts).stdout.splitlines()
    assert len(lines) == 3 and lines[0].startswith("SKIP D12 routes: not known: ")


def test_a_terminal_gets_lines_of_80_columns(tool):
    """Fixes stay whole, since they are copied into a shell."""
    done = subprocess.run(
        ["script", "-qec", f"{tool.path} doctor --facts {FACTS / 'everything-wrong.facts'}",
         "/dev/null"],
        capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})
    lines = [line.rstrip("\r") for line in done.stdout.splitlines()]
    fix = False
    for line in lines:
        fix = line.startswith(" " * 9 + "fix:") or (fix and line.startswith(" " * 16))
        assert fix or len(line) <= 80, line
    whole = tool("doctor", "--facts", FACTS / "everything-wrong.facts").stdout
    assert max(map(len, whole.splitlines())) > 80
    assert "".join(whole.split()) == "".join("".join(lines).split())


def test_checks_have_names(tool):
    facts = ["--facts", FACTS / "key-missing.facts"]
    by_id = tool("doctor", *facts, "--only", "D12,D17").stdout
    assert tool("doctor", *facts, "--only", "routes,Key").stdout == by_id
    done = tool("doctor", "--only", "route")
    assert done.returncode == 2 and "--only: 'route' is not a check" in done.stderr


def said(kind):
    """What rules say, in the order of the source: a list of (file and line, texts) a call."""
    for path in sorted((TOP / "tools/doctor").glob("doctor_rules*.c")):
        source = path.read_text(encoding="utf-8")
        for call in re.finditer(rf"\tdoctor_{kind}\(\s*j,(.*?)\);\n", source, re.S):
            texts = re.findall(r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*', call[1])
            yield (f"{path.name}:{source[:call.start()].count(chr(10)) + 1}",
                   [json.loads('"' + re.sub(r'"\s*"', "", text)[1:-1] + '"') for text in texts])


def is_said(text, by):
    """Whether one of the results says a text of printf()."""
    parts = [re.escape(part) for part in re.split(r"%[-.*0-9]*(?:ll)?[sduf]", text)]
    return any(re.search(".*".join(parts), line, re.S) for line in by)


def test_every_fail_has_a_golden():
    """Each place where a rule fails is in a golden as FAIL, and each cause there is in one."""
    checks = [check for name in FAILS
              for check in json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))["checks"]]
    fails = [check["evidence"] for check in checks if check["verdict"] == "FAIL"]
    places = list(said("fail"))
    assert len(places) > 30  # they were found
    lacking = [place for place, texts in places if not is_said(texts[0], fails)]
    causes = [check["cause"] for check in checks]
    lacking += [f"{place} {text}" for place, texts in said("cause") for text in texts
                if not is_said(text, causes)]
    assert not lacking, "\n".join(lacking)


def test_fixes_alone_are_lines_for_a_shell(tool):
    done = tool("doctor", "--facts", FACTS / "a3-eth2.facts", "--fix")
    assert done.returncode == 3
    assert done.stdout.splitlines() == [
        "export TCPX_NIC=eth1", "# or, to stay on eth2, one of its GPUs: 2,3",
        "tcpx doctor --only D01,D04,D05,D06,D07 --nic eth2", "export TCPX_NIC=eth1"]
    for name in FAILS:
        fixes = tool("doctor", "--facts", FACTS / f"{name}.facts", "--fix").stdout
        assert tool.run(["sh", "-n", "-c", fixes]).returncode == 0


def test_fixes_do_what_they_say_and_nothing_else(tool, tmp_path):
    """Facts may come from anywhere, and a user may give the fixes to a shell."""
    evil = f"'; touch {tmp_path}/evil; $(touch {tmp_path}/evil) `touch {tmp_path}/evil` '"
    text = (FACTS / "a3-eth2.facts").read_text(encoding="utf-8")
    text = re.sub(r"=(eth\d|/etc/tcpx/cluster\.key)$", f"=\\1{evil}", text, flags=re.M)
    more = [f"env.TCPX_CHANELS={evil}", f"env.NCCL_SOKET_IFNAME={evil}", "pair.state=up",
            f"peer.env.NCCL_INLINE_THRESHOLD={evil}", "key.state=mode",
            f"problem.0.what=x: y\nproblem.0.fix=touch {tmp_path}/evil\nproblem.0.fatal=yes",
            f"problem.1.what=x: y\nproblem.1.fix=export A=1; touch {tmp_path}/evil"]
    text = text.replace("key.state=ok\n", "").replace("end=1", "\n".join(more) + "\nend=1")
    (tmp_path / "facts").write_text(text, encoding="utf-8")
    done = tool("doctor", "--facts", tmp_path / "facts", "--fix")
    assert done.returncode == 3 and "evil" in done.stdout, done.stderr
    harmless = "".join(f"{name}() {{ :; }}\n" for name in ("ethtool", "ip", "chmod", "tcpx"))
    tool.run(["sh", "-c", harmless + done.stdout])
    assert not (tmp_path / "evil").exists(), done.stdout


def test_only_some_checks(tool):
    done = tool("doctor", "--facts", FACTS / "a3-eth2.facts", "--only", "D20,d02")
    assert [check for _, check, _ in results(done.stdout)] == ["D02", "D20"]
    assert done.returncode == 0


def test_gpu_and_nic_are_put_over_recorded_facts(tool):
    facts = FACTS / "a3-healthy.facts"
    done = tool("doctor", "--facts", facts, "--only", "D01", "--gpu", "2", "--nic", "eth3")
    assert done.returncode == 3
    assert "GPU2 (0000:0a:00.0) belongs to eth2" in done.stdout
    assert "one of its GPUs: 4,5" in done.stdout
    done = tool("doctor", "--facts", facts, "--only", "D01", "--gpu", "2", "--nic", "eth2")
    assert done.returncode == 0


@pytest.mark.parametrize("text, words", [
    ("", "truncated: the last line is not end=1"),
    ("format=1\nkernel=6\n", "truncated"),
    ("format=7\nend=1\n", "line 1 is not format=1"),
    ("format=1\n\nkernel=6\nkernell=6\nend=1\n", "line 3: unknown key 'kernell'"),
    ("format=1\nnic.0.mtu=banana\nend=1\n", "line 2: nic.0.mtu is 'banana', and must be a whole"),
    ("format=1\nnic.0.mtu=" + "9" * 30 + "\nend=1\n", "must be a whole number"),
    ("format=1\nhost=" + "x" * 5000 + "\nend=1\n", "line 2 is no key=value"),
    ("format=1\nhost=\0\nend=1\n", "no text"),
])
def test_facts_that_are_none(tool, tmp_path, text, words):
    path = tmp_path / "facts"
    path.write_text(text, encoding="utf-8")
    done = tool("doctor", "--facts", path)
    assert done.returncode == 1 and done.stdout == ""
    assert words in done.stderr and len(done.stderr.splitlines()) == 1


def test_every_cut_of_a_facts_file_is_refused(tool, tmp_path):
    lines = (FACTS / "laptop.facts").read_text(encoding="utf-8").splitlines(keepends=True)
    path = tmp_path / "facts"
    for count in range(0, len(lines), 7):
        path.write_text("".join(lines[:count]), encoding="utf-8")
        done = tool("doctor", "--facts", path)
        assert (done.returncode, done.stdout) == (1, "") and "truncated" in done.stderr


def test_no_facts_file(tool, tmp_path):
    done = tool("doctor", "--facts", tmp_path / "none")
    assert done.returncode == 1 and "No such file" in done.stderr
    done = tool("doctor", "--facts", tmp_path)
    assert done.returncode == 1 and "Is a directory" in done.stderr
    done = tool("doctor", "--only", "D08", "--save-facts", tmp_path / "no/folder")
    assert done.returncode == 1 and "--save-facts" in done.stderr


@pytest.mark.parametrize("args, words", [
    (["--only", "D99"], "'D99' is not a check"),
    (["--facts", "x", "--peer", "host"], "--peer is for a live run"),
    (["--fix", "--json", "-"], "exclude each other"),
    (["--insecure"], "--insecure is for --peer"),
    (["--gpu", "many"], "not a whole number"),
])
def test_wrong_usage(tool, args, words):
    done = tool("doctor", *args)
    assert done.returncode == 2 and words in done.stderr and done.stdout == ""


def test_this_machine(tool, tmp_path):
    """Ends by itself, judges everything, and what it saved is judged the same."""
    done = tool("doctor", "--all", "--save-facts", tmp_path / "facts")
    assert done.returncode in (0, 3), done.stderr
    assert sorted({check for _, check, _ in results(done.stdout)}) == IDS
    again = tool("doctor", "--all", "--facts", tmp_path / "facts")
    assert (again.stdout, again.returncode) == (done.stdout, done.returncode)


def test_keys_are_documented():
    source = (TOP / "tools/doctor/doctor_keys.c").read_text(encoding="utf-8")
    page = (TOP / "docs/design/doctor-facts.md").read_text(encoding="utf-8")
    for key in re.findall(r'^\t\{"([^"]+)", DOCTOR_', source, re.M):
        assert f"`{key}`" in page, key


def test_probes_take_no_time_of_their_own():
    """Each deadline is made by doctor_until(), within what is left of the whole run's."""
    made = [(path.name, line.strip()) for path in sorted((TOP / "tools/doctor").glob("*.c"))
            for line in path.read_text(encoding="utf-8").splitlines() if "clock_after(" in line]
    assert made == [
        ("doctor_probe.c", "int64_t until = clock_after(ns);"),
        ("doctor_probe.c",
         "int64_t end_ns = clock_after(opts->peer ? DOCTOR_PAIR_NS : DOCTOR_LOCAL_NS);"),
        ("doctor_probe.c", "doctor_probe_machine(facts, clock_after(RXDM_NS));")]  # a serve's


def test_a_key_that_others_may_read(tool, key):
    key.chmod(0o644)
    done = tool("doctor", "--only", "D17", "--key", key)
    assert done.returncode == 3 and f"chmod 600 {key}" in done.stdout
    key.chmod(0o600)
    secret = key.read_text(encoding="utf-8").strip().splitlines()[-1]
    done = tool("doctor", "--only", "D17", "--key", key, "--save-facts", f"{key}.facts")
    assert done.returncode == 0
    assert tool("key", "show-id", key).stdout.strip() in done.stdout
    saved = pathlib.Path(f"{key}.facts").read_text(encoding="utf-8")
    assert secret not in done.stdout and secret not in saved


def test_a_port_that_is_taken(tool, serve):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = tool("doctor", "--only", "D13", env={"TCPX_OOB_PORT": str(port)})
        assert re.match(rf"WARN D13 port: port {port} of this host is taken by "
                        rf".*\(pid {os.getpid()}\)", done.stdout)
    port = serve().address.split(":")[1]
    done = tool("doctor", "--only", "D13", env={"TCPX_OOB_PORT": port})
    assert re.match(rf"PASS D13 port: port {port} of this host is served by tcpx "
                    r"\(tcpx \(pid \d+\)\)", done.stdout)


def test_a_misspelt_variable(tool):
    done = tool("doctor", "--only", "D16", env={"TCPX_CHANELS": "3"})
    assert done.returncode == 0
    assert "WARN D16 environment: TCPX_CHANELS=3 has no effect" in done.stdout
    assert "unset TCPX_CHANELS; export TCPX_CHANNELS=3" in done.stdout


@pytest.mark.parametrize("name, value, allowed", [
    ("TCPX_CHANNELS", "99", "is not in 1..64"), ("TCPX_CHANNELS", "abc", "is not in 1..64"),
    ("TCPX_CONGESTION", "nonsense", "and the kernel has: "),
    ("TCPX_BIND", "eth9", ": eth9 is neither an interface nor an address"),
    ("TCPX_CTRL_IP", "host", "is not an IP address")])
def test_a_wrong_value(tool, name, value, allowed):
    """Also without a plugin; the fix says what is allowed where the line does not."""
    done = tool("doctor", "--only", "D16", env={name: value})
    found = re.search(rf"^(WARN|FAIL) D16 environment: {name}={value}\W.*", done.stdout, re.M)
    assert found and allowed in found[0], done.stdout
    assert done.returncode == (3 if found[1] == "FAIL" else 0)
    assert f"unset {name}" in done.stdout or f"set {name} to one of the list" in done.stdout


def test_an_interface_that_is_not_there_is_not_listened_on(tool):
    done = tool("doctor", "--only", "D17", env={"TCPX_BIND": "eth9"})
    assert done.returncode == 3
    assert "TCPX_BIND: eth9 is neither an interface nor an address" in done.stdout
    assert "eth9 is listened on" not in done.stdout and "use one of: lo" in done.stdout


def test_a_plugin_that_does_not_load(tool, tmp_path):
    path = tmp_path / "plugin.so"
    path.write_text("no library", encoding="utf-8")
    done = tool("doctor", "--only", "D19", "--plugin", path)
    assert done.returncode == 3 and f"FAIL D19 libraries: {path} does not load: " in done.stdout


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
@pytest.mark.parametrize("body, words", [
    ("_exit(3)", "does not load: "), ("raise(9)", "crashed, signal 9"),
    ("for (;;) pause()", "no answer in time"),
])
def test_a_plugin_that_ends_or_hangs_its_process(tool, tmp_path, body, words):
    """It is loaded in a process of its own; doctor goes on and names it."""
    source, path = tmp_path / "bad.c", tmp_path / "bad.so"
    source.write_text("#include <signal.h>\n#include <unistd.h>\n"
                      f"__attribute__((constructor)) static void run(void) {{ {body}; }}\n",
                      encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, source], check=True)
    done = tool("doctor", "--only", "D08,D19", "--plugin", path)
    assert done.returncode == 3
    assert re.search(rf"^FAIL D19 libraries: {path} .*{words}", done.stdout, re.M), done.stdout
    assert "SKIP D08 versions: tcpx " in done.stdout  # nobody says RxDM's version


def test_the_nccl_of_programs_and_of_the_plugin(tool, tmp_path):
    """By the names of the files: nothing of them is loaded."""
    for folder, version in (("ours", "2.19.3"), ("plugins", "2.18.5")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"libnccl.so.{version}").write_text("", encoding="utf-8")
        (tmp_path / folder / "libnccl.so.2").symlink_to(f"libnccl.so.{version}")
    plugin = tmp_path / "plugins/plugin.so"
    plugin.write_text("", encoding="utf-8")
    done = tool("doctor", "--only", "D08", "--plugin", plugin,
                env={"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}/ours:{tmp_path}/plugins"})
    assert "WARN D08 versions: NCCL 2.19.3 is loaded, the plugin was made for 2.18.5" in done.stdout
    done = tool("doctor", "--only", "D08", "--plugin", plugin,
                env={"LD_LIBRARY_PATH": f"{tmp_path}/plugins"})
    assert re.match("SKIP D08 versions: .*NCCL 2.18.5; not known: the version of RxDM$",
                    done.stdout,
                    re.M)


def test_a_check_that_is_skipped_says_what_it_is(tool):
    done = tool("doctor", "--only", "D02,D06")
    assert re.search(r"^SKIP D02 device: not known: .*\n +check: the current device is the GPU ",
                     done.stdout, re.M), done.stdout
    assert re.search(r"^SKIP D06 settle: .*\n +check: the wait for flow steering ", done.stdout,
                     re.M)
