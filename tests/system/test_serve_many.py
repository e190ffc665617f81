# SPDX-License-Identifier: Apache-2.0
"""serve with many clients that come, send notifications and go at once."""
import os
import pathlib
import subprocess

from conftest import HANG, SMALL, TOP, Tool

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", TOP / "build"))
AT_ONCE = 4  # of 64 that serve has room for


def test_notes_of_clients_that_left_take_no_place(tool, serve):
    server = serve()
    crowd = [subprocess.Popen([BUILD / "tests/system/short_clients", server.address, "60", "8"],
                              stdout=subprocess.DEVNULL, env=Tool.environment())
             for _ in range(AT_ONCE)]
    assert [one.wait(HANG) for one in crowd] == [0] * AT_ONCE
    served = tool("perf", server.address, *SMALL)
    assert served.returncode == 0, served.stderr
    server.process.terminate()
    _, _, err = server.wait()
    assert "turned away" not in err, err
