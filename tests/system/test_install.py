# SPDX-License-Identifier: Apache-2.0
"""The installed library: files in place, pkg-config, examples compiled against it and run."""
import os
import pathlib
import shutil
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", TOP / "build"))
FAKECUDA = BUILD / "emu/fakecuda/libfakecuda.so"
EXAMPLES = sorted((TOP / "examples").glob("*.c"))


def run(*argv, **more):
    done = subprocess.run([str(part) for part in argv], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=120, **more)
    assert done.returncode == 0, f"{' '.join(map(str, argv))}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installation of its own, at a prefix nobody else has."""
    if not shutil.which("meson") or not (BUILD / "build.ninja").exists():
        pytest.skip("no build folder, or no meson")
    stage = tmp_path_factory.mktemp("install")
    run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", stage)
    found = list(stage.rglob("libtcpx.pc"))
    assert len(found) == 1, f"one libtcpx.pc under {stage}, not {found}"
    # the prefix is the folder that has both include/ and the library folder
    return next(place for place in found[0].parents if (place / "include").is_dir())


def pkg_config(prefix, *what):
    pc = next(prefix.rglob("libtcpx.pc"))
    env = {**os.environ, "PKG_CONFIG_PATH": str(pc.parent)}
    return run("pkg-config", f"--define-variable=prefix={prefix}", *what, "libtcpx",
               env=env).split()


def test_files_are_in_place(prefix):
    headers = {path.name for path in (TOP / "include/tcpx").glob("*.h")}
    assert headers == {path.name for path in (prefix / "include/tcpx").glob("*.h")}
    names = {path.name for path in prefix.rglob("libtcpx.so*")}
    assert {"libtcpx.so", "libtcpx.so.0"} <= names
    assert not list(prefix.rglob("libtcpx_internal*")), "internals are not for installing"
    manual = prefix / "share/man"
    assert (manual / "man7/tcpx.7").exists()
    for link in (manual / "man3").glob("tcpx_*.3"):
        assert link.exists(), f"{link} points nowhere"
    assert (manual / "man3/tcpx_session_open.3").exists()
    for place in ("bash-completion/completions/tcpx.bash", "zsh/site-functions/_tcpx",
                  "fish/vendor_completions.d/tcpx.fish"):
        assert "tcpx completion" in (prefix / "share" / place).read_text()


def test_version_is_one_version(prefix):
    types = (prefix / "include/tcpx/types.h").read_text()
    parts = [types.split(f"TCPX_VERSION_{part} ")[1].split()[0]
             for part in ("MAJOR", "MINOR", "PATCH")]
    assert pkg_config(prefix, "--modversion") == [".".join(parts)]


def test_the_tool_runs(prefix):
    tool = prefix / "bin/tcpx"
    if not tool.exists():
        pytest.fail("bin/tcpx is not installed")
    library = next(prefix.rglob("libtcpx.so")).parent
    out = run(tool, "version", env={**os.environ, "LD_LIBRARY_PATH": str(library)})
    assert pkg_config(prefix, "--modversion")[0] in out


def build(prefix, source, folder):
    """The example, built against what is installed; and the environment that it runs in."""
    program = folder / source.stem
    flags = pkg_config(prefix, "--cflags", "--libs")
    run(os.environ.get("CC", "cc"), "-Wall", "-Wextra", "-Werror", source, "-o", program, *flags)
    library = next(prefix.rglob("libtcpx.so")).parent
    assert FAKECUDA.exists()
    return program, {**os.environ, "LD_LIBRARY_PATH": str(library),
                     "TCPX_CUDA_LIBRARY": str(FAKECUDA)}


@pytest.mark.parametrize("source", [path for path in EXAMPLES if path.stem != "two_hosts"],
                         ids=lambda path: path.stem)
def test_example(prefix, source, tmp_path):
    program, env = build(prefix, source, tmp_path)
    run(program, env=env)


def test_example_of_two_hosts_says_what_failed(prefix, tool, with_crypto, tmp_path):
    """That it works is shown with the commands of docs/guide/getting-started.md."""
    program, env = build(prefix, TOP / "examples/two_hosts.c", tmp_path)
    key = tmp_path / "cluster.key"
    for words in ("cluster.key", "connection refused"): # no key file yet; then nobody listens
        done = subprocess.run([program, key, "127.0.0.1:1"], env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 1 and words in done.stderr and "; next: " in done.stderr
        if not key.exists():
            assert tool("key", "new", key).returncode == 0


@pytest.mark.parametrize("more", [{"FAKECUDA_DEVICES": "1"}, {"TCPX_LOCAL": "0"}],
                         ids=["one GPU", "tcp"])
def test_gpu_example(prefix, tmp_path, more):
    program, env = build(prefix, TOP / "examples/cuda_write.c", tmp_path)
    assert run(program, env={**env, **more}).endswith(": yes\n")


def test_gpu_example_without_a_driver(prefix, tmp_path):
    program, env = build(prefix, TOP / "examples/cuda_write.c", tmp_path)
    env["TCPX_CUDA_LIBRARY"] = "/nonexistent/libcuda.so.1"
    done = subprocess.run([program], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 1 and "/nonexistent/libcuda.so.1" in done.stderr


@pytest.mark.parametrize("name, lines", [("hello_write", 60), ("cuda_write", 80)])
def test_example_is_short(name, lines):
    assert len((TOP / f"examples/{name}.c").read_text().splitlines()) <= lines


NINJA = """#!/bin/sh
case " $* " in
*" -n "*) echo "[1/$STEPS] CC a.o" ;;
*) for step in $(seq "$STEPS"); do echo "[$step/$STEPS] CC a.o"; done; exit "$CODE" ;;
esac
"""


@pytest.mark.parametrize("steps, code, said", [
    (200, 0, ["building (200 files) ...", "building: 50 of 200 files",
              "building: 100 of 200 files", "building: 150 of 200 files"]),
    (49, 0, []),
    (60, 1, ["building (60 files) ...", "building: 15 of 60 files", "building: 30 of 60 files",
             "building: 45 of 60 files"])])
def test_a_long_build_without_a_terminal_says_how_far_it_is(tmp_path, steps, code, said):
    scripts, tools = tmp_path / "scripts", tmp_path / "tools"
    scripts.mkdir()
    tools.mkdir()
    for name in ("build.sh", "env.sh"):
        shutil.copy(TOP / "scripts" / name, scripts)
    for name, text in (("ninja", NINJA), ("meson", "#!/bin/sh\n")):
        (tools / name).write_text(text, encoding="utf-8")
        (tools / name).chmod(0o755)
    done = subprocess.run([scripts / "build.sh", "out"], capture_output=True, text=True,
                          timeout=120, check=False,
                          env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}",
                               "STEPS": str(steps), "CODE": str(code)})
    assert done.returncode == code, done.stderr
    assert done.stdout.splitlines() == said
    log = (tmp_path / "out/build.log").read_text(encoding="utf-8").splitlines()
    assert len(log) == steps
