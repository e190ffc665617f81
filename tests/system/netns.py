# SPDX-License-Identifier: Apache-2.0
"""Two hosts as network namespaces joined by veth pairs, and programs that run in them."""
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TCPX_BUILD", os.path.join(TOP, "build"))
LONG = os.environ.get("TEST_LONG") == "1"
HANG = 120.0  # a wide guard, never a verdict about speed
NO_LOCAL = 2  # TCPX_SESSION_NO_LOCAL
INSECURE = 1  # TCPX_SESSION_INSECURE


def helper(name):
    path = os.path.join(BUILD, "tests", "system", name)
    if not os.path.exists(path):
        pytest.skip(f"{name} is not built ('make build')")
    return path


def why_no_namespaces():
    """Why two hosts cannot be made here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "nft", "ss"):
        if not shutil.which(tool):
            return f"no command '{tool}'"
    probe = f"g-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode:
        return f"no network namespaces here: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", probe], check=False)
    return None


def run(*argv, check=True, **more):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=HANG, **more)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def measure(name, value, unit, **more):
    """A worst case for the bench tables, as one JSON line."""
    print(f"measured {name}: {value} {unit}")
    folder = os.environ.get("TCPX_MEASURE_DIR")
    if folder:
        with open(os.path.join(folder, "system.jsonl"), "a", encoding="utf-8") as out:
            out.write(json.dumps({"name": name, "value": value, "unit": unit, **more}) + "\n")


class Host:
    """One namespace."""

    def __init__(self, name):
        self.name = name

    def argv(self, *argv):
        return ["ip", "netns", "exec", self.name, *argv]

    def run(self, *argv, **more):
        return run(*self.argv(*argv), **more)

    def nft(self, text):
        self.run("nft", "-f", "-", input=text)

    def drop(self, hook="input", match="meta l4proto tcp"):
        """Silently drops what matches: input is what comes in, output what goes out."""
        self.nft(f"""
