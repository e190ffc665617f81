#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The list of driver functions against the toolkit: versions and parameters by cudaTypedefs.h,
names by the toolkit's stub of the driver.

Usage: check_cuda.py src/sys/cuda_list.h CUDA_INCLUDE_FOLDER
"""
import os
import re
import subprocess
import sys

ROW = re.compile(r'X\((\w+), "(\w+)", (\d+),\s*\((.*?)\)\)(?=\s)')
TYPEDEF = re.compile(r"typedef CUresult \(CUDAAPI \*(PFN_\w+)\)\((.*?)\);", re.S)
# What a parameter takes in a call; a pointer of any kind, and a handle, is "pointer".
KINDS = [
    (r"\*", "pointer"), (r"cuda_ipc_mem|CUipcMemHandle", "ipc handle"),
    (r"cuda_ptr|CUdeviceptr|cuda_alloc|CUmemGenericAllocationHandle|unsigned long long|uint64",
     "8 bytes"),
    (r"size_t", "8 bytes"), (r"unsigned char", "1 byte"),
    (r"cuda_(ctx|stream|event|module|function|pool)\b|"
     r"CU(context|stream|event|module|function|memoryPool)\b",
     "pointer"),
    (r"\bint\b|unsigned|uint32|cuda_(result|device)\b|CUresult|CUdevice|"
     r"CU\w*_(flags|attribute|enum|Type)|CU(mem(Allocation|Access|Range)\w+|pointer\w+)",
     "4 bytes"),
]


def kinds(parameters):
    out = []
    for parameter in parameters.split(","):
        if parameter.strip() == "void":
            continue
        kind = next((kind for pattern, kind in KINDS if re.search(pattern, parameter)), None)
        out.append(kind or f"unknown: {parameter}")
    return out


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read().split("#define SYS_CUDA_LIST(X)", 1)[1]
    with open(os.path.join(sys.argv[2], "cudaTypedefs.h"), encoding="utf-8") as file:
        real = dict(TYPEDEF.findall(file.read()))
    rows = ROW.findall(text.replace("\\\n", " "))
    wrong = [] if len(rows) == text.count("X(") else ["the list is not understood"]
    stub = os.path.join(sys.argv[2], "../lib64/stubs/libcuda.so")
    exported = None
    if os.path.exists(stub):
        done = subprocess.run(["nm", "-D", "--defined-only", stub], text=True,
                              capture_output=True, check=True)
        exported = {line.split()[-1] for line in done.stdout.splitlines()}
    for _, symbol, since, parameters in rows:
        name = f"PFN_{re.sub('_v[0-9]$', '', symbol)}_v{since}"
        if name not in real:
            wrong.append(f"{symbol}: no {name} in cudaTypedefs.h")
        elif kinds(parameters) != kinds(real[name]):
            wrong.append(f"{symbol}: {kinds(parameters)}, really {kinds(real[name])}")
        if exported is not None and symbol not in exported:
            wrong.append(f"{symbol}: the driver exports no such symbol")
    print("\n".join(wrong + [f"{len(rows)} functions, {len(wrong)} wrong"]))
    sys.exit(bool(wrong) or not rows)


if __name__ == "__main__":
    main()
