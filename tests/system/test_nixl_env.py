# SPDX-License-Identifier: Apache-2.0
"""tcpx nixl-env: which NIXL it takes, what a shell makes of its line, and a second run. The NIXLs
are empty files where a wheel has its own; with real ones: test_nixl.py."""
import os
import pathlib
import re

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
PLUGIN = pathlib.Path(os.environ["BUILD_DIR"]) / "plugins/nixl/libplugin_TCPX.so"
pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="built without a C++ compiler")


def install(site, *packages, cuda=None):
    """What pip leaves there of these packages, and of a torch for that CUDA."""
    for package in packages:
        plugins = site / f".{package}.mesonpy.libs/plugins"
        plugins.mkdir(parents=True)
        for file in (plugins / "libplugin_UCX.so", plugins / "libplugin_POSIX.so",
                     plugins.parent / "libnixl.so"):
            file.write_text(package)
        for folder in (f"{package}.libs", package):
            (site / folder).mkdir()
        (site / package / "__init__.py").write_text("raise SystemExit('imported')")
    if cuda:
        (site / "torch").mkdir()
        (site / "torch/__init__.py").write_text("raise SystemExit('imported')")
        (site / "torch/version.py").write_text(
            f"__version__ = '2.9.0+cu99'\ncuda: Optional[str] = {cuda}\n")
    return {"PYTHONPATH": str(site)}


def names(folder):
    return sorted(path.name for path in pathlib.Path(folder).iterdir())


@pytest.mark.parametrize("packages, cuda, args, wanted", [
    (("nixl_cu12", "nixl_cu13"), None, (), "nixl_cu13"), # as 'import nixl' does
    (("nixl_cu12", "nixl_cu13"), "'12.8'", (), "nixl_cu12"),
    (("nixl_cu12", "nixl_cu13"), "'13.0'", (), "nixl_cu13"),
    (("nixl_cu12", "nixl_cu13"), "None", (), "nixl_cu13"), # a torch without CUDA
    (("nixl_cu12",), "'13.0'", (), "nixl_cu12"),
    (("nixl_cu12", "nixl_cu13"), "'13.0'", ("--package", "nixl_cu12"), "nixl_cu12")])
def test_which_nixl(tool, tmp_path, packages, cuda, args, wanted):
    env = install(tmp_path / "site", *packages, cuda=cuda)
    done = tool("nixl-env", *args, tmp_path / "made", env=env)
    assert done.returncode == 0 and done.stderr.startswith(wanted + " in "), done.stderr
    assert (tmp_path / "made/l/plugins/libplugin_POSIX.so").read_text() == wanted
    assert (tmp_path / f"made/{wanted}.libs").is_dir()


def test_a_package_that_is_not_there(tool, tmp_path):
    env = install(tmp_path / "site", "nixl_cu12")
    done = tool("nixl-env", "--package", "nixl_cu13", tmp_path / "made", env=env)
    assert done.returncode == 1 and "no package nixl_cu13" in done.stderr
    assert not (tmp_path / "made").exists()


def test_a_shell_takes_the_line(tool, tmp_path):
    place = tmp_path / "it's my folder; $HOME \"quoted\""
    done = tool.shell('eval "$("$0" nixl-env --alone "$PLACE")" && ls "$NIXL_PLUGIN_DIR"',
                      env={"PLACE": str(place), "PYTHONPATH": str(tmp_path)})
    assert done.stdout == "libplugin_TCPX.so\n", done.stderr
    assert names(place / "l/plugins") == ["libplugin_TCPX.so"]


def test_the_folder_that_the_guide_names(tool, tmp_path):
    """An image's ENV line cannot run the command, so it repeats what that prints."""
    done = tool("nixl-env", "--alone", tmp_path / "made", env={"PYTHONPATH": str(tmp_path)})
    folder = re.search(r"NIXL_PLUGIN_DIR='(.*)'", done.stdout)[1]
    guide = (TOP / "docs/guide/containers-kubernetes.md").read_text(encoding="utf-8")
    made = re.search(r"tcpx nixl-env (\S+)", guide)[1]
    assert re.search(r"^ENV NIXL_PLUGIN_DIR=(\S+)$", guide, re.M)[1] == folder.replace(
        str(tmp_path / "made"), made)