table inet cut {{
    chain {hook} {{
        type filter hook {hook} priority 0; policy accept;
        {match} drop
    }}
}}
""")

    def undrop(self):
        self.run("nft", "flush", "ruleset")

    def reset_flows(self, *match):
        """Ends TCP flows as if the peer had reset them; returns how many there were."""
        return len(self.run("ss", "-Hn", "-K", *match, check=False).splitlines())

    def flows(self, *match):
        """Established TCP flows: (local address, local port, peer address, peer port)."""
        rows = []
        for line in self.run("ss", "-Hnt", "state", "established", *match).splitlines():
            words = line.split()
            local, peer = words[2].rsplit(":", 1), words[3].rsplit(":", 1)
            rows.append((local[0].strip("[]"), int(local[1]), peer[0].strip("[]"), int(peer[1])))
        return rows


class Hosts:
    """Hosts a and b with pairs veth pairs: a has 10.77.N.1 and fd77:(N+1)::1, b the .2."""

    def __init__(self, pairs=1):
        self.tag = f"{os.getpid() % 100000}{time.monotonic_ns() % 10000}"
        self.a, self.b = Host(f"g-{self.tag}-a"), Host(f"g-{self.tag}-b")
        self.pairs = pairs

    def address(self, which, pair=0, family=4):
        last = 1 if which in ("a", self.a) else 2
        return f"10.77.{pair}.{last}" if family == 4 else f"fd77:{pair + 1}::{last}"

    def device(self, host, pair=0):
        return f"g{'a' if host is self.a else 'b'}{pair}"

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tcpx-keys-")
        self.key = os.path.join(self.folder.name, "key")
        with open(os.open(self.key, os.O_CREAT | os.O_WRONLY, 0o600), "w") as out:
            out.write("5a" * 32 + "\n")
        try:
            for host in (self.a, self.b):
                run("ip", "netns", "add", host.name)
                host.run("ip", "link", "set", "lo", "up")
            for pair in range(self.pairs):
                self.join(pair)
        except BaseException:
            self.__exit__()
            raise
        return self

    def join(self, pair):
        one, two = f"g{self.tag}x", f"g{self.tag}y"
        run("ip", "link", "add", one, "mtu", "1500", "type", "veth", "peer", "name", two, "mtu",
            "1500")
        for host, device in ((self.a, one), (self.b, two)):
            name = self.device(host, pair)
            run("ip", "link", "set", device, "netns", host.name)
            host.run("ip", "link", "set", device, "name", name)
            host.run("ip", "addr", "add", self.address(host, pair) + "/24", "dev", name)
            host.run("ip", "addr", "add", self.address(host, pair, 6) + "/64", "dev", name,
                     "nodad")
            host.run("ip", "link", "set", name, "up")

    def link(self, host, pair, state):
        host.run("ip", "link", "set", self.device(host, pair), state)

    def __exit__(self, *_):
        for host in (self.a, self.b):
            run("ip", "netns", "del", host.name, check=False)
        self.folder.cleanup()


class Gone(Exception):
    """The program ended while something was awaited."""


class Peer:
    """A session in a process of its own (helpers/netpeer.c), driven by commands."""

    def __init__(self, host=None, env=None, log=None, **options):
        """log: a level; its lines are kept for logged() then."""
        argv = [helper("netpeer")]
        env = {**os.environ, "TCPX_LOG": log or os.environ.get("TCPX_LOG", "error"), **(env or {})}
        self.process = subprocess.Popen(host.argv(*argv) if host else argv, text=True, env=env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE if log else None)
        self.pid = self.process.pid
        self.answers = queue.Queue()
        self.events, self.ended, self.notes, self.log = [], [], [], []
        self.changed = threading.Condition()
        self.over = False
        threading.Thread(target=self.read, daemon=True).start()
        if log:
            threading.Thread(target=self.read_log, daemon=True).start()
        if options:
            self.do("open", *(f"{key}={value}" for key, value in options.items()))

    def read(self):
        for line in self.process.stdout:
            word = line.split()
            with self.changed:
                if line.startswith("= "):
                    self.answers.put(line[2:].rstrip("\n"))
                elif word[0] == "event":
                    self.events.append((word[1], word[2], float(word[3]), int(word[4])))
                elif word[0] == "ended":
                    self.ended.append((int(word[1]), word[2], word[3], int(word[4]),
                                       float(word[5])))
                elif word[0] == "note":
                    self.notes.append((int(word[1]), float(word[2]), " ".join(word[3:])))
                self.changed.notify_all()
        with self.changed:
            self.over = True
            self.answers.put(None)
            self.changed.notify_all()

    def read_log(self):
        with self.process.stderr:
            for line in self.process.stderr:
                with self.changed:
                    self.log.append(line)
                    self.changed.notify_all()

    def logged(self, text):
        """Waits for a line of the log."""
        self.until(f"'{text}' in the log", lambda: any(text in line for line in self.log))

    def tell(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()

    def ask(self, *words):
        """The answer's words after the '=', whatever they are."""
        self.tell(*words)
        line = self.answers.get(timeout=HANG)
        if line is None:
            raise Gone(f"netpeer ended with {self.process.wait()} at {words}")
        return line

    def do(self, *words):
        """The answer must be ok; returns the rest of it."""
        line = self.ask(*words)
        assert line == "ok" or line.startswith("ok "), f"{' '.join(map(str, words))}: {line}"
        return line[3:]

    def until(self, what, condition):
        """Waits until condition() is true; it is looked at after each line of the program."""
        end = time.monotonic() + HANG
        with self.changed:
            while not condition():
                left = end - time.monotonic()
                assert left > 0, f"{what} did not come; events {self.events}, ended {self.ended}"
                if self.over:
                    raise Gone(f"netpeer ended with {self.process.wait()} before {what}")
                self.changed.wait(min(left, 0.5))

    def event(self, kind):
        """Waits for an event of that kind; returns (kind, status, time, peer)."""
        self.until("event " + kind, lambda: any(row[0] == kind for row in self.events))
        return next(row for row in self.events if row[0] == kind)

    def has(self, kind):
        return any(row[0] == kind for row in list(self.events))

    def channels_back(self):
        """Waits until every channel that was lost is there again, by the events kept."""
        step = {"channel-up": 1, "channel-down": -1}
        self.until("its channels are back", lambda: self.has("channel-down") and
                   sum(step.get(row[0], 0) for row in self.events) >= 0)

    def json(self, *words):
        return json.loads(self.do(*words))

    def counters(self):
        return self.json("counters")

    def threads(self, pattern):
        """Ids of this process's threads whose name matches."""
        found = []
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{tid}/comm", encoding="utf-8") as name:
                if re.match(pattern, name.read().strip()):
                    found.append(int(tid))
        return found

    def signal(self, number):
        os.kill(self.pid, number)

    def back_to(self, fds):
        """The usage when no more than so many descriptors are left. A descriptor's end tells
        nobody, so the program is asked until it is so."""
        end = time.monotonic() + HANG
        while (usage := self.json("usage"))["fds"] > fds:
            assert time.monotonic() < end, f"{usage['fds']} descriptors, {fds} before"
        return usage

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def close(self):
        """Orderly end; the program must leave with 0."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.process.stdin.close()
        code = self.process.wait(timeout=HANG)
        self.process.stdout.close()
        assert code == 0, f"netpeer ended with {code}"

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None and self.process.returncode is None:
            self.close()
        elif self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def meet(server, client, size=64 << 20, memory="host", listen=0):
    """Connects client to server by connection info; both register memory 0, the client imports
    the server's as 0 and the server the client's as 0. Returns the server's port."""
    port = int(server.do("listen", listen))
    client.do("connect", server.do("info"))
    server.do("accept", 20000)
    share(server, client, size, memory)
    return port


