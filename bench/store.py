# SPDX-License-Identifier: Apache-2.0
"""Keeps a run as bench/results/DATE-KIND.json: tables with commit, command and machine.

KIND is the GPUs or else the cores, as in 2xh100 or 2vcpu. No host, user or path is named."""
import collections
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Variables that change what is measured, and so belong to the command.
TELLING = re.compile(r"(TCPX|UCX|NCCL(?!_VERSION$)|CUDA_VISIBLE)\w*$")


def said(*argv):
    try:
        done = subprocess.run(argv, cwd=TOP, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""
    except OSError:
        return ""


def line_of(path, pattern):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.search(pattern, file.read(), re.M)
    except OSError:
        return None
    return found[1].strip() if found else None


def congestion():
    """What sockets over loopback get: the route's, else the system's."""
    routed = re.search(r"congctl (\w+)", said("ip", "route", "show", "table", "local", "127.0.0.1"))
    return routed[1] if routed else line_of("/proc/sys/net/ipv4/tcp_congestion_control", r"(\w+)")


def machine():
    gpus = said("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    rows = [row.split(", ") for row in gpus.splitlines() if ", " in row]
    names = collections.Counter(row[0] for row in rows)
    cores = len(os.sched_getaffinity(0))
    return {"cpu": f"{line_of('/proc/cpuinfo', r'^model name.*: (.*)') or 'not known'}, "
                   f"{cores} CPUs", "cores": cores,
            "gpu": " + ".join(f"{n} x {name}" for name, n in names.items()) or None,
            "driver": rows[0][1] if rows else None,
            "congestion": congestion(),
            "kernel": "Linux " + re.match(r"[\d.]*", os.uname().release)[0],
            "system": line_of("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)')}


def kind(facts):
    gpu = re.match(r"(\d+) x (?:NVIDIA )?(\w+)", facts["gpu"] or "")
    return f"{gpu[1]}x{gpu[2]}".lower() if gpu else f"{facts['cores']}vcpu"


def command():
    """The command line, without the folder of the checkout and of the user."""
    words = [f"{name}={value}" for name, value in sorted(os.environ.items())
             if TELLING.match(name)]
    words += [os.path.join("bench", os.path.basename(sys.argv[0])), *sys.argv[1:]]
    text = " ".join(shlex.quote(word) for word in words if word != "--store")
    for place, short in ((TOP + "/", ""), (os.path.expanduser("~") + "/", "~/")):
        text = text.replace(place, short)
    return text


def commit():
    changed = said("git", "status", "--porcelain", "--untracked-files=no")
    return (said("git", "rev-parse", "--short", "HEAD") or "not known") + ("+" if changed else "")


def spread(values, scale=1.0):
    """The three cells of columns(): median, least, most."""
    return [round(number * scale, 6)
            for number in (statistics.median(values), min(values), max(values))]


def columns(first, unit="", digits=3, names=("median", "least", "most")):
    """A column of names, and one each for median, least, most."""
    more = {"unit": unit} if unit else {}
    return [{"name": first}] + [{"name": name, **more, "digits": digits} for name in names]


def as_text(document):
    """JSON with a row or a column a line, so that a change is one line of a diff."""
    text = json.dumps(document, ensure_ascii=False, indent=1)
    for inner in (r"\[\s+([^\[\]{}]*?)\s+\]", r"\{\s+(\"name\"[^{}]*?)\s+\}"):
        text = re.sub(inner, lambda found: found[0][0] + re.sub(r"\s*\n\s*", " ", found[1]) +
                      found[0][-1], text)
    return text + "\n"


def keep(tables, folder=os.path.join(TOP, "bench/results")):
    """Adds {name: {title, columns, rows, ...}} to the file of today and this machine."""
    facts = machine()
    date = time.strftime("%Y-%m-%d")
    path = os.path.join(folder, f"{date}-{kind(facts)}.json")
    document = {"schema": 1, "date": date, "kind": kind(facts), "machine": facts, "tables": {}}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            document["tables"] = json.load(file)["tables"]
    for name, table in tables.items():
        document["tables"][name] = {"command": command(), "commit": commit(), **table}
    os.makedirs(folder, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(as_text(document))
    print(f"kept in {os.path.relpath(path, TOP)}", file=sys.stderr)
    return path