def test_without_a_nixl(tool, tmp_path):
    """It fails and makes nothing; with --alone the folder has TCPX alone, and that is said."""
    env = {"PYTHONPATH": str(tmp_path / "empty")}
    done = tool("nixl-env", tmp_path / "made", env=env)
    assert done.returncode == 1 and "no NIXL in python3" in done.stderr, done.stderr
    assert "pip install" in done.stderr and "--alone" in done.stderr and names(tmp_path) == []
    done = tool("nixl-env", "--alone", tmp_path / "made", env=env)
    assert done.returncode == 0 and "NIXL's own plugins" in done.stderr, done.stderr
    assert "--python" in done.stderr


def test_without_a_folder(tool, tmp_path):
    """Nothing is made in the current folder unasked."""
    env = install(tmp_path / "site", "nixl_cu12")
    done = tool.shell('cd "$PLACE" && "$0" nixl-env', env={**env, "PLACE": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "false # tcpx nixl-env failed\n")
    assert "usage: tcpx nixl-env FOLDER" in done.stderr and names(tmp_path) == ["site"]


@pytest.mark.parametrize("args, code", [(("--plugin", "/nowhere/plugin.so"), 1),
                                        (("--package", "nixl_cu99"), 1), (("--what",), 2)])
def test_a_failure_fails_the_eval(tool, tmp_path, args, code):
    done = tool("nixl-env", *args, tmp_path / "made", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == code and done.stderr.count("nixl-env:") <= 1, done.stderr
    done = tool.shell('eval "$("$0" nixl-env $ARGS)"; echo "eval: $?"',
                      env={"ARGS": f"{' '.join(args)} {tmp_path}/made",
                           "PYTHONPATH": str(tmp_path)})
    assert done.stdout == "eval: 1\n", done.stdout


def test_made_anew(tool, tmp_path):
    site, made = tmp_path / "site", tmp_path / "made"
    env = install(site, "nixl_cu12")
    plugins = made / "l/plugins"
    assert tool("nixl-env", "--alias", made, env=env).returncode == 0
    ours, alias = plugins / "libplugin_TCPX.so", plugins / "libplugin_UCX.so"
    assert alias.read_bytes() == PLUGIN.read_bytes()
    assert not alias.samefile(ours) # or both names would be one to the loader
    assert tool("nixl-env", made, env=env).returncode == 0
    assert alias.read_text() == "nixl_cu12" and ours.samefile(PLUGIN)
    # that NIXL goes, another one comes
    (site / ".nixl_cu12.mesonpy.libs/plugins/libplugin_POSIX.so").unlink()
    assert tool("nixl-env", made, env=env).returncode == 0
    assert names(plugins) == ["libplugin_TCPX.so", "libplugin_UCX.so"]
    assert tool("nixl-env", "--alone", "--alias", made,
                env={"PYTHONPATH": str(made)}).returncode == 0
    assert tool("nixl-env", "--alone", made, env={"PYTHONPATH": str(made)}).returncode == 0
    assert names(plugins) == ["libplugin_TCPX.so"] and not names(made / "l")[1:]
    (plugins / "libplugin_TCPX.so").unlink() # and what is not ours stays
    (plugins / "theirs").write_text("theirs")
    assert tool("nixl-env", made, env=env).returncode == 1
    assert (plugins / "theirs").read_text() == "theirs"


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_folder_that_others_may_write_to(tool, tmp_path, mode):
    place = tmp_path / "made"
    place.mkdir()
    place.chmod(mode)
    done = tool("nixl-env", "--alone", place, env={"PYTHONPATH": str(tmp_path / "empty")})
    assert done.returncode == 1 and "export" not in done.stdout, done.stdout
    assert "others may write" in done.stderr and not names(place), done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another user")
def test_a_folder_of_another_user(tool, tmp_path):
    place = tmp_path / "made"
    place.mkdir(mode=0o755)
    os.chown(place, 65534, 65534)
    done = tool("nixl-env", "--alone", place, env={"PYTHONPATH": str(tmp_path / "empty")})
    assert done.returncode == 1 and "uid 65534" in done.stderr, done.stderr
