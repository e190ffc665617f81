#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a file into a C array: embed.py INPUT OUTPUT.c NAME gives NAME[] and NAME_bytes.

A zero byte that NAME_bytes does not count follows, so that text is a C string."""
import sys


def main(argv):
    with open(argv[1], "rb") as file:
        data = file.read()
    rows = [",".join(str(byte) for byte in data[at:at + 32]) for at in range(0, len(data), 32)]
    with open(argv[2], "w", encoding="ascii") as out:
        out.write("#include <stddef.h>\n#pragma GCC visibility push(hidden)\n"
                  f"extern const unsigned char {argv[3]}[];\nextern const size_t {argv[3]}_bytes;\n"
                  f"_Alignas(64) const unsigned char {argv[3]}[] = {{\n" + ",\n".join(rows) +
                  f",\n0}};\nconst size_t {argv[3]}_bytes = sizeof({argv[3]}) - 1;\n"
                  "#pragma GCC visibility pop\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(sys.argv)
