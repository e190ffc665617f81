#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the first inputs of the fuzz corpora from the golden files. Usage: fuzz/seeds.py"""
import pathlib
import re
import struct

ROOT = pathlib.Path(__file__).resolve().parent.parent
# target: golden files; control's inputs begin with a byte that says which payload follows
SEEDS = {
    "hello": ["hello_dial", "hello_answer", "hello_proof", "hello_messages"],
    "frame": ["frame", "trailer"],
    "info": ["info", "info_padded"],
    "token": ["token"],
    "table": ["table"],
    "control": ["fence", "local", "rails"],
    "rxdm": ["rxdm_rule", "rxdm_ok", "rxdm_query", "rxdm_queues", "rxdm_refused"],
}


def golden(name):
    text = (ROOT / "tests/golden" / f"{name}.hex").read_text()
    return bytes.fromhex(re.sub(r"#.*", "", text))


def main():
    for target, names in SEEDS.items():
        folder = ROOT / "fuzz/corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for index, name in enumerate(names):
            data = golden(name)
            if target == "control":
                data = bytes([index]) + data
            (folder / f"golden-{name}").write_bytes(data)
    folder = ROOT / "fuzz/corpus/nixl"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "golden-info").write_bytes(b"\0" + golden("info"))
    (folder / "another-session").write_bytes(b"\0" + golden("info").replace(b"alpha", b"other"))
    (folder / "golden-token").write_bytes(b"\1" + golden("token"))
    (folder / "right-token").write_bytes(b"\1" + bytes(24)) # what it differs by
    piece = struct.pack("<QQQ", 0, 4096, 1000)
    (folder / "one-piece").write_bytes(b"\2\0" + piece)
    (folder / "read-pieces").write_bytes(b"\2\1" + piece + struct.pack("<QQQ", 8192, 65535, 1))
    (folder / "outside").write_bytes(b"\2\0" + piece + struct.pack("<QQQ", 65535, 0, 2))
    (folder / "onto-itself").write_bytes(b"\2\0" + struct.pack("<QQQ", 4096, 0, 60000))
    (folder / "wraps").write_bytes(b"\2\0" + struct.pack("<QQQ", 100, 200, 2 ** 64 - 60))


if __name__ == "__main__":
    main()