def share(server, client, size=64 << 20, memory="host"):
    token = server.do("mem", 0, size, memory)
    client.do("import", 0, token)
    server.do("import", 0, client.do("mem", 0, size, memory))
    return token


BUSY = 1 << 16  # a control link sends less


def data_flows(host, column=2, counter="bytes_sent"):
    """The client's ports of all connections, the busiest first, as soon as that has carried bytes;
    the control link is the last. On the server's host these are in column 3."""
    end = time.monotonic() + HANG
    while True:
        flows = flows_by_bytes(host, column, counter)
        if flows and flows[0][0] >= BUSY:
            return [port for _, port in flows]
        assert time.monotonic() < end, flows


def flows_by_bytes(host, column, counter):
    sent = []
    lines = host.run("ss", "-Hnti", "state", "established").splitlines()
    for head, info in zip(lines[::2], lines[1::2]):
        words = [word for word in info.split() if word.startswith(counter + ":")]
        port = int(head.split()[column].rsplit(":", 1)[1])
        sent.append((int(words[0].split(":")[1]) if words else 0, port))
    return sorted(sent, reverse=True)


PEER_ERRORS = {
    "ERR_PEER_CLOSED", "ERR_PEER_RESET", "ERR_PEER_SILENT", "ERR_PEER_STOPPED",
    "ERR_PEER_RESTARTED", "ERR_REFUSED", "ERR_UNREACHABLE", "ERR_AUTH", "ERR_PROTOCOL",
    "ERR_DISCONNECTED",
}


def peer_errors(rows):
    """All ended with an error of the peer class."""
    assert rows and all(row[2] in PEER_ERRORS for row in rows), rows


@pytest.fixture
def hosts():
    why = why_no_namespaces()
    if why:
        pytest.skip(why)
    with Hosts(1) as pair:
        yield pair


@pytest.fixture
def rails():
    why = why_no_namespaces()
    if why:
        pytest.skip(why)
    with Hosts(2) as pair:
        yield pair


def both(hosts, family=4, pairs=1, **more):
    """A server on b and a client on a, both with the same key file unless key=None."""
    def bind(host):
        return ",".join(hosts.address(host, pair, family) for pair in range(pairs))
    options = {"flags": NO_LOCAL, "key": hosts.key, **more}
    options = {name: value for name, value in options.items() if value is not None}
    server = Peer(hosts.b, name="server", bind=bind("b"), **options)
    client = Peer(hosts.a, name="client", bind=bind("a"), **options)
    return server, client
