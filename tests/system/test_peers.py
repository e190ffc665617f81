# SPDX-License-Identifier: Apache-2.0
"""Restarted peers, old tokens, keys and who may connect."""
import os
import socket
import threading
import time

import pytest

from netns import INSECURE, NO_LOCAL, Peer, both, hosts, meet, measure, share  # noqa: F401

SIZE = 4 << 20


def test_restart_at_the_same_address(hosts):
    """The new one connects at once; tokens of the old one are refused by name."""
    server, client = both(hosts)
    with client:
        port = meet(server, client, SIZE)
        old = server.do("mem", 1, 4096)
        old_info = server.do("info")
        client.do("import", 1, old)
        for _ in range(3):
            server.kill()
            client.event("peer-down")
            client.events.clear()
            begin = time.monotonic()
            server = Peer(hosts.b, name="server", bind=hosts.address("b"), flags=NO_LOCAL,
                          key=hosts.key)
            assert int(server.do("listen", port)) == port
            assert client.ask("connect", old_info).split()[0] in ("ERR_PEER_RESTARTED",
                                                                 "ERR_AUTH")
            client.do("connect", server.do("info"))
            server.do("accept", 20000)
            measure("reconnect to a restarted peer", time.monotonic() - begin, "s")
            # the old import is stale, the old token unknown to the new one
            answer = client.ask("post", "write", 1, 0, 1, 0, 8)
            if answer.startswith("ok"):
                client.until("the end", lambda: client.ended)
                assert client.ended.pop()[2] in ("ERR_REMOTE_KEY", "ERR_STALE")
            else:
                assert answer.split()[0] == "ERR_STALE"
            client.do("mem", 0, 4096)
            client.do("import", 1, old)
            client.do("post", "write", 1, 0, 1, 0, 8)
            client.until("the end", lambda: client.ended)
            assert client.ended.pop()[2] == "ERR_REMOTE_KEY"
            share(server, client, SIZE)
            client.do("post", "write", 4, 0, 0, 0, SIZE // 4)
            client.do("wait", 100)
            assert [row[2] for row in client.ended] == ["OK"] * 4
            client.ended.clear()
        server.close()


def test_restart_while_connected(hosts):
    """The survivor learns of the restart from the new one's connection, too."""
    server, client = both(hosts, silent=60000, stopped=600000)
    with client:
        port = meet(server, client, SIZE)
        hosts.a.drop("input")  # the death of the old one is not heard
        server.kill()  # its kernel has said goodbye when it is gone
        assert not hosts.b.flows()
        hosts.a.undrop()
        server = Peer(hosts.b, name="server", bind=hosts.address("b"), flags=NO_LOCAL,
                      key=hosts.key)
        with server:
            server.do("listen", port)
            client.do("connect", server.do("info"))
            server.do("accept", 20000)
            share(server, client, SIZE)
            client.do("post", "write", 1, 0, 0, 0, SIZE)
            client.do("wait", 100)
            assert client.ended[-1][2] == "OK"


def test_no_key_beyond_loopback_is_refused(hosts):
    """Neither side gets by without one: not the listener, not the one who dials by address."""
    server, client = both(hosts, key=None)
    with server, client:
        answer = server.ask("listen", 0)
        assert answer.split()[0] == "ERR_AUTH", answer
    server, client = both(hosts)
    with server, client, Peer(hosts.a, name="bare", bind=hosts.address("a")) as bare:
        port = int(server.do("listen", 0))
        answer = bare.ask("connect_to", f"{hosts.address('b')}:{port}")
        assert answer.split()[0] == "ERR_AUTH", answer
        bare.do("connect", server.do("info"))  # the info carries a secret of its own


def key_file(tmp_path, name, *keys):
    path = tmp_path / name
    path.write_text("".join(key * 32 + "\n" for key in keys))
    os.chmod(path, 0o600)
    return path


def knock(hosts, tmp_path, server_keys, client_keys):
    """connect_to with key files; returns the client's answer."""
    with Peer(hosts.b, name="server", bind=hosts.address("b"),
              key=key_file(tmp_path, "server", *server_keys)) as server, \
        Peer(hosts.a, name="client", bind=hosts.address("a"),
             key=key_file(tmp_path, "client", *client_keys)) as client:
        port = server.do("listen", 0)
        answer = client.ask("connect_to", f"{hosts.address('b')}:{port}", 10000)
        if answer == "ok":
            server.do("accept", 20000)
            assert client.json("peer")["auth"] == "key"
            assert server.do("trust") == "key"
            share(server, client, SIZE)
            client.do("post", "write", 1, 0, 0, 0, SIZE)
            client.do("wait", 100)
            assert client.ended[-1][2] == "OK"
        else:
            assert server.counters()["peers_up"] == 0
            assert server.counters()["auth_failures"] + \
                server.counters()["preauth_rejects"] >= 1
        return answer.split()[0]


@pytest.mark.parametrize("server_keys,client_keys,answer", [
    (("a1",), ("a1",), "ok"),
    (("a1",), ("b2",), "ERR_AUTH"),
    (("a1", "b2"), ("b2",), "ok"),      # two keys live at once
    (("a1", "b2"), ("b2", "a1"), "ok"),
])
def test_keys(hosts, tmp_path, server_keys, client_keys, answer):
    assert knock(hosts, tmp_path, server_keys, client_keys) == answer


def test_key_against_insecure(hosts, tmp_path):
    """A server with a key does not let a client without one in, insecure or not."""
    with Peer(hosts.b, name="server", bind=hosts.address("b"),
              key=key_file(tmp_path, "server", "a1")) as server, \
            Peer(hosts.a, name="client", bind=hosts.address("a"), flags=INSECURE) as client:
        port = server.do("listen", 0)
        answer = client.ask("connect_to", f"{hosts.address('b')}:{port}", 10000)
        assert answer.split()[0] == "ERR_AUTH", answer


class Tap(threading.Thread):
    """A relay on loopback that keeps what the client said on its first connection."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.said = port, b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.start()

    def run(self):
        first = True
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                return
            threading.Thread(target=self.copy, args=(client, server, first), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, client, False), daemon=True).start()
            first = False

    def copy(self, source, target, keep):
        try:
            while data := source.recv(65536):
                if keep and len(self.said) < 4096:
                    self.said += data
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def hello_of(tmp_path):
    """A server with a key on loopback and what a client of it says on the control link."""
    key = key_file(tmp_path, "key", "c3")
    server = Peer(None, name="server", bind="127.0.0.1", key=key, flags=NO_LOCAL)
    port = int(server.do("listen", 0))
    tap = Tap(port)
    with Peer(None, name="client", bind="127.0.0.1", key=key, flags=NO_LOCAL) as client:
        client.do("connect_to", tap.address)
        server.do("accept", 20000)
    server.event("peer-down")
    assert len(tap.said) > 100
    return server, port, tap.said


def say(port, data, wait=1.0):
    """What the server answers to bytes of ours before it closes or says nothing more."""
    got = b""
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.settimeout(wait)
        try:
            line.sendall(data)
            while part := line.recv(4096):
                got += part
        except OSError:
            pass
    return got


def test_replayed_hello(tmp_path):
    """The recorded client opens nothing the second time, though its first message is genuine."""
    server, port, said = hello_of(tmp_path)
    with server:
        before = server.counters()
        for _ in range(5):
            say(port, said)
        after = server.counters()
        assert after["peers_up"] == before["peers_up"]
        assert after["auth_failures"] + after["preauth_rejects"] > \
            before["auth_failures"] + before["preauth_rejects"]


def test_flipped_hello(tmp_path):
    """A bit flipped anywhere in the first message: no answer at all, not a byte."""
    server, port, said = hello_of(tmp_path)
    length = int.from_bytes(said[4:8], "little")
    dial = said[:length] if 64 <= length <= len(said) else said[:256]
    with server:
        before = server.counters()
        answered = 0
        for index in range(0, len(dial), 1 if len(dial) < 400 else 3):
            forged = bytearray(dial)
            forged[index] ^= 1 << index % 8
            with socket.create_connection(("127.0.0.1", port)) as line:
                line.settimeout(10)
                try:  # it may be thrown out at any byte
                    line.sendall(forged)
                    line.shutdown(socket.SHUT_WR)
                    answered += len(line.recv(4096))
                except OSError:
                    pass
        after = server.counters()
        assert answered == 0
        assert after["peers_up"] == before["peers_up"]
        assert after["auth_failures"] > before["auth_failures"]
