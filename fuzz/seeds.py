#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the first inputs of the fuzz corpora from the golden files. Usage: fuzz/seeds.py"""
import pathlib
import re

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


if __name__ == "__main__":
    main()
