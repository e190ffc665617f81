# SPDX-License-Identifier: Apache-2.0
"""Ranks that a launcher starts: who they are, where they meet, and who is not let in."""
import json
import os
import pathlib
import re
import shutil
import socket
import stat
import subprocess

import pytest

import changes
from netns import hosts  # noqa: F401
from test_node import HANG, SMALL, ends_of, port_base, rows

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", pathlib.Path(__file__).parents[2] / "build"))
FILTERS = "TESTS_FILTERS"
RUN = [*SMALL, "--gpus", "0-1", "--channels", "2", "--transport", "tcp", "--timeout", "20"]
OPENMPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMPI_MCA_rmaps_base_oversubscribe": "1",  # up to 4, and from 5 on
           "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
           "OMPI_MCA_plm_rsh_agent": "/bin/false"}
MPIRUN = {"openmpi": ("mpirun.openmpi", "Open MPI", OPENMPI),
          "mpich": ("mpirun.mpich", "MPICH", {})}
# What each launcher sets for rank R of N, all on this host.
VARIABLES = {
    "tcpx": ("your environment", {"TCPX_RANK": "R", "TCPX_SIZE": "N", "TCPX_LOCAL_RANK": "R",
                      "TCPX_LOCAL_SIZE": "N", "TCPX_JOB": "replay/PORT"}),
    "openmpi": ("Open MPI", {"OMPI_COMM_WORLD_RANK": "R", "OMPI_COMM_WORLD_SIZE": "N",
                             "OMPI_COMM_WORLD_LOCAL_RANK": "R",
                             "OMPI_COMM_WORLD_LOCAL_SIZE": "N"}),
    "torchrun": ("torchrun", {"RANK": "R", "WORLD_SIZE": "N", "LOCAL_RANK": "R",
                              "LOCAL_WORLD_SIZE": "N", "TORCHELASTIC_RUN_ID": "none",
                              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "PORT"}),
    "slurm": ("Slurm", {"SLURM_JOB_ID": "PORT", "SLURM_STEP_ID": "0", "SLURM_PROCID": "R",
                        "SLURM_STEP_NUM_TASKS": "N", "SLURM_NTASKS": "99", "SLURM_LOCALID": "R",
                        "SLURM_STEP_NUM_NODES": "1"}),
}


def replayed(name, rank, size, port):
    values = {"R": str(rank), "N": str(size)}
    return {key: values.get(text, text).replace("PORT", str(port))
            for key, text in VARIABLES[name][1].items()}


def start_filtered(tool, command, args, env):
    """By the tool that has the filters of the tests inside, where they are asked for."""
    if FILTERS in env:
        tool = type(tool)(BUILD / "tests/parts/tcpx_filters")
    return tool.start(command, *args, env=env)


def together(tool, envs, *args, command="node"):
    """Runs one process for each environment; their results in order."""
    return ends_of([start_filtered(tool, command, args or RUN, env) for env in envs])


def plain(rank, size, **more):
    return {"TCPX_RANK": str(rank), "TCPX_SIZE": str(size), **more}


def all_well(done, size, gpus=(0, 1)):
    assert [one.returncode for one in done] == [0] * size, [one.stderr for one in done]
    assert [row[:2] for row in rows(done[0].stdout)] == [(rank, gpu) for rank in range(size)
                                                         for gpu in gpus]
    assert all(row[4] == 0 for row in rows(done[0].stdout))
    assert all(not one.stdout for one in done[1:]) # rank 0 speaks for all


@pytest.mark.parametrize("name", sorted(MPIRUN))
def test_mpirun(tool, name):
    program, text, env = MPIRUN[name]
    if not shutil.which(program):
        pytest.skip(f"no {program}")
    done = tool.run([program, "-np", "4", tool.path, "node", *RUN, "--peers", "all"], env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"4 ranks by {text}, rendezvous ")
    assert done.stdout.count("=== ALL GPUs READY ===") == 1
    assert rows(done.stdout) == [(rank, gpu, 6, 6, 0) for rank in range(4) for gpu in (0, 1)]


