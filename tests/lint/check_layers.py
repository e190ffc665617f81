#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layer law: every #include goes downward, siblings never see one another."""
import os
import re

import lint

L0 = {"base", "abi"}
L1 = L0 | {"sys", "wire"}
L2 = {"core", "net", "mem", "topo", "ctl"}

# folder: folders of src/ it may include besides itself
BELOW = {
    "base": set(), "abi": set(),
    "sys": L0, "wire": L0,
    "core": {"base"}, "net": L1, "mem": L1, "topo": L1, "ctl": L1,
    "trace": L1 | {"topo"},
    "plugin": L1 | L2 | {"trace"},
    "engine": L1 | L2 | {"trace", "plugin"},
    "api": L1 | L2 | {"trace", "plugin", "engine"},
}
# Layers that show one header to those above.
DOORS = {"plugin": "plugin/plugin.h"}
# Types everybody may see; the rest of the public headers is for these.
PUBLIC_TYPES = {"tcpx/types.h", "tcpx/log.h", "tcpx/query.h"}
PUBLIC_ALL = {"engine", "api"}
# Public headers whose types a layer is built around.
PUBLIC_MORE = {"mem": {"tcpx/memory.h"}}
TOOLS = {"base", "wire", "sys", "topo", "trace"}
# The tracer objects are the recorder with another door.
TRACER = {"abi", "base", "trace"}
# Foreign headers have one home; everybody else goes through it.
FOREIGN = {"openssl/": "sys", "cuda": "abi", "nvml": "abi", "libmnl/": "sys", "hwloc": "topo",
           "liburing": "sys"}
# The pure core: events in, actions out. No descriptor, no thread, no clock.
CORE_SYSTEM = {"assert.h", "errno.h", "inttypes.h", "limits.h", "stdarg.h", "stdbool.h",
               "stddef.h", "stdint.h", "stdalign.h", "stdlib.h", "string.h", "stdio.h"}


def check_src(report, name, line, include, quoted):
    folder = name.split("/")[1]
    if folder not in BELOW:
        report.add("layers", name, line, f"src/{folder}/ is no layer")
        return
    if quoted:
        target = include.split("/")[0]
        if "/" not in include or include.startswith("."):
            report.add("layers", name, line, f'"{include}" is not relative to src/')
        elif target != folder and target not in BELOW[folder]:
            report.add("layers", name, line, f'{folder}/ must not include "{include}"')
        elif target != folder and include != DOORS.get(target, include):
            report.add("layers", name, line, f'include "{DOORS[target]}", not "{include}"')
    elif include.startswith("tcpx/"):
        allowed = PUBLIC_TYPES | PUBLIC_MORE.get(folder, set())
        if include not in allowed and folder not in PUBLIC_ALL:
            report.add("layers", name, line, f"{folder}/ must not include <{include}>")
    else:
        for start, home in FOREIGN.items():
            if include.startswith(start) and folder != home:
                report.add("layers", name, line, f"<{include}> belongs to {home}/ alone")
        if folder == "core" and include not in CORE_SYSTEM:
            report.add("layers", name, line, f"core/ is pure: <{include}> is not")


def check_other(report, root, name, line, include, quoted):
    top = name.split("/")[0]
    if not quoted:
        if top == "include" and not re.match(r"tcpx/|std(bool|def|int)\.h$", include):
            report.add("layers", name, line, f"public headers stand alone: <{include}>")
        return
    first = include.split("/")[0]
    internal = "/" in include and os.path.isdir(os.path.join(root, "src", first))
    beside = "/" not in include and os.path.exists(os.path.join(root, top, include))
    if top == "include" or top == "examples" and not beside:
        report.add("layers", name, line, f'{top}/ sees installed headers only, not "{include}"')
    elif internal and name.startswith("plugins/tracer/"):
        if first not in TRACER:
            report.add("layers", name, line, f'a tracer must not include "{include}"')
    elif internal and top == "plugins":
        report.add("layers", name, line, f'plugins see installed headers only, not "{include}"')
    elif internal and top == "tools" and first not in TOOLS:
        report.add("layers", name, line, f'tools must not include "{include}"')


def main():
    root = lint.options(__doc__).root
    report = lint.Report("layers", root)
    for name in lint.tree(root):
        top = name.split("/")[0]
        if not lint.is_c(name) or top not in ("src", "include", "tools", "plugins", "examples"):
            continue
        for number, text in enumerate(lint.read(root, name).splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', text)
            if not found:
                continue
            report.checked += 1
            quoted = found[1] == '"'
            if top == "src":
                check_src(report, name, number, found[2], quoted)
            else:
                check_other(report, root, name, number, found[2], quoted)
    report.end()


if __name__ == "__main__":
    main()
