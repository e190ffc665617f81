# SPDX-License-Identifier: Apache-2.0
"""The Makefile's doors: what installs packages and what does not, and 'make install'."""
import os
import pathlib
import shutil
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", TOP / "build"))
SHELL = ["bash", "sh", "env", "dirname", "grep", "cut", "sed", "sort", "paste", "id", "mktemp",
         "rm", "tail", "head", "find"]
INSTALLERS = ["demo", "demo-tcpx", "demo-node", "demo-trace", "demo-compat", "test", "test-full",
              "deps"]

if not shutil.which("make") or not shutil.which("meson"):
    pytest.skip("no make, or no meson", allow_module_level=True)


class Machine:
    """A machine that has only some programs, and a package manager that installs nothing."""

    def __init__(self, folder):
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.log = folder / "installed"
        for name in SHELL:
            self.has(name)
        for name in ("apt-get", "sudo"):
            self.program(name, f'echo "{name} $*" >>"{self.log}"; exit 1')

    def has(self, *names):
        for name in names:
            (self.bin / name).symlink_to(shutil.which(name))

    def program(self, name, body):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
        path.chmod(0o755)

    def deps(self, *args):
        return subprocess.run([TOP / "scripts/deps.sh", *args], text=True, capture_output=True,
                              env={"PATH": str(self.bin), "HOME": "/", "LANG": "C"},
                              stdin=subprocess.DEVNULL, timeout=120, check=False)


@pytest.fixture(name="machine")
def fixture_machine(tmp_path):
    return Machine(tmp_path)


def compiler(machine):
    """gcc finds its own parts by itself, and its assembler on the path."""
    machine.has("cc", "as", "ld")


def test_what_is_left_out_is_said_with_its_loss_and_nothing_is_installed(machine):
    compiler(machine)
    machine.has("meson", "ninja", "python3")
    done = machine.deps("--check", "build", "part")
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert "left out" in first and "libjansson-dev" in first and "'make deps'" in first
    for package, lost in (("libjansson-dev", "JSON"), ("g++", "NIXL"), ("gnuplot-nox", "drawings"),
                          ("libpmix-dev", "mpirun")):
        line = [text for text in lines if f"(package {package})" in text]
        assert len(line) == 1 and lost in line[0], done.stdout
    assert not machine.log.exists(), machine.log.read_text()


def test_what_cannot_be_built_is_named_and_nothing_is_installed(machine):
    done = machine.deps("--check", "build")
    assert done.returncode == 1
    assert "cannot build without gcc" in done.stderr and "'make deps'" in done.stderr
    assert not machine.log.exists(), machine.log.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="without root nothing is installed")
def test_deps_installs_and_says_so(machine):
    done = machine.deps("build", "part")
    assert done.stdout.startswith("deps: installing ") and " meson " in done.stdout
    assert "apt-get" in machine.log.read_text()
    assert done.returncode == 1 and "cannot build without gcc" in done.stderr


def test_no_meson_and_no_venv_names_the_package(machine):
    compiler(machine)
    machine.program("python3", "exit 1")
    done = machine.deps("--check", "build")
    assert done.returncode == 1
    assert "install meson, or python3-venv" in done.stderr


def recipe(target):
    return subprocess.run(["make", "-n", target], cwd=TOP, text=True, capture_output=True,
                          check=True).stdout


@pytest.mark.parametrize("target", ["build", "all", "install"])
def test_building_never_installs_packages(target):
    lines = [line for line in recipe(target).splitlines() if "deps.sh" in line]
    assert lines and all("--check" in line for line in lines), lines


@pytest.mark.parametrize("target", INSTALLERS)
def test_demos_and_tests_install_what_they_want(target):
    assert "scripts/deps.sh build part" in recipe(target)


# 'make install', of a library as small as can be: that ours is whole, test_install.py shows.
MESON = """project('small', 'c', version: '0.1.0', default_options: ['libdir=lib'])
lib = library('tcpx', 'small.c', soversion: '0', install: true)
import('pkgconfig').generate(lib, name: 'libtcpx', description: 'small')
"""
PROGRAM = """int tcpx_small(void);
int main(void) { return tcpx_small() == 42 ? 0 : 1; }
"""


@pytest.fixture(scope="module", name="small")
def fixture_small(tmp_path_factory):
    """The build folder, and a program that wants the library."""
    source = tmp_path_factory.mktemp("small")
    (source / "meson.build").write_text(MESON, encoding="ascii")
    (source / "small.c").write_text("int tcpx_small(void) { return 42; }\n", encoding="ascii")
    (source / "main.c").write_text(PROGRAM, encoding="ascii")
    build = source / "a build"
    subprocess.run(["meson", "setup", build, source], check=True, capture_output=True)
    subprocess.run(["ninja", "-C", build], check=True, capture_output=True)
    return build, source / "main.c"


