# SPDX-License-Identifier: Apache-2.0
"""tcpx completion: what bash offers for a line, and that each script knows every option."""
import re
import shutil
import subprocess

import pytest

from test_tool_usage import COMMANDS, options_of

ASK = """source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_tcpx
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def offers(tool, tmp_path):
    """Words that bash offers for the last word of a line."""
    script = tmp_path / "tcpx.bash"
    script.write_text(tool("completion", "bash").stdout)

    def ask(*words):
        done = subprocess.run(["bash", "-c", ASK, "bash", str(script), "tcpx", *words], text=True,
                              capture_output=True, check=False)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        return done.stdout.split()

    return ask


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_bash_offers(offers):
    assert set(COMMANDS) <= set(offers(""))
    assert offers("per") == ["perf"]
    assert offers("help", "vers") == ["version"]
    assert offers("perf", "--loop") == ["--loopback"]
    assert offers("perf", "host", "--op", "p") == ["pingpong"]
    assert offers("perf", "--op", "=", "la") == ["latency"] # as bash cuts --op=la
    assert offers("perf", "--mem", "") == ["host", "cuda"]
    assert offers("node", "--transport", "lo") == ["local"]
    assert offers("perf", "ho") == [] # a host or a file


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_option_is_known(tool, shell):
    text = tool("completion", shell).stdout
    for command in COMMANDS:
        if shell == "bash":
            part = re.search(rf"^\t{command}\) words='(.*)'", text, re.M)[1]
        elif shell == "zsh":
            part = re.search(rf"^\t{command}\)\n(.*?) ;;$", text, re.M | re.S)[1]
        else:
            part = "\n".join(re.findall(rf"_seen_subcommand_from {command}' -l (.*)$", text, re.M))
            part = re.sub("^", "--", part, flags=re.M)
        for option, (letter, _) in options_of(tool(command, "--help").stdout).items():
            if option == "--help":
                continue
            assert re.search(rf"{option}\b", part), (command, option)
            if letter and shell == "zsh":
                assert f"{{-{letter},{option}" in part
            if letter and shell == "fish":
                assert f"{option[2:]} -s {letter}" in part


def test_the_shells_that_are_installed_take_their_script(tool, tmp_path):
    for shell in ("bash", "zsh", "fish"):
        path = tmp_path / shell
        path.write_text(tool("completion", shell).stdout)
        if shutil.which(shell):
            subprocess.run([shell, "-n", path], check=True)


@pytest.mark.parametrize("args, words", [([], "usage: tcpx completion bash|zsh|fish"),
                                         (["csh"], "invalid value 'csh'; choose from bash|zsh")])
def test_a_wrong_shell_is_wrong_usage(tool, args, words):
    done = tool("completion", *args)
    assert done.returncode == 2 and done.stdout == "" and words in done.stderr