def test_pmix_carries_the_secret(tool):
    """And the ranks, where no variable of Open MPI says them."""
    if "pmix yes" not in " ".join(tool("info").stdout.split()):
        pytest.skip("built without PMIx, or no libpmix")
    program, _, env = MPIRUN["openmpi"]
    if not shutil.which(program):
        pytest.skip(f"no {program}")
    done = tool.run([program, "-np", "3", tool.path, "node", *RUN, "--launcher", "pmix",
                     "--local-rank", "--gpus", "0-2", "--peers", "all"], env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 ranks by PMIx, rendezvous PMIx\n")
    assert [row[:3] for row in rows(done.stdout)] == [(0, 0, 2), (1, 1, 2), (2, 2, 2)]


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_variables(tool, name):
    port = port_base()
    done = together(tool, [replayed(name, rank, 3, port) for rank in range(3)])
    all_well(done, 3)
    found = re.match(r"3 ranks by (.*), rendezvous (\S+)\n", done[0].stdout)
    assert found[1] == VARIABLES[name][0]
    assert not pathlib.Path(found[2]).exists() # it held a secret


def test_kubernetes(tool, key):
    """An indexed Job: the index, the size and rank 0's address from the manifest, a mounted key."""
    port = port_base()
    envs = [{"JOB_COMPLETION_INDEX": str(rank), "TCPX_SIZE": "2", "TCPX_KEY_FILE": str(key),
             "TCPX_RENDEZVOUS": f"localhost:{port}"} for rank in (0, 1)]
    done = together(tool, envs)
    all_well(done, 2)
    assert done[0].stdout.startswith("2 ranks by Kubernetes, rendezvous localhost\n")


def test_one_process_a_gpu(tool):
    port = port_base()
    done = together(tool, [replayed("torchrun", rank, 3, port) for rank in range(3)], *RUN,
                    "--gpus", "2,4,5", "--local-rank", "--peers", "all")
    assert [one.returncode for one in done] == [0] * 3, [one.stderr for one in done]
    assert [row[:3] for row in rows(done[0].stdout)] == [(0, 2, 2), (1, 4, 2), (2, 5, 2)]


def wait_for(path):
    changes.until(path.parent, path.exists)


def test_the_file_is_ours_alone_and_goes(tool, tmp_path):
    path = tmp_path / "meet"
    env = [plain(rank, 2, TCPX_RENDEZVOUS=str(path)) for rank in (0, 1)]
    first = tool.start("node", *RUN, env=env[0])
    wait_for(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text(encoding="ascii").startswith("tcpx rendezvous 1 -\n")
    second = tool("node", *RUN, env=env[1])
    out, err = first.communicate(timeout=HANG)
    assert (first.returncode, second.returncode) == (0, 0), err.decode() + second.stderr
    assert rows(out.decode()) and not path.exists()
    assert not list(tmp_path.iterdir())


def listening(process):
    """The port of 127.0.0.1 that it listens on."""
    text = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    found = re.search(rf"127\.0\.0\.1:(\d+) .*pid={process.pid},", text)
    if not found:
        process.kill()
        pytest.skip("ss shows no processes here")
    return int(found[1])


def test_a_file_of_a_run_before_is_not_believed(tool, tmp_path):
    """Rank 1 goes where it leads, and is not content with what is there now."""
    path, old = tmp_path / "meet", tmp_path / "old"
    envs = [plain(rank, 2, TCPX_RENDEZVOUS=str(path)) for rank in (0, 1)]
    first = tool.start("node", *RUN, env=envs[0])
    wait_for(path)
    port = listening(first)
    shutil.copy2(path, old)
    first.kill()
    first.communicate()
    shutil.copy2(old, path)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        other.settimeout(HANG)
        second = tool.start("node", *RUN, env=envs[1])
        other.accept()[0].close()
    done = tool("node", *RUN, env=envs[0])
    err = second.communicate(timeout=HANG)[1].decode()
    assert (done.returncode, second.returncode) == (0, 0), done.stderr + err


@pytest.mark.parametrize("what", ["readable", "link", "folder"])
def test_a_file_that_others_could_have_made(tool, tmp_path, what):
    path = tmp_path / "meet"
    if what == "folder":
        path.mkdir(mode=0o700)
    else:
        path.write_text("tcpx rendezvous 1 -\n00\n", encoding="ascii")
        path.chmod(0o644 if what == "readable" else 0o600)
    if what == "link":
        (tmp_path / "link").symlink_to(path)
        path = tmp_path / "link"
    done = tool("node", *RUN, env=plain(1, 2, TCPX_RENDEZVOUS=str(path)))
    assert done.returncode == 1
    assert "rendezvous file" in done.stderr and "TCPX_RENDEZVOUS" in done.stderr


@pytest.mark.parametrize("text", ["", "x", "tcpx rendezvous 1 -\n0", "tcpx rendezvous 1 -\n0g\n",
                                  "tcpx rendezvous 1 other\n00\n",
                                  "tcpx rendezvous 1 -\n" + "00" * 9000 + "\n",
                                  "tcpx rendezvous 1 -\n00\n"], ids=range(7))
def test_a_file_of_something_else_is_waited_out(tool, tmp_path, text):
    path = tmp_path / "meet"
    path.write_text(text, encoding="ascii")
    path.chmod(0o600)
    done = tool("node", *RUN, "--timeout", "1", env=plain(1, 2, TCPX_RENDEZVOUS=str(path)))
    assert done.returncode in (1, 124)
    assert "no control link" in done.stderr


def test_a_folder_that_is_not_there(tool, tmp_path):
    done = tool("node", *RUN, env=plain(0, 2, TCPX_RENDEZVOUS=f"{tmp_path}/none/meet"))
    assert done.returncode == 1
    assert "none/meet: No such file" in done.stderr and "TCPX_RENDEZVOUS" in done.stderr


def test_a_rank_that_the_launcher_lost(tool):
    """Every other one ends in time and says which."""
    port = port_base()
    done = together(tool, [replayed("slurm", rank, 4, port) for rank in (0, 1, 3)], *RUN,
                    "--timeout", "2")
    assert [one.returncode for one in done] == [124, 1, 1], [one.stderr for one in done]
    for one in done:
        assert "rank 2 (never heard of) did not come to stage 'hello' within 2 s" in one.stderr


def test_no_rank_0(tool):
    done = tool("node", *RUN, "--timeout", "1", env=replayed("slurm", 1, 2, port_base()))
    assert done.returncode == 124
    assert "rank 0 did not come to the rendezvous in 1 s" in done.stderr


def test_one_rank_twice(tool, tmp_path):
    env = [plain(rank, 3, TCPX_RENDEZVOUS=f"{tmp_path}/meet") for rank in (0, 1, 1)]
    done = together(tool, env)
    assert [one.returncode for one in done] == [1] * 3, [one.stderr for one in done]
    assert any("two processes say that they are rank 1" in one.stderr for one in done)


NODES2 = {"SLURM_STEP_NUM_NODES": "2"}


@pytest.mark.parametrize("env, args, words", [
    ({"TCPX_RANK": "0"}, [], "TCPX_RANK is set, but TCPX_SIZE is not"),
    ({"TCPX_RANK": "2", "TCPX_SIZE": "2"}, [], "TCPX_RANK=2 is not a rank below TCPX_SIZE=2"),
    ({"RANK": "x", "WORLD_SIZE": "2"}, [], "RANK=x is not a number"),
    ({"RANK": "-1", "WORLD_SIZE": "2"}, [], "RANK=-1 is not a number"),
    ({"TCPX_RANK": "0", "TCPX_SIZE": "1"}, [], "1 rank by your environment; 2 to 1024"),
    ({"TCPX_RANK": "0", "TCPX_SIZE": "1025"}, [], "1025 ranks"),
    ({"TCPX_SIZE": "2"}, [], "but not the rank of this process"),
    ({"TCPX_RENDEZVOUS": "a:1"}, [], "but not the rank of this process"),
    ({"TCPX_RANK": "0", "TCPX_SIZE": "2"}, [], "but no place to meet is known"),
    ({**replayed("slurm", 0, 4, 1), **NODES2}, [], "TCPX_RENDEZVOUS to a path"),
    ({**replayed("slurm", 0, 4, 1), **NODES2, "TCPX_RENDEZVOUS": "/tmp/x"}, [],
     "--bind names no interface"),
    ({"TCPX_RANK": "0", "TCPX_SIZE": "4", "TCPX_LOCAL_RANK": "3", "TCPX_LOCAL_SIZE": "2"}, [],
     "TCPX_LOCAL_SIZE=2 contradicts local rank 3 of 4 ranks"),
    ({"JOB_COMPLETION_INDEX": "0", "TCPX_SIZE": "2", "TCPX_RENDEZVOUS": "job-0.svc:1"}, [],
     "TCPX_KEY_FILE (Kubernetes: a mounted Secret)"),
    ({"TCPX_RANK": "0", "TCPX_SIZE": "2", "TCPX_RENDEZVOUS": "[::1"}, [], "rendezvous '[::1'"),
    ({}, ["--launcher", "pbs"], "there is no launcher 'pbs'"),
    ({}, ["--launcher", "slurm"], "SLURM_STEP_ID is not set"),
    ({}, ["--launcher", "pmix"], "PMI"),
    ({}, ["--local-rank"], "TCPX_LOCAL_RANK"),
    (replayed("slurm", 2, 4, 1), ["--local-rank"], "local rank 2, and --gpus 0-1 names 2"),
    ({}, ["--hostfile", "/none"], "hostfile /none"),
])
def test_wrong_surroundings(tool, env, args, words):
    done = tool("node", *RUN, *args, env=env)
    assert done.returncode == 1, done
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not done.stdout


@pytest.mark.parametrize("args", [["--launcher", "slurm"], ["--local-rank"],
                                  ["--hostfile", "/none"]])
def test_by_hand_and_by_a_launcher(tool, args):
    done = tool("node", *RUN, *args, "127.0.0.1")
    assert done.returncode == 2 and "HOST" in done.stderr


def test_a_launcher_and_a_hostfile(tool):
    done = tool("node", *RUN, "--launcher", "none", "--hostfile", "/none")
    assert done.returncode == 2 and "--launcher none" in done.stderr


@pytest.mark.parametrize("name", ["HOSTFILE", "TCPX_HOSTFILE"])
def test_a_hostfile_that_is_not_meant(tool, name):
    """It is left in the environment, and two are started by hand."""
    env, base = {name: "/none"}, ["--port-base", port_base()]
    server = tool.start("node", *RUN, *base, "--launcher", "none", env=env)
    client = tool("node", *RUN, *base, "127.0.0.1", env=env)
    err = server.communicate(timeout=HANG)[1].decode()
    assert (server.returncode, client.returncode) == (0, 0), err + client.stderr


def test_a_launcher_that_is_not_meant(tool):
    """In a step of Slurm, two by hand."""
    port, env = port_base(), replayed("slurm", 0, 8, 1)
    server = tool.start("node", *RUN, "--launcher", "none", "--port-base", port, env=env)
    client = tool("node", *RUN, "--port-base", port, "127.0.0.1", env=env)
    out, err = server.communicate(timeout=HANG)
    assert (server.returncode, client.returncode) == (0, 0), err.decode() + client.stderr
    assert len(rows(out.decode())) == 4


@pytest.mark.parametrize("text, words", [
    ("", "names no address of this host"), ("10.255.255.1\n", "names no address of this host"),
    ("# nobody\nnot-an-address\n", ":2: 'not-an-address' is not an address"),
    ("127.0.0.1\n127.0.0.1\n",
     ":2: 127.0.0.1 is an address of this host, and so is an earlier one"),
    ("127.0.0.1 slots=two\n", "is not a host"), ("127.0.0.1 slots=0\n", "is not a host"),
    ("127.0.0.1 slots=2\n", "TCPX_LOCAL_RANK says which"),
    ("127.0.0.1\n", "1 rank by the hostfile;")])
def test_hostfiles(tool, tmp_path, text, words):
    path = tmp_path / "hosts"
    path.write_text(text, encoding="ascii")
    done = tool("node", *RUN, env={"HOSTFILE": str(path)})
    assert done.returncode == 1 and words in done.stderr


@pytest.mark.parametrize("local, words", [
    ("x", "TCPX_LOCAL_RANK=x is not a number of ranks"),
    ("-1", "TCPX_LOCAL_RANK=-1 is not a number"),
    ("2", "TCPX_LOCAL_RANK=2, and ")])
def test_local_rank_of_a_hostfile(tool, tmp_path, local, words):
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 slots=2\n", encoding="ascii")
    done = tool("node", *RUN, "--hostfile", path, env={"TCPX_LOCAL_RANK": local})
    assert done.returncode == 1 and words in done.stderr


@pytest.mark.parametrize("slots", ["slots=3", "3"])
def test_slots_of_a_hostfile(tool, tmp_path, slots):
    path = tmp_path / "hosts"
    path.write_text(f"# us\n127.0.0.1 {slots} # three\n", encoding="ascii")
    port = port_base()
    done = together(tool, [{"TCPX_LOCAL_RANK": str(rank)} for rank in range(3)], *RUN,
                    "--hostfile", path, "--port-base", port)
    all_well(done, 3)


def started(tool, hosts, *args, env=({}, {})): # noqa: F811
    return ends_of([tool.at(host).start(*args, "--bind", hosts.address(host), env=env[i])
                    for i, host in enumerate((hosts.a, hosts.b))])


def test_two_hosts_by_a_shared_file(tool, with_crypto, hosts, tmp_path): # noqa: F811
    """Nobody has a key, and nothing is insecure: the secret is in the file."""
    envs = [plain(rank, 2, TCPX_RENDEZVOUS=f"{tmp_path}/meet", TCPX_LOCAL_SIZE="1")
            for rank in (0, 1)]
    done = started(tool, hosts, "node", *RUN, env=envs)
    assert [one.returncode for one in done] == [0, 0], done
    assert len(rows(done[0].stdout)) == 4


def test_two_hosts_by_a_hostfile(tool, with_crypto, hosts, tmp_path): # noqa: F811
    path = tmp_path / "hosts"
    path.write_text(f"{hosts.address('a')}\n{hosts.address('b')}\n", encoding="ascii")
    args = ["node", *RUN, "--hostfile", path]
    refused = started(tool, hosts, *args, "--timeout", "2")
    assert [one.returncode for one in refused] == [1, 1]
    assert all("TCPX_KEY_FILE" in one.stderr for one in refused), refused
    done = started(tool, hosts, *args, "--key", hosts.key)
    assert [one.returncode for one in done] == [0, 0], done
    assert done[0].stdout.startswith("2 ranks by the hostfile")


def test_who_only_knows_the_address_is_not_let_in(tool, tmp_path):
    """A session of a launched run listens; a stranger with its address and no secret comes."""
    path = tmp_path / "meet"
    first = tool.start("node", *RUN, env=plain(0, 2, TCPX_RENDEZVOUS=str(path)))
    wait_for(path)
    port = listening(first)
    stranger = tool("node", *RUN, "--timeout", "1", "--port-base", port + 1, "127.0.0.1")
    assert stranger.returncode == 1 and "authentication failed" in stranger.stderr
    done = tool("node", *RUN, env=plain(1, 2, TCPX_RENDEZVOUS=str(path)))
    first.communicate(timeout=HANG)
    assert (first.returncode, done.returncode) == (0, 0)


MESH = ["--mem", "host", "--size", "64K", "--iters", "2", "--memory", "128K", "--repeat", "2",
        "--transport", "tcp", "--timeout", "20"]


@pytest.mark.parametrize("op", ["write", "read", "send"])
@pytest.mark.parametrize("gpus, size", [("0-1", 3), ("0-2", 2), ("7", 3)])
def test_mesh(tool, op, gpus, size):
    port = port_base()
    done = together(tool, [replayed("slurm", rank, size, port) for rank in range(size)], *MESH,
                    "--op", op, "--gpus", gpus, command="mesh")
    assert [one.returncode for one in done] == [0] * size, [one.stderr for one in done]
    first, last = int(gpus[0]), int(gpus[-1])
    ends = [(rank, gpu) for rank in range(size) for gpu in range(first, last + 1)]
    matrix = [line.split() for line in done[0].stdout.splitlines() if re.match(r" +r\d g\d ", line)]
    assert [(int(row[0][1:]), int(row[1][1:])) for row in matrix] == ends
    for at, row in enumerate(matrix):
        for to, text in enumerate(row[2:]):
            assert (text == "-") == (ends[at][0] == ends[to][0])


@pytest.mark.usefixtures("with_json")
@pytest.mark.parametrize("op", ["write", "read"])
def test_mesh_json(tool, tmp_path, op):
    port = port_base()
    done = together(tool, [replayed("slurm", rank, 3, port) for rank in range(3)], *MESH,
                    "--op", op, "--gpus", "0-1", "--json", tmp_path / "mesh.json", command="mesh")
    assert [one.returncode for one in done] == [0] * 3, [one.stderr for one in done]
    ends = [(rank, gpu) for rank in range(3) for gpu in range(2)]
    found = json.loads((tmp_path / "mesh.json").read_text(encoding="utf-8"))
    assert (found["schema"], found["tool"], found["verdict"]) == (1, "mesh", "ok")
    want = sorted([list(a), list(b)] for a in ends for b in ends if a[0] != b[0])
    assert sorted([cell["from"], cell["to"]] for cell in found["cells"]) == want
    for cell in found["cells"]:
        assert 0 < cell["least"] <= cell["rate"] <= cell["most"] and cell["wrong"] == 0
    told = tool("report", tmp_path / "mesh.json")
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert lines[0] == f"mesh of 3 ranks, 6 GPUs: {op} of 64 KiB, 24 links"
    assert lines[1] == "median {}, least {}, most {}".format(*re.search(
        r"^24 links: median (.* GB/s), least (\S+), most (\S+) ", done[0].stdout, re.M).groups())


def test_mesh_by_hand(tool):
    base = ["--port-base", port_base(), *MESH, "--gpus", "0"]
    server = tool.start("mesh", *base)
    client = tool("mesh", *base, "127.0.0.1")
    out, err = server.communicate(timeout=HANG)
    assert (server.returncode, client.returncode) == (0, 0), err.decode() + client.stderr
    assert re.search(r"^2 links: median [\d.]+ GB/s, least [\d.]+, most [\d.]+   0 wrong bytes$",
                     out.decode(), re.M)


def test_every_rank_hears_of_a_flipped_byte(tool):
    """That came to one of them alone."""
    port = port_base()
    envs = [replayed("slurm", rank, 2, port) for rank in range(2)]
    envs[1][FILTERS] = "fault:flip=1"
    done = together(tool, envs, *RUN, "--gpus", "0", "--size", "1M", "--memory", "2M")
    assert [one.returncode for one in done] == [4] * 2, [one.stderr for one in done]
    assert sorted(row[4] > 0 for row in rows(done[0].stdout)) == [False, True]
    assert all("bytes are wrong" in one.stderr for one in done)


def test_mesh_with_other_options(tool):
    base = ["--port-base", port_base(), *MESH, "--gpus", "0"]
    server = tool.start("mesh", *base)
    client = tool("mesh", *base, "--repeat", "1", "127.0.0.1")
    err = server.communicate(timeout=HANG)[1].decode()
    assert (server.returncode, client.returncode) == (1, 1)
    assert re.search(r"was started with --repeat 1, rank 0 \(.*\) with --repeat 2\b",
                     err + client.stderr, re.M)


def test_mesh_sees_a_flipped_byte(tool):
    port = port_base()
    envs = [replayed("slurm", rank, 3, port) for rank in range(3)]
    envs[1][FILTERS] = "fault:flip=1"
    done = together(tool, envs, *MESH, "--gpus", "0", "--size", "1M", "--memory", "2M",
                    command="mesh")
    assert [one.returncode for one in done] == [4] * 3, [one.stderr for one in done]
    assert re.search("[1-9]\\d* wrong bytes", done[0].stdout)
