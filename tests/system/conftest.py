# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tool's tests: the binary, a running serve, results as JSON."""
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
HANG = 120  # a guard against hanging, never a verdict
# Of a whole test, with what has no guard of its own.
TEST_HANG = 4000 if os.environ.get("TEST_LONG") == "1" else 400

# A shell that starts a job in the background makes it ignore interrupts, and all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

SMALL = ["--size", "64K", "--iters", "4", "--working-set", "1M", "--timeout", "60"]


@pytest.fixture(autouse=True)
def hang_guard():
    """Fails a test that hangs, so that the others still run."""
    def hung(*_):
        signal.alarm(TEST_HANG) # what ends the test may hang, too
        raise AssertionError(f"the test has not ended after {TEST_HANG} s")

    signal.signal(signal.SIGALRM, hung)
    signal.alarm(TEST_HANG)
    yield
    signal.alarm(0)


# And those of launchers: the tests may run under one.
OURS = re.compile("(UCCL_)?TCPX_|TCPXEMU_|FAKECUDA_|NCCL_|CUDA_VISIBLE_DEVICES|OMPI_COMM|PMI|"
                  "MPI_LOCAL|SLURM_|(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_|TORCHELASTIC|"
                  "JOB_COMPLETION|HOSTFILE$").match


def stop(pid):
    """Stops a child process, and waits until all of its threads stand still: SIGSTOP alone returns
    before that."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


class Tool:
    """Runs the binary; every run has an environment without our variables."""

    def __init__(self, path, before=()):
        self.path = str(path)
        self.before = list(before)

    def at(self, host):
        """The same, run inside a network namespace (netns.Host)."""
        return Tool(self.path, host.argv())

    @staticmethod
    def environment(more=None):
        env = {name: value for name, value in os.environ.items() if not OURS(name)}
        env.update(more or {})
        return env

    def run(self, argv, env=None, out=subprocess.PIPE):
        return subprocess.run([*self.before, *argv], timeout=HANG, stdin=subprocess.DEVNULL,
                              stdout=out, stderr=subprocess.PIPE, text=True,
                              env=self.environment(env), check=False)

    def __call__(self, *args, **more):
        return self.run([self.path, *map(str, args)], **more)

    def shell(self, script, **more):
        """Runs a script that calls the binary as $0."""
        return self.run(["sh", "-c", script, self.path], **more)

    def start(self, *args, env=None):
        return subprocess.Popen([*self.before, self.path, *map(str, args)],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=self.environment(env))

    def perf(self, *args, **more):
        """A perf run; .json is its document."""
        done = self("perf", *args, "--json", "-", **more)
        done.json = json.loads(done.stdout) if done.stdout.strip() else None
        return done


class Serve:
    """A serve process; .addresses are its ready lines."""

    def __init__(self, tool, *args, lines=1, env=None, port=0):
        self.process = tool.start("serve", *([] if port is None else ["--port", port]), *args,
                                  env=env)
        self.out = b""
        self.addresses = []
        limit = time.monotonic() + HANG
        while len(self.addresses) < lines:
            left = limit - time.monotonic()
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, left))
            part = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not part:
                self.process.kill()
                text = self.process.communicate()[1].decode()
                raise AssertionError(f"serve did not get ready: {text}")
            self.out += part
            self.addresses = re.findall(r"^ready (\S+)$", self.out.decode(), re.M)
        self.address = self.addresses[0]

    def wait(self):
        """(exit code, stdout, stderr) once it ended by itself."""
        out, err = self.process.communicate(timeout=HANG)
        return self.process.returncode, (self.out + out).decode(), err.decode()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        return self.wait()


@pytest.fixture(scope="session")
def tool():
    path = pathlib.Path(os.environ.get("TCPX_TOOL", TOP / "build" / "tcpx"))
    if not path.exists():
        pytest.fail(f"no tool at {path}; 'make build' leaves it there")
    return Tool(path)


@pytest.fixture
def serve(tool):
    """Starts serves; all are ended when the test is over."""
    running = []

    def start(*args, where=tool, **more):
        running.append(Serve(where, *args, **more))
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()


@pytest.fixture(scope="session")
def with_json(tool):
    """Skips where the tool was built without jansson."""
    if tool("version", "--json", "-").returncode:
        pytest.skip("built without jansson")


@pytest.fixture(scope="session")
def with_crypto(tool):
    """Skips where the library has no crypto library: loopback only, no keys."""
    if not re.search(r"^  crypto +yes", tool("info").stdout, re.M):
        pytest.skip("no libcrypto")


@pytest.fixture
def key(tool, with_crypto, tmp_path):
    path = tmp_path / "cluster.key"
    assert tool("key", "new", path).returncode == 0
    return path
