#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables and plots of README.md and docs/performance from bench/results.

A page holds '<!-- table FILE TABLE -->' or '<!-- headline -->' up to '<!-- end -->', and what is
between them is replaced. --check writes nothing and fails where a page is not what it would be."""
import argparse
import glob
import json
import os
import re
import sys
import tomllib

import svgplot

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = "bench/results"
PAGES = ["README.md", "docs/performance/*.md"]
BLOCK = re.compile(r"(<!-- (table|headline)((?: \S+)*) -->\n).*?(<!-- end -->)", re.S)


class Wrong(Exception):
    """A page or headline.toml names what is not there."""


def load(root, name):
    path = os.path.join(root, RESULTS, name + ".json")
    if not os.path.exists(path):
        raise Wrong(f"no results {RESULTS}/{name}.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def table_of(document, name):
    if name not in document["tables"]:
        raise Wrong(f"no table '{name}' in the results of {document['date']}, {document['kind']}")
    return document["tables"][name]


def number(value, column):
    if value is None:
        return ""
    if isinstance(value, (int, float)) and "digits" in column:
        return f"{value:.{column['digits']}f}"
    return str(value)


def heading(column):
    name = column["name"].strip()
    return f"{name}, {column['unit']}" if "unit" in column else name


def machine(document):
    facts = document["machine"]
    words = [facts["gpu"], facts["cpu"], facts["kernel"], facts["system"]]
    if facts.get("congestion"):
        words.append(f"congestion control {facts['congestion']}")
    return "; ".join(word for word in words if word)


def table(root, page, name, which):
    """One table, and below it its day, machine, command and where the figures lie."""
    document = load(root, name)
    it = table_of(document, which)
    columns = it["columns"]
    out = [f"**{it['title']}**", "",
           "| " + " | ".join(heading(column) for column in columns) + " |",
           "|" + "|".join("---" if i == 0 else "--:" for i in range(len(columns))) + "|"]
    out += ["| " + " | ".join(number(value, column) for value, column in zip(row, columns)) + " |"
            for row in it["rows"]]
    link = os.path.relpath(f"{RESULTS}/{name}.json", os.path.dirname(page) or ".")
    times = f", {it['repetitions']} repetitions" if it.get("repetitions", 1) > 1 else ""
    parts = [f"[{document['date']}]({link})", machine(document)]
    parts += [it["versions"]] if it.get("versions") else []
    out += ["", "; ".join(parts) + f"; `{it['command']}`{times}."]
    if "note" in it:
        out[-1] += " " + it["note"]
    return "\n".join(out) + "\n"


def figure(root, where):
    """The value that FILE:TABLE:ROW:COLUMN names."""
    name, which, row, column = where.split(":")
    it = table_of(load(root, name), which)
    titles = [one["name"].strip() for one in it["columns"]]
    found = [cells for cells in it["rows"] if str(cells[0]) == row]
    if len(found) != 1 or column not in titles:
        raise Wrong(f"no figure {where}")
    at = titles.index(column)
    value = found[0][at]
    if not isinstance(value, (int, float)):
        raise Wrong(f"no figure {where}")
    return value


def headline(root, page):
    out = ["| workload | tcpx, GB/s | other, GB/s | the other | ratio |", "|---|--:|--:|---|--:|"]
    with open(os.path.join(root, "bench/headline.toml"), "rb") as file:
        rows = tomllib.load(file)["row"]
    for row in rows:
        ours, theirs = figure(root, row["tcpx"]), figure(root, row["other"])
        path = os.path.relpath(f"docs/performance/{row['page']}", os.path.dirname(page) or ".")
        anchor = path + "#" + row["tcpx"].split(":")[1]
        ratio = ours / theirs
        out.append(f"| [{row['workload']}]({anchor}) | {ours:.3g} | {theirs:.3g} | {row['peer']} | "
                   f"{ratio:.{0 if ratio >= 10 else 2}f} |")
    return "\n".join(out) + "\n"


def page_text(root, page, text):
    def replaced(match):
        words = match[3].split()
        if match[2] == "headline":
            return match[1] + headline(root, page) + match[4]
        if len(words) != 2:
            raise Wrong(f"{page}: '{match[1].strip()}' needs a file and a table")
        return match[1] + f'<a id="{words[1]}"></a>\n\n' + table(root, page, *words) + match[4]
    return BLOCK.sub(replaced, text)


def operations(it, column):
    """{"READ": [(bytes, value)]} of rows named 'READ 64 KiB'."""
    titles = [one["name"].strip() for one in it["columns"]]
    at, out = titles.index(column), {}
    for row in it["rows"]:
        found = re.fullmatch(r"(READ|WRITE) (\d+) (KiB|MiB)", row[0])
        if found and row[at] is not None:
            size = int(found[2]) << {"KiB": 10, "MiB": 20}[found[3]]
            out.setdefault(found[1], []).append((size, row[at]))
    return out


def nixl_plot(root):
    it = table_of(load(root, "2026-11-29-2vcpu"), "nixl-two-agents")
    panels = []
    for op in ("READ", "WRITE"):
        series = []
        for colour, (column, label) in enumerate((("TCPX", "tcpx"), ("UCX+tuned", "UCX, tuned"))):
            least, most = operations(it, column + " least"), operations(it, column + " most")
            series.append(svgplot.Series(
                label, operations(it, column)[op], colour,
                band=[(x, a, b) for (x, a), (_, b) in zip(least[op], most[op])]))
        series.append(svgplot.Series("UCX, its defaults", operations(it, "UCX")[op], 1,
                                     dashed=True))
        panels.append(svgplot.Panel(f"NIXL {op}", "size of a transfer", "GB/s", series,
                                    bytes_x=True))
    return svgplot.draw("NIXL over tcpx and over UCX, host memory, TCP over loopback, 2 cores",
                        panels)


def gpu_plot(root):
    it = table_of(load(root, "2026-11-24-2xh100"), "nixl-gpu-tcp")
    near = table_of(load(root, "2026-11-24-2xh100"), "nixl-gpu-local")
    panels = [svgplot.Panel("READ over TCP", "size of a transfer", "GB/s", [
        svgplot.Series("tcpx", operations(it, "TCPX")["READ"], 0),
        svgplot.Series("UCX, its defaults", operations(it, "UCX")["READ"], 1)], bytes_x=True),
              svgplot.Panel("READ within the host (NVLink)", "size of a transfer", "GB/s", [
                  svgplot.Series("tcpx", operations(near, "TCPX")["READ"], 0),
                  svgplot.Series("UCX cuda_ipc, most", operations(near, "UCX most")["READ"], 1)],
                            bytes_x=True)]
    return svgplot.draw("NIXL, GPU 0 to GPU 1, 2 × H100, one transfer at a time", panels)


def requests(it, path, backend):
    """[(bytes, ms)] of the rows of nixl_kv.py over a path, READs of blocks of 64 KiB."""
    out = []
    for row in it["rows"]:
        found = re.fullmatch(rf"READ (\d+) × 64 KiB, {path}, {backend}", row[0])
        if found:
            out.append((int(found[1]) << 16, row[4]))
    return sorted(out)


def kv_plot(root):
    it = table_of(load(root, "2026-11-29-2xh200"), "nixl-kv-cold")
    panels = [svgplot.Panel(title, "bytes of a request", "ms", [
        svgplot.Series("tcpx", requests(it, path, "TCPX"), 0),
        svgplot.Series(theirs, requests(it, path, "UCX"), 1)], bytes_x=True, log_y=True)
              for title, path, theirs in (("over TCP", "tcp", "UCX, its defaults"),
                                          ("within the host (NVLink)", "same host",
                                           "UCX cuda_ipc"))]
    return svgplot.draw("A request of 64 KiB blocks after a rest, GPU 0 from GPU 1, 2 × H200",
                        panels)


def node_plot(root):
    document = load(root, "2026-11-23-2vcpu")
    panels = []
    for what, unit in (("READY", "s"), ("memory", "MiB")):
        for name, label in (("node-cost-channels", "channels to one rank"),
                            ("node-cost-ranks", "ranks, one channel to each")):
            it = table_of(document, name)
            at = [one["name"] for one in it["columns"]].index(what)
            title = "time to READY" if what == "READY" else "memory of rank 0"
            panels.append(svgplot.Panel(title, label, unit, [
                svgplot.Series("", [(row[0], row[at]) for row in it["rows"]], 0)], log_y=True))
    return svgplot.draw("tcpx node: what rank 0 costs, 2 cores", panels)


PLOTS = {"docs/performance/nixl-host.svg": nixl_plot, "docs/performance/nixl-gpu.svg": gpu_plot,
         "docs/performance/kv-cache.svg": kv_plot, "docs/performance/node-cost.svg": node_plot}


def outputs(root):
    """{path: text} of every page with a block, and of every plot."""
    out = {}
    for pattern in PAGES:
        for path in sorted(glob.glob(os.path.join(root, pattern))):
            page = os.path.relpath(path, root)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if BLOCK.search(text):
                out[page] = page_text(root, page, text)
    out.update({path: plot(root) for path, plot in PLOTS.items()})
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=TOP)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 on a difference")
    args = parser.parse_args()
    try:
        wanted = outputs(args.root)
    except Wrong as wrong:
        sys.exit(f"render: {wrong}")
    stale = 0
    for page, text in wanted.items():
        path = os.path.join(args.root, page)
        have = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                have = file.read()
        if have == text:
            continue
        stale += 1
        said = "differs from the results; run bench/render.py" if args.check else "written"
        print(f"{page}: {said}")
        if not args.check:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
