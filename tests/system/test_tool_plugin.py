# SPDX-License-Identifier: Apache-2.0
"""tcpx info --plugin: what it prints of plugins of every version, and why it takes none."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def fakes(tool):
    """The folder of plugins that are each a case."""
    built = pathlib.Path(tool.path).resolve().parent
    for folder in (built.parent / "tests/ncclnet", TOP / "build/tests/ncclnet"):
        if (folder / "fake-net-v8.so").exists():
            return folder
    pytest.fail("no plugins of the tests beside the tool")


@pytest.mark.parametrize("version", range(6, 13))
def test_a_plugin_is_described(tool, fakes, version):
    path = fakes / f"fake-net-v{version}.so"
    done = tool("info", "--plugin", str(path))
    assert done.returncode == 0, done.stderr
    assert f"file: {path}\nname: fake\ninterface: v{version} of v{version}\n" in done.stdout
    assert "devices: 2\n  0 fake0 " in done.stdout
    assert ("unpacked by the GPU" in done.stdout) == (version >= 7)


def test_json_says_the_same(tool, fakes):
    done = tool("info", "--plugin", str(fakes / "fake-net-v9.so"), "--json", "-")
    if done.returncode == 1 and "without jansson" in done.stderr:
        pytest.skip("built without jansson")
    assert done.returncode == 0, done.stderr
    info = json.loads(done.stdout)
    assert (info["interface"], info["versions"], info["name"]) == (9, [9], "fake")
    assert [device["name"] for device in info["devices"]] == ["fake0", "fake1"]
    assert info["devices"][0]["memory"] == ["host", "cuda"]


WRONG = [("fake-net-no-table.so", "table"), ("fake-net-no-devices.so", "finds no NIC"),
         ("fake-net-init-fails.so", "init"), ("fake-net-v7-as-v8.so", "is not a v8"),
         ("nothing-here.so", "No such file")]


@pytest.mark.parametrize("name, words", WRONG)
def test_the_cause_is_named(tool, fakes, name, words):
    done = tool("info", "--plugin", str(fakes / name))
    assert done.returncode == 1
    assert words in done.stderr and not done.stdout
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_the_environment_is_judged_for_a_plugin_that_leaves_pieces(tool, fakes):
    path = str(fakes / "fake-net-v7.so")
    done = tool("info", "--plugin", path, env={"NCCL_DYNAMIC_CHUNK_SIZE": "4096"})
    assert re.search(r"^environment: .* less than a message .*"
                     r"; export NCCL_DYNAMIC_CHUNK_SIZE=524288$", done.stdout, re.M)
    done = tool("info", "--plugin", str(fakes / "fake-net-v6.so"))
    assert "environment:" not in done.stdout


def test_json_has_the_environment(tool, fakes):
    env = {"NCCL_DYNAMIC_CHUNK_SIZE": "4096"}
    done = tool("info", "--plugin", str(fakes / "fake-net-v7.so"), "--json", "-", env=env)
    if done.returncode == 1 and "without jansson" in done.stderr:
        pytest.skip("built without jansson")
    problem = json.loads(done.stdout)["environment"][0]
    assert problem["fatal"] and "less than a message" in problem["what"]
    assert problem["fix"] == "export NCCL_DYNAMIC_CHUNK_SIZE=524288"
    done = tool("info", "--plugin", str(fakes / "fake-net-v6.so"), "--json", "-")
    assert "environment" not in json.loads(done.stdout)


def test_the_installed_one_is_looked_for(tool):
    if any(os.path.exists(f"/{top}/tcpx/lib64/libnccl-net-tcpx.so")
           for top in ("usr/local", "var/lib")):
        pytest.skip("there is one")
    done = tool("info", "--plugin", "default")
    assert done.returncode == 1
    assert "/usr/local/tcpx/lib64" in done.stderr


def test_the_default_can_be_another(tool, fakes, tmp_path):
    for name in ("TCPX_PLUGIN_PATH", "UCCL_TCPX_PLUGIN_PATH"):
        done = tool("info", "--plugin", "default", env={name: str(fakes / "fake-net-v9.so")})
        assert done.returncode == 0, done.stderr
        assert "interface: v9 of v9\n" in done.stdout
    done = tool("info", "--plugin", "default", env={"TCPX_PLUGIN_PATH": f"{tmp_path}/none.so"})
    assert done.returncode == 1
    assert f"no plugin at {tmp_path}/none.so" in done.stderr


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_a_missing_library_is_named_with_the_line_that_helps(tool, tmp_path):
    lib = tmp_path / "lib64/libcudart.so.77"
    lib.parent.mkdir()
    source = tmp_path / "lib.c"
    source.write_text("int tcpx_test_lib(void) { return 0; }\n", encoding="utf-8")
    user = tmp_path / "user.c"
    user.write_text("int tcpx_test_lib(void);\nint (*const use)(void) = tcpx_test_lib;\n",
                    encoding="utf-8")
    link = ["cc", "-shared", "-fPIC", "-o"]
    subprocess.run([*link, lib, source, "-Wl,-soname,libcudart.so.77"], check=True)
    subprocess.run([*link, tmp_path / "plugin.so", user, lib], check=True)
    done = tool("info", "--plugin", tmp_path / "plugin.so", env={"CUDA_HOME": str(tmp_path)})
    assert done.returncode == 1
    assert "libcudart.so.77" in done.stderr
    # a next step is cut where the folder's name is long
    assert f"export LD_LIBRARY_PATH={lib.parent}:$LD"[:90] in done.stderr
    done = tool("info", "--plugin", tmp_path / "plugin.so")
    assert "see 'ldd" in done.stderr


def test_one_question_at_a_time(tool):
    done = tool("info", "--plugin", "x.so", "--env")
    assert done.returncode == 2
    assert "exclude each other" in done.stderr
