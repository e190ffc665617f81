#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/ptx.py --check passes the tree, and finds PTX that is stale, altered or missing."""
import os
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(TOP, "scripts/ptx.py")
NVCC = shutil.which("nvcc") or os.path.exists("/usr/local/cuda/bin/nvcc")

# file, what is replaced, by what, the words of the check ("": it passes), whether it takes nvcc
CASES = [
    ("src/mem/copy.cu", "/*", "/* A comment more.", "", False),
    ("src/mem/copy.cu", "#define UNROLL 4u", "#define UNROLL 2u", "copy.ptx is not of the present",
     False),
    ("src/mem/unpack_abi.h", "#ifndef MEM_UNPACK_ABI_H", "struct more;\n#ifndef MEM_UNPACK_ABI_H",
     "unpack.ptx is not of the present", False),
    ("tools/perf/check.ptx", "// sources: ", "// sources: 0", "check.ptx is not of the present",
     False),
    ("src/mem/copy.ptx", "shr.u32", "shl.b32", "copy.ptx differs from what nvcc makes", True),
    ("src/mem/unpack.ptx", None, None, "unpack.ptx is missing", False),
]


def verdict(root, needs):
    done = subprocess.run([sys.executable, SCRIPT, "--check", "--root", root] +
                          ([] if needs else ["--no-nvcc"]), text=True, capture_output=True)
    return done.returncode, done.stdout + done.stderr


def main():
    failed = 0
    for path, old, new, words, needs in CASES:
        name = f"{path}: {words or 'passes'}"
        if needs and not NVCC:
            continue
        with tempfile.TemporaryDirectory() as root:
            for folder in ("src/mem", "src/base", "tools/perf"):
                shutil.copytree(os.path.join(TOP, folder), os.path.join(root, folder))
            target = os.path.join(root, path)
            if old is None:
                os.unlink(target)
            else:
                with open(target, encoding="ascii") as file:
                    text = file.read()
                assert old in text, name
                with open(target, "w", encoding="ascii") as file:
                    file.write(text.replace(old, new, 1))
            rc, said = verdict(root, needs)
        good = rc == 1 and words in said if words else rc == 0
        failed += not good
        print(f"{'ok' if good else 'FAIL'} {name}{'' if good else ': ' + said}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
