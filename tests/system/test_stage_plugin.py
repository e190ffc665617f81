# SPDX-License-Identifier: Apache-2.0
"""scripts/stage-plugin.sh: what it copies and links, and what keeps a plugin from loading."""
import os
import subprocess

import pytest

from conftest import HANG, TOP

TCPX = 'const char name[] = "GPUDirectTCPX_v7"; const void *volatile ncclNetPlugin_v7 = name;\n'
OTHER = 'const char name[] = "AWS Libfabric"; const void *volatile ncclNetPlugin_v7 = name;\n'


def stage(*args, before=(), **env):
    return subprocess.run([*before, str(TOP / "scripts/stage-plugin.sh"), *map(str, args)],
                          text=True, capture_output=True, timeout=HANG, check=False,
                          env={**os.environ, "LD_LIBRARY_PATH": "", **env})


def build(folder, name, text, *args):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.c").write_text(text)
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", folder / name,
                    folder / "source.c", *args], check=True)
    (folder / "source.c").unlink()
    return folder


@pytest.fixture
def host(tmp_path):
    """A folder as the host's installer leaves it: the plugin beside other files."""
    folder = build(tmp_path / "host", "libnccl-net.so", TCPX)
    (folder / "sub").mkdir()
    (folder / "sub/more").write_text("more")
    return folder


def assert_told(done, what, fix):
    assert done.returncode == 1
    assert what in done.stderr
    assert fix in done.stderr


def test_copies_and_links(host, tmp_path):
    to = tmp_path / "new/lib64"
    (tmp_path / "runs").touch()
    for _ in range(2):  # again over what is there, which a program may have open
        before = (to / "libnccl-net.so" if to.exists() else tmp_path / "runs").open("rb")
        done = stage("--from", host, "--to", to)
        assert done.returncode == 0, done.stderr
        assert f"export TCPX_PLUGIN_PATH={to}/libnccl-net-tcpx.so" in done.stdout
        with before:
            assert os.fstat(before.fileno()).st_ino != (to / "libnccl-net.so").stat().st_ino
    assert os.readlink(to / "libnccl-net-tcpx.so") == "libnccl-net.so"
    assert (to / "sub/more").read_text() == "more"
    assert (to / "libnccl-net.so").read_bytes() == (host / "libnccl-net.so").read_bytes()
    assert not list(to.glob(".stage*"))
    done = stage("--from", to, "--to", to)  # where it lies
    assert done.returncode == 0, done.stderr


def test_a_plugin_that_has_the_name_stays(host, tmp_path):
    to = tmp_path / "to"
    (host / "libnccl-net.so").rename(host / "libnccl-net-tcpx.so")
    assert stage("--from", host, "--to", to).returncode == 0
    assert not (to / "libnccl-net-tcpx.so").is_symlink()


def test_another_plugin_is_refused(tmp_path):
    host = build(tmp_path / "host", "libnccl-net.so", OTHER)
    to = tmp_path / "to"
    assert_told(stage("--from", host, "--to", to), "another network plugin", "--from DIR")
    assert not to.exists()


def test_another_plugin_in_the_way(host, tmp_path):
    to = build(tmp_path / "to", "libnccl-net-tcpx.so", OTHER)
    assert_told(stage("--from", host, "--to", to), "is not TCPX", "remove it")


def test_no_plugin(tmp_path):
    done = stage("--from", tmp_path, "--to", tmp_path / "to")
    assert_told(done, "no libnccl-net.so in", "--from DIR")


def test_a_folder_that_cannot_be_written(host, tmp_path):
    (tmp_path / "file").write_text("")
    done = stage("--from", host, "--to", tmp_path / "file/lib64")
    assert_told(done, "cannot write", "--to DIR")


def test_noexec(host, tmp_path):
    to = tmp_path / "to"
    to.mkdir()
    mount = f'mount -t tmpfs -o noexec none {to} || exit 77; exec "$@"'
    before = ["unshare", "-m", "sh", "-c", mount, "sh"]
    done = stage("--from", host, "--to", to, before=before)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no right to mount")
    assert_told(done, "mounted noexec", "--to DIR")


def test_what_it_needs(host, tmp_path):
    need = build(tmp_path / "need", "libneeded.so", "int needed;\n")
    build(host, "libnccl-net.so", TCPX, "-Wl,--no-as-needed", f"-L{need}", "-lneeded")
    to = tmp_path / "to"
    assert_told(stage("--from", host, "--to", to), "needs libneeded.so", "LD_LIBRARY_PATH=")
    assert stage("--from", host, "--to", to, LD_LIBRARY_PATH=str(need)).returncode == 0
    (need / "libneeded.so").rename(host / "libneeded.so")  # beside the plugin
    assert stage("--from", host, "--to", to).returncode == 0


def test_a_missing_driver_is_named(host, tmp_path):
    need = build(tmp_path / "need", "libcuda.so.77", "int needed;\n",
                 "-Wl,-soname,libcuda.so.77")
    build(host, "libnccl-net.so", TCPX, "-Wl,--no-as-needed", need / "libcuda.so.77")
    (need / "libcuda.so.77").unlink()
    done = stage("--from", host, "--to", tmp_path / "to")
    assert_told(done, "libcuda.so.77", "install NVIDIA's driver")


@pytest.mark.parametrize("args", [["--from"], ["--to", ""], ["--into", "x"], ["x"]])
def test_wrong_usage(args):
    done = stage(*args)
    assert done.returncode == 2
    assert done.stderr.startswith("usage:")
