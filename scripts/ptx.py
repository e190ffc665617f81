#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the PTX of the kernels that builds without nvcc embed, or checks what is stored.

Usage: scripts/ptx.py [--check] [--root DIR] [--no-nvcc]
Each NAME.cu of the list KERNELS has a NAME.ptx in its folder: text for the oldest GPU that is
supported, in the oldest version of the PTX language that has what the kernels use, so that old
drivers take it.
--check  The recorded hash of the sources is that of the sources; where nvcc is, what it compiles is
         what is stored (the same text from the same release, the same entry points and parameters
         from another), and its assembler accepts the stored text.
Exit: 0; 1 what is stored is not what the sources say (run 'make ptx' and commit the result), or
there is no nvcc to write with.
"""
import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KERNELS = ("src/mem/copy", "src/mem/move", "src/mem/unpack", "tools/perf/check")
INCLUDES = ("src", "tools/perf")
ARCH = "80" # Ampere
LANGUAGE = "7.0" # of CUDA 11.0, the first that knows ARCH


def sources_hash(root, name):
    """sha256 of NAME.cu and of the headers that it includes, without comments and blanks."""
    digest, seen, queue = hashlib.sha256(), set(), [name + ".cu"]
    while queue:
        path = queue.pop(0)
        if path in seen:
            continue
        seen.add(path)
        with open(os.path.join(root, path), "rb") as file:
            data = file.read()
        bare = re.sub(rb"/\*.*?\*/|//[^\n]*", b" ", data, flags=re.S)
        digest.update(b" ".join(bare.split()))
        for found in re.findall(rb'^#include "(.+?)"', data, re.M):
            for folder in INCLUDES:
                header = f"{folder}/{found.decode()}"
                if os.path.exists(os.path.join(root, header)):
                    queue.append(header)
    return digest.hexdigest()


def find_nvcc():
    return shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


def release_of(nvcc):
    text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"release [\d.]+, (V[\d.]+)", text)[1]


def compiled(nvcc, root, name):
    """The text that is stored: without the compiler's head and what it takes from path names."""
    with tempfile.TemporaryDirectory() as place:
        out = os.path.join(place, "out.ptx")
        subprocess.run([nvcc, "-ptx", "-std=c++17", "-O3", "-arch=compute_" + ARCH,
                        *("-I" + os.path.join(root, folder) for folder in INCLUDES), "-o", out,
                        os.path.join(root, name + ".cu")], check=True)
        with open(out, encoding="ascii") as file:
            text = file.read()
    text = re.sub(r"^[ \t]*//.*\n", "", text, flags=re.M)
    text = re.sub(r"[ \t]*//.*$", "", text, flags=re.M)
    text = re.sub(r"\d+_INTERNAL_[0-9a-f]{8}_\d+_(\w+?)_cu_[0-9a-f]{8}", r"_internal_\1_", text)
    text = re.sub(r"^\.version .*$", ".version " + LANGUAGE, text, count=1, flags=re.M)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+$", "", text, flags=re.M)).strip("\n") + "\n"


def head(name, release, digest):
    return ("// SPDX-License-Identifier: Apache-2.0\n"
            f"// PTX of {name}.cu for sm_{ARCH} and newer, made by scripts/ptx.py.\n"
            f"// nvcc: {release}\n// sources: {digest}\n")


def entries(text):
    """Entry points with their parameters: what the host launches."""
    return re.findall(r"\.entry (\w+)\(\s*(.*?)\s*\)", text, re.S)


def wrong_with(nvcc, root, name):
    """What is wrong with one stored file, or None."""
    path = os.path.join(root, name + ".ptx")
    if not os.path.exists(path):
        return "is missing"
    with open(path, encoding="ascii") as file:
        stored = file.read()
    release = re.search(r"^// nvcc: (\S+)$", stored, re.M)
    if f"// sources: {sources_hash(root, name)}\n" not in stored or not release:
        return f"is not of the present {name}.cu and its headers"
    if not nvcc:
        return None
    fresh, body = compiled(nvcc, root, name), stored.split("\n", 4)[4]
    if release[1] == release_of(nvcc) and fresh != body:
        return "differs from what nvcc makes of its sources"
    if entries(fresh) != entries(body):
        return "has other entry points or parameters than its sources"
    ptxas = os.path.join(os.path.dirname(os.path.realpath(nvcc)), "ptxas")
    if not os.path.exists(ptxas):
        ptxas = shutil.which("ptxas")
    if ptxas and subprocess.run([ptxas, "-arch=sm_" + ARCH, "-o", "/dev/null", path]).returncode:
        return "is refused by ptxas"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", default=TOP)
    parser.add_argument("--no-nvcc", action="store_true", help="as if there were none")
    options = parser.parse_args()
    nvcc = None if options.no_nvcc else find_nvcc()
    if options.check:
        rows = [(name, wrong_with(nvcc, options.root, name)) for name in KERNELS]
        for name, wrong in rows:
            if wrong:
                print(f"{name}.ptx {wrong}: run 'make ptx' and commit the result")
        if not nvcc:
            print("no nvcc: the sources' hashes alone were compared")
        return 1 if any(wrong for _, wrong in rows) else 0
    if not nvcc:
        print("ptx.py: no nvcc on the path or in /usr/local/cuda/bin", file=sys.stderr)
        return 1
    for name in KERNELS:
        with open(os.path.join(options.root, name + ".ptx"), "w", encoding="ascii") as file:
            file.write(head(name, release_of(nvcc), sources_hash(options.root, name)) +
                       compiled(nvcc, options.root, name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
