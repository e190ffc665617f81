#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unpacks a recorded machine into a folder. Usage: scripts/sysfs-unpack.py RECORD/sysfs.txt FOLDER

A line "[folder]" is where the names below it lie; "name = value" is a file,
"name -> target" a link.
"""
import os
import sys


def main(argv):
    if len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    place = argv[1]
    with open(argv[0], encoding="utf-8") as lines:
        for line in lines:
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            if line.startswith("["):
                place = os.path.join(argv[1], line.strip("[]"))
                continue
            link = " -> " in line
            name, value = line.split(" -> " if link else " = ", 1)
            path = os.path.join(place, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if link:
                os.symlink(value, path)
            else:
                with open(path, "w", encoding="utf-8") as out:
                    out.write(value + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
