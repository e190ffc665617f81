#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the threads of running processes are: samples system calls where there is no profiler.

thread_states.py NAME [seconds]: for every process of that name, by thread name, the share of
samples that run in user space or are in a system call, and the context switches of a second."""
import collections
import os
import sys
import time

CALLS = {"0": "read", "1": "write", "7": "poll", "35": "nanosleep", "45": "recvfrom",
         "46": "sendmsg", "47": "recvmsg", "202": "futex", "230": "clock_nanosleep",
         "232": "epoll_wait", "281": "epoll_pwait", "233": "epoll_ctl", "running": "running"}


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def threads(name):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if read(f"/proc/{pid}/comm").strip().startswith(name):
            for tid in os.listdir(f"/proc/{pid}/task"):
                yield pid, tid


def switches(pid, tid):
    status = read(f"/proc/{pid}/task/{tid}/status")
    return sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches" in line)


def main():
    name, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    tasks = list(threads(name))
    names = {task: read(f"/proc/{task[0]}/task/{task[1]}/comm").strip() for task in tasks}
    before = {task: switches(*task) for task in tasks}
    seen = collections.defaultdict(collections.Counter)
    begin, end = time.monotonic(), time.monotonic() + seconds
    while time.monotonic() < end:
        for pid, tid in tasks:
            call = read(f"/proc/{pid}/task/{tid}/syscall").split(" ")[0].strip()
            state = read(f"/proc/{pid}/task/{tid}/stat").rsplit(")", 1)[-1].split()[:1]
            key = CALLS.get(call, call)
            seen[pid, names[pid, tid]][key + ("" if state == ["S"] else " on cpu")] += 1
        time.sleep(0.002)
    took = time.monotonic() - begin
    moved = collections.Counter()
    for task in tasks:
        moved[task[0], names[task]] += switches(*task) - before[task]
    for group, counter in sorted(seen.items()):
        total = sum(counter.values())
        parts = ", ".join(f"{call} {100 * n / total:.0f}%" for call, n in counter.most_common(6))
        print(f"{group[0]} {group[1]:16} {moved[group] / took:8.0f} switches/s  {parts}")


if __name__ == "__main__":
    main()