def install(build, prefix, before=(), **env):
    clean = {name: value for name, value in os.environ.items()
             if name not in ("PKG_CONFIG_PATH", "LD_LIBRARY_PATH", "DESTDIR")}
    done = subprocess.run([*before, TOP / "scripts/install.sh", build], text=True,
                          env={**clean, **env, "PREFIX": str(prefix)}, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "ninja" not in done.stdout + done.stderr
    return done.stdout


needs_pkg_config = pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config")


@needs_pkg_config
@pytest.mark.parametrize("name", ["local", "my place"])
def test_what_install_prints_makes_it_found(small, tmp_path, name):
    build, program = small
    prefix = tmp_path / name
    out = install(build, prefix)
    assert f"installed: {prefix}\n" in out
    lines = "".join(f"{line}\n" for line in out.splitlines() if line.startswith("  export "))
    script = lines + f"""cd '{tmp_path}' &&
        eval "cc '{program}' -o found $(pkg-config --cflags --libs libtcpx)" && ./found"""
    done = subprocess.run(["bash", "-eu", "-c", script], text=True, capture_output=True,
                          check=False)
    assert done.returncode == 0, done.stderr + out
    assert (prefix / "lib/libtcpx.so.0").exists()


def test_a_stage_is_filled_and_nothing_else(small, tmp_path):
    build, _ = small
    prefix = f"/opt/a place {os.getpid()}"
    out = install(build, prefix, DESTDIR=str(tmp_path / "a stage"))
    assert (tmp_path / f"a stage{prefix}/lib/libtcpx.so.0").exists()
    assert not pathlib.Path(prefix).exists()
    assert "export" not in out, "what is staged is not found there"


SHOW = """include Makefile
build:
\t@:
install:
\t@echo "<$$PREFIX>"
"""


@pytest.mark.parametrize("args, prefix", [([], "/usr/local"),
                                          (["PREFIX=/opt/my place"], "/opt/my place")])
def test_makefile_hands_the_prefix_on_as_it_is(args, prefix):
    assert "scripts/install.sh build" in recipe("install")
    env = {name: value for name, value in os.environ.items() if name != "PREFIX"}
    shown = subprocess.run(["make", "-f", "-", "install", *args], cwd=TOP, text=True, input=SHOW,
                           capture_output=True, env=env, check=False)
    assert f"<{prefix}>" in shown.stdout, shown.stderr


# A /usr/local of its own, with the loader's cache, in which nothing of ours is installed yet: upper
# layers that go with the mount namespace.
LAYERS = """mkdir "$0/etc" "$0/local" && mount -t tmpfs none "$0/etc" &&
mount -t tmpfs none "$0/local" && mkdir "$0/etc/up" "$0/etc/work" "$0/local/up" "$0/local/work" &&
mount -t overlay -o "lowerdir=/etc,upperdir=$0/etc/up,workdir=$0/etc/work" none /etc &&
mount -t overlay -o "lowerdir=/usr/local,upperdir=$0/local/up,workdir=$0/local/work" \
none /usr/local || exit 77
find /usr/local -depth -path '*tcpx*' -delete && ldconfig || exit 1
"$@" && cd "$0" && cc "$PROGRAM" -o found $(pkg-config --cflags --libs libtcpx) && ./found
"""


@needs_pkg_config
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_usr_local_is_found_as_it_is(small, tmp_path):
    """The README's lines: make install, cc $(pkg-config ...), run."""
    build, program = small
    env = {name: value for name, value in os.environ.items()
           if name not in ("PKG_CONFIG_PATH", "LD_LIBRARY_PATH", "DESTDIR")}
    library = pathlib.Path("/usr/local/lib/libtcpx.so.0")
    before = library.exists() and library.stat()
    done = subprocess.run(["unshare", "-m", "sh", "-c", LAYERS, tmp_path,
                           TOP / "scripts/install.sh", build], text=True, capture_output=True,
                          env={**env, "PREFIX": "/usr/local", "PROGRAM": str(program)},
                          check=False)
    if done.returncode == 77 or "unshare:" in done.stderr:
        pytest.skip(f"no right to mount: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout == "installed: /usr/local\n"
    assert (library.exists() and library.stat()) == before, "the host's own is left alone"
