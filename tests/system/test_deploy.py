# SPDX-License-Identifier: Apache-2.0
"""deploy/: the manifests fit the tool and each other, and hold no secret."""
import os
import pathlib
import re
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = TOP / "deploy"
MANIFESTS = sorted(DEPLOY.glob("kubernetes/*.yaml"))
SCRIPTS = [DEPLOY / "mpirun/run.sh", DEPLOY / "slurm/tcpx-node.sbatch"]


def options_in(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))


def options_of(tool, command):
    return options_in(tool(command, "--help").stdout)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests(tool, path):
    yaml = pytest.importorskip("yaml")
    text = path.read_text(encoding="utf-8")
    service, job = yaml.safe_load_all(text)
    spec = job["spec"]
    pod = spec["template"]["spec"]
    main = pod["containers"][0]
    env = {one["name"]: one["value"] for one in main["env"]}
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == int(env["TCPX_SIZE"])
    name = job["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": name}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert env["TCPX_RENDEZVOUS"].split(":")[0] == f"{name}-0.{pod['subdomain']}"
    secrets = {one["name"]: one["secret"] for one in pod["volumes"] if "secret" in one}
    mounts = {one["name"]: one for one in main["volumeMounts"]}
    (volume, secret), = secrets.items()
    assert secret["defaultMode"] == 0o400 and mounts[volume]["readOnly"]
    assert env["TCPX_KEY_FILE"].startswith(mounts[volume]["mountPath"] + "/")
    assert {one["name"] for one in main["volumeMounts"]} <= {one["name"] for one in pod["volumes"]}
    assert not re.search("[0-9a-fA-F]{32}", text)
    assert main["command"][:2] == ["tcpx", "node"]
    assert options_in(" ".join(main["command"])) <= options_of(tool, "node")


def test_the_sidecar_serves_the_workload():
    """RxDM's folder of sockets is the one that both mount and that the plugin is told of."""
    yaml = pytest.importorskip("yaml")
    text = (DEPLOY / "kubernetes/tcpx.yaml").read_text(encoding="utf-8")
    pod = list(yaml.safe_load_all(text))[1]["spec"]["template"]["spec"]
    (rxdm,), (main,) = pod["initContainers"], pod["containers"]
    assert rxdm["restartPolicy"] == "Always" and pod["hostNetwork"]  # else it blocks the others
    env = {one["name"]: one["value"] for one in main["env"]}
    sockets = env["NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX"]
    assert rxdm["command"][rxdm["command"].index("--uds_path") + 1] == sockets
    ours, theirs = ({mount["mountPath"]: mount["name"] for mount in one["volumeMounts"]}
                    for one in (main, rxdm))
    assert ours[sockets] == theirs[sockets]
    volume, = (one for one in pod["volumes"] if one["name"] == ours[sockets])
    assert "emptyDir" in volume
    assert os.path.dirname(env["TCPX_PLUGIN_PATH"]) in ours
    assert set(env["LD_LIBRARY_PATH"].split(":")) <= set(ours)
    assert rxdm["env"][0]["value"] in theirs


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_what_differs_is_marked(path):
    """The images, the three numbers of hosts, and over plain TCP the interface and the GPUs."""
    lines = path.read_text(encoding="utf-8").splitlines()
    marked = "\n".join(line for pair in zip(["", *lines], lines) if "# change" in " ".join(pair)
                       for line in pair[1:])
    wanted = ["<", "completions: ", "parallelism: ", 'value: "2"']
    if path.name == "tcp.yaml":
        wanted += ["--bind, eth0", "nvidia.com/gpu"]
    for word in wanted:
        found = [line for line in lines if word in line]
        assert found and all(line in marked for line in found), word


def test_the_key_of_a_pod_that_is_not_root(tool, key, tmp_path):
    """The guide's init container makes a key that is taken from a Secret that is refused."""
    yaml = pytest.importorskip("yaml")
    text = (TOP / "docs/guide/containers-kubernetes.md").read_text(encoding="utf-8")
    pod = yaml.safe_load(re.search(r"```yaml\n(.*?)```", text, re.S)[1])
    first, = pod["initContainers"]
    volumes = {one["name"]: one for one in pod["volumes"]}
    for mount in first["volumeMounts"]:
        place = tmp_path / mount["mountPath"][1:]
        place.mkdir(parents=True)
        if "secret" in volumes[mount["name"]]: # a link into ..data, as a Secret is mounted
            (place / "..data").mkdir()
            (place / "..data/key").write_bytes(key.read_bytes())
            (place / "..data/key").chmod(volumes[mount["name"]]["secret"]["defaultMode"])
            (place / "key").symlink_to("..data/key")
            secret = place / "key"
        else:
            copy = place / "key"
    run = ("perf", "--loopback", "--size", "64K", "--iters", "4", "--key")
    refused = tool(*run, secret)
    assert refused.returncode == 1 and "others may use it" in refused.stderr
    command = [word if word[0] != "/" else tmp_path / word[1:] for word in first["command"]]
    subprocess.run(command, check=True)
    assert copy.read_bytes() == key.read_bytes() and tool(*run, copy).returncode == 0
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_use_options_that_are_there(tool, path):
    text = path.read_text(encoding="utf-8")
    assert subprocess.run(["bash", "-n", path], check=False).returncode == 0
    ours = text[text.index("\ttcpx " if "\ttcpx " in text else " tcpx \""):]
    for command in ("node", "mesh"):
        assert options_in(ours) and options_in(ours) <= options_of(tool, command)


def played(tmp_path, name):
    """A launcher that shows how it was called."""
    path = tmp_path / name
    path.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="ascii")
    path.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_mpirun_passes_what_ranks_need(tool, tmp_path):
    env = {**played(tmp_path, "mpirun"), "TCPX_LOG": "info", "NICS": "eth7"}
    script = DEPLOY / "mpirun/run.sh"
    done = tool.run([script, "hosts", "mesh", "--size", "1M"], env=env)
    words = done.stdout.split()
    assert words[:2] == ["--hostfile", "hosts"]
    assert "TCPX_LOG" in words and words[words.index("TCPX_LOG") - 1] == "-x"
    assert words[words.index("tcpx"):] == ["tcpx", "mesh", "--bind", "eth7", "--size", "1M"]
    assert tool.run([script, "hosts"], env=env).returncode == 2


def test_slurm_meets_in_a_file_of_the_job(tool, tmp_path):
    env = {**played(tmp_path, "srun"), "HOME": str(tmp_path), "SLURM_JOB_ID": "77"}
    done = tool.run(["bash", DEPLOY / "slurm/tcpx-node.sbatch"], env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1:5] == ["tcpx", "node", "--bind", "eth1,eth2,eth3,eth4"]
