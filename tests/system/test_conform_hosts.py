# SPDX-License-Identifier: Apache-2.0
"""The conformance suite between two hosts: one and two interface pairs, IPv4 and IPv6."""
import os
import re
import subprocess

import pytest

from netns import BUILD, LONG, hosts, rails  # noqa: F401

CONFORM = os.path.join(BUILD, "tests/conform/conform")


def conform(pair, pairs, family, *more):
    near, far = (",".join(pair.address(which, n, family) for n in range(pairs))
                 for which in ("a", "b"))
    argv = pair.a.argv(CONFORM, "--transport", "tcp", "--processes", "2", "--light", "--family",
                       str(family), "--near", near, "--far", far, "--far-netns", pair.b.name,
                       "--key", pair.key, *more)
    done = subprocess.run(list(map(str, argv)), text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    told = "".join(line for line in done.stdout.splitlines(True) if not line.startswith("ok "))
    assert done.returncode == 0, told
    passed = re.search(r"^(\d+) passed, 0 failed, 0 skipped$", done.stdout, re.M)
    assert passed and int(passed[1]) > 60, told


@pytest.mark.parametrize("family", [4, 6] if LONG else [4])
def test_one_pair(hosts, family):
    conform(hosts, 1, family)


@pytest.mark.parametrize("mem", ["host", "slow"] if LONG else ["host"])
@pytest.mark.parametrize("family", [4, 6] if LONG else [6])
def test_two_pairs(rails, family, mem):
    conform(rails, 2, family, "--mem", mem)
