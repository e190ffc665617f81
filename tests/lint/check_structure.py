#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The structure law: who includes and calls whom in src/, sizes of headers and structs, names.

Prints one line for each measure: its value, the wanted number, and what is allowed today. Where the
tree is above the wanted number, tests/lint/structure.txt holds today's value, which may only fall:
a value above its row is a breach, and so is a value below it ("lower the row"). With the argument
"list" the script also prints what each measure counts.

The graph. A node is a header together with the .c file of the same folder and name. A function is
found by lint.items(); a name followed by "(" in its body is a call: of the static function of that
name in the same file, else of the global or inline function of that name. Macros with parameters
and inline functions belong to their header. A call through a pointer or a table is no edge, and
neither is a name without "(". Both sides of an #if count.

Folders are those of src/ and, within engine/, its own. A file directly in engine/ has no place yet:
it may call and be called by all of engine/, and is counted until it moves. What engine/ has no
order for (ENGINE) may see no other folder of it. The circles of files within engine/ are those of
the whole of it.

The trip of a WRITE has two legs (TRIP), since the queue of the core separates them: the post, from
tcpx_request_start to the functions that queue the transfer and wake a worker; and the sender, from
the loop of a worker, from what that calls of a channel through the channel's table, and from the
post, which may send by itself, to the function that enters a frame into the channel's ring and to
those that call a transport's send. A function is on a leg when it can be reached from a start and
an end can be reached from it, both included. The trip's files are those of all these functions, a
header with its .c once. Helpers that lead to no end (options, validation, routing) are not on it.
"""
import os
import re

import lint
from check_layers import BELOW

HEADER_LINES = 150
STRUCT_FIELDS = 30
CIRCLE_FILES = 4
BREACHES_SHOWN = 8
# The order of the folders of engine/: each may include and call those after it.
ENGINE = ["session", "peer", "request", "channel", "path", "link", "runtime"]
# (name of the leg, functions where it starts, functions or patterns of a call where it ends)
TRIP = [
    ("post", ["tcpx_request_start"], ["core_job_queue", "worker_kick"]),
    ("sender", ["worker_main", "chan_kicked", "hooks_posted"],
     ["core_chunk_add", r"(->|\.)send(_held)?\s*\("]),
]
# name: wanted number
WANTED = {
    "includes-up": 0, "calls-up": 0, "folder-circles": 0, "circle": CIRCLE_FILES,
    "circle-files": 0, "engine-root-files": 0, "headers-long": 0, "header-lines": HEADER_LINES,
    "structs-large": 0, "struct-fields": STRUCT_FIELDS, "struct-twice": 0, "static-repeats": 0,
    "trip-files": 16,
}
TEXT = {
    "includes-up": "includes that go upward",
    "calls-up": "calls that go upward",
    "folder-circles": "circles of calls between folders",
    "circle": "files in the largest circle of calls in a folder of src/",
    "circle-files": f"files in such circles of more than {CIRCLE_FILES}",
    "engine-root-files": "files that lie directly in src/engine/",
    "headers-long": f"headers above {HEADER_LINES} lines",
    "header-lines": "lines of the longest header",
    "structs-large": f"structs above {STRUCT_FIELDS} fields",
    "struct-fields": "fields of the largest struct",
    "struct-twice": "structs defined in a header and once more",
    "static-repeats": "static functions whose name another function has",
    "trip-files": "files on a WRITE's trip",
}
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "do", "else", "case", "defined",
            "alignof", "_Alignof", "_Atomic", "typeof", "__attribute__", "alignas", "_Alignas"}
CALL = re.compile(r"(?<![\w.>])(?<!struct )(?<!enum )([A-Za-z_]\w*)\s*\(")


def folder_of(name):
    """The folder that counts: src/net/tcp/tcp.c is in net, src/engine/link/a.c in engine/link."""
    parts = name.split("/")
    if parts[0] == "include":
        return "include"
    if parts[1] == "engine" and len(parts) > 3:
        return "engine/" + parts[2]
    return parts[1]


def may_see(source, target):
    """Whether a file of one folder may include and call a file of the other."""
    if source == target or target == "include":
        return True  # check_layers.py knows who may include which public header
    above, under = source.split("/"), target.split("/")
    if above[0] != under[0]:
        return under[0] in BELOW.get(above[0], set())
    if len(above) == 1 or len(under) == 1:
        return True  # files that have no place within engine/ yet
    if above[1] not in ENGINE or under[1] not in ENGINE:
        return False
    return ENGINE.index(above[1]) < ENGINE.index(under[1])


class Function:
    def __init__(self, name, path, line, head, body, fixed):
        self.name, self.path, self.line, self.fixed = name, path, line, fixed
        self.body = body
        self.unit = os.path.splitext(path)[0]
        self.folder = folder_of(path)
        # Parameters that are functions themselves: calls of them are calls through a pointer.
        self.pointers = set(re.findall(r"\(\s*\*\s*(\w+)\s*\)\s*\(", head))
        self.calls = {}


class Source:
    """What is defined in src/: functions, structs, includes."""

    def __init__(self, root):
        self.functions, self.structs, self.includes, self.lines = [], [], [], {}
        for path in lint.tree(root):
            if not path.startswith("src/") or not lint.is_c(path):
                continue
            text = lint.read(root, path)
            self.lines[path] = text.count("\n")
            for number, line in enumerate(text.split("\n"), 1):
                found = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
                if found:
                    self.includes.append((path, number, "src/" + found[1]))
            plain = lint.bare(text)
            for name, start, end in lint.items(text):
                self.take(name, path, lint.line_of(text, start), plain[start:end])
        self.link()

    def take(self, name, path, line, text):
        header = path.endswith(".h")
        macro = re.match(r"\s*#\s*define\s+\w+\(([^)]*)\)(.*)", text, re.S)
        if macro:
            self.functions.append(Function(name, path, line, "", macro[2], not header))
            return
        head, brace, body = text.partition("{")
        if not brace or "=" in head:
            return
        if re.match(rf"\s*(typedef\s+)?(struct|union)\s+{name}\b[^(]*$", head):
            self.structs.append((name, path, line, fields(body[:body.rindex("}")])))
        elif re.search(rf"\b{name}\s*\(", head):
            fixed = bool(re.match(r"\s*static\b", head)) and not header
            self.functions.append(Function(name, path, line, head, body, fixed))

    def link(self):
        local, shared = {}, {}
        for function in self.functions:
            table = local if function.fixed else shared
            key = (function.path, function.name) if function.fixed else function.name
            table.setdefault(key, []).append(function)
        for function in self.functions:
            for name in set(CALL.findall(function.body)) - KEYWORDS - function.pointers:
                found = local.get((function.path, name)) or shared.get(name, [])
                # Several of one name: the own file's, as a driver and its stand-in have.
                own = [each for each in found if each.path == function.path]
                for each in own or found:
                    if each is not function:
                        function.calls[id(each)] = each

    def edges(self):
        """{(unit, unit): (function, function)} of calls between files."""
        found = {}
        for function in self.functions:
            for called in function.calls.values():
                if called.unit != function.unit:
                    found.setdefault((function.unit, called.unit), (function, called))
        return found


def fields(body):
    """Number of declarators in the body of a struct, those of structs within it included."""
    body = re.sub(r"^\s*#.*$", "", body, flags=re.M)
    count = 0
    while True:  # innermost first: enums name values and no field, what a struct holds counts
        inner = re.search(r"\b(struct|union|enum)\b(\s+\w+)?\s*\{([^{}]*)\}[^;{}]*;", body)
        if not inner:
            break
        if inner[1] == "enum":
            body = body[:inner.start()] + "int x;" + body[inner.end():]
        else:
            count += declarators(inner[3])
            body = body[:inner.start()] + body[inner.end():]
    return count + declarators(body)


def declarators(body):
    while re.search(r"\([^()]*\)", body):  # commas of parameters and of sizes separate no field
        body = re.sub(r"\([^()]*\)", " ", body)
    body = re.sub(r"\[[^\]]*\]", " ", body)
    return sum(part.count(",") + 1 for part in body.split(";") if part.strip())


def circles(nodes, edges):
    """Strongly connected components of more than one node, largest first (Tarjan, no recursion)."""
    after = {node: [] for node in nodes}
    for source, target in edges:
        after[source].append(target)
    index, low, stack, on, found = {}, {}, [], set(), []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(after[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            for target in rest:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on.add(target)
                    work.append((target, iter(after[target])))
                    break
                if target in on:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while not group or group[-1] != node:
                        group.append(stack.pop())
                        on.discard(group[-1])
                    if len(group) > 1:
                        found.append(sorted(group))
    return sorted(found, key=lambda group: (-len(group), group))


class Law:
    def __init__(self, root):
        self.report = lint.Report("structure", root)
        self.source = Source(root)
        self.report.checked = len(self.source.lines)
        self.values, self.what = {}, {}
        self.rows = read_rows(root)

    def measure(self, name, value, what=()):
        """what: (path, line, text) of each thing counted, or of those that are worth a line."""
        self.values[name], self.what[name] = value, list(what)

    def layers(self):
        up = [(path, line, f'"{target[4:]}" lies above {folder_of(path)}/')
              for path, line, target in self.source.includes
              if not may_see(folder_of(path), folder_of(target))]
        self.measure("includes-up", len(up), up)
        calls = [(function.path, function.line,
                  f"{function.name} calls {called.name} of {called.path}")
                 for function in self.source.functions for called in function.calls.values()
                 if not may_see(function.folder, called.folder)]
        self.measure("calls-up", len(calls), calls)

    def circles(self):
        edges = self.source.edges()
        between = {}
        for (one, other), (function, called) in edges.items():
            pair = (function.folder, called.folder)
            loose = "engine" in pair and pair[0].split("/")[0] == pair[1].split("/")[0]
            if pair[0] != pair[1] and not loose:
                between.setdefault(pair, (function, called))
        folders = {function.folder for function in self.source.functions}
        groups = circles(sorted(folders), sorted(between))
        self.measure("folder-circles", len(groups), [
            (function.path, function.line, f"{source}/ -> {target}/: {function.name} calls "
             f"{called.name}") for group in groups
            for (source, target), (function, called) in sorted(between.items())
            if source in group and target in group])
        # All of engine/ is one room here, or a circle would vanish by moving a part of it.
        inside = {pair for pair, (function, called) in edges.items()
                  if function.folder.split("/")[0] == called.folder.split("/")[0]}
        units = sorted({function.unit for function in self.source.functions})
        groups = circles(units, sorted(inside))
        large = self.large_circles = [group for group in groups if len(group) > CIRCLE_FILES]
        self.measure("circle-files", sum(len(group) for group in large))
        self.measure("circle", len(groups[0]) if groups else 1, [
            (group[0], 1, f"{len(group)} files in a circle: " +
             " ".join(os.path.basename(unit) for unit in group))
            for group in large])

    def sizes(self):
        loose = [path for path in self.source.lines if re.match(r"src/engine/[^/]+$", path)]
        self.measure("engine-root-files", len(loose), [
            (path, 1, "belongs into a folder of engine/") for path in loose[:1]])
        lifted = self.report.lifted
        headers = sorted(((count, path) for path, count in self.source.lines.items()
                          if path.endswith(".h") and not lifted("header", path)), reverse=True)
        long = [(path, count, f"{count} lines, at most {HEADER_LINES}")
                for count, path in headers if count > HEADER_LINES]
        self.measure("headers-long", len(long), long)
        self.measure("header-lines", headers[0][0] if headers else 0, long[:1])
        structs = sorted(((count, name, path, line)
                          for name, path, line, count in self.source.structs
                          if not lifted("struct", path)), reverse=True)
        large = [(path, line, f"struct {name}: {count} fields, at most {STRUCT_FIELDS}")
                 for count, name, path, line in structs if count > STRUCT_FIELDS]
        self.measure("structs-large", len(large), large)
        self.measure("struct-fields", structs[0][0] if structs else 0, large[:1])
        self.largest = structs[0][1] if structs else "none"

    def names(self):
        places = {}
        for name, path, line, _ in self.source.structs:
            places.setdefault(name, []).append((path, line))
        twice = [(path, line, f"struct {name} is also in {rows[0][0]}")
                 for name, rows in sorted(places.items())
                 if any(path.endswith(".h") for path, _ in rows) for path, line in rows[1:]]
        self.measure("struct-twice", len(twice), twice)
        seen, repeats = {}, []
        for function in self.source.functions:
            if not function.name.isupper():  # a macro is no function
                seen.setdefault(function.name, {}).setdefault(function.path, function)
        for name, rows in sorted(seen.items()):
            if any(function.fixed for function in rows.values()):
                first = next(iter(rows.values()))  # of n functions of a name n - 1 repeat it
                repeats += [(function.path, function.line, f"{name} is also in {first.path}")
                            for function in list(rows.values())[1:]]
        self.measure("static-repeats", len(repeats), repeats)

    def trip(self):
        where = {}
        for function in self.source.functions:
            where.setdefault(function.name, []).append(function)
        back = {}
        for function in self.source.functions:
            for called in function.calls.values():
                back.setdefault(id(called), []).append(function)
        found = {}
        for leg, starts, ends in TRIP:
            first, last = [], []
            for name in starts + [end for end in ends if re.fullmatch(r"\w+", end)]:
                if name not in where:
                    self.report.add("trip", "tests/lint/check_structure.py", 1,
                                    f"TRIP: no function {name}")
                (first if name in starts else last).extend(where.get(name, []))
            for pattern in (end for end in ends if not re.fullmatch(r"\w+", end)):
                last += [function for function in self.source.functions
                         if re.search(pattern, function.body)]
            ahead = reach(first, lambda function: function.calls.values())
            behind = reach(last, lambda function: back.get(id(function), []))
            for key in ahead.keys() & behind.keys():
                found.setdefault(ahead[key].unit, set()).add(ahead[key].name)
        self.measure("trip-files", len(found), [
            (unit, 1, "on the trip by " + " ".join(sorted(names)))
            for unit, names in sorted(found.items())])

    def judge(self):
        rows, path = set(self.rows), "tests/lint/structure.txt"
        for name, wanted in WANTED.items():
            value = self.values[name]
            allowed, line = self.rows.pop(name, (wanted, 1))
            row = name in rows
            shown = f" (struct {self.largest})" if name == "struct-fields" else ""
            print(f"{name}: {TEXT[name]}{shown}: {value}, wanted {wanted}, allowed {allowed}")
            if row and allowed <= wanted:
                self.report.add(name, path, line, f"{name}: a row is for more than {wanted}")
            elif row and value <= wanted:
                self.report.add(name, path, line, f"lower the row: {name} is {value}, delete it")
            elif row and value < allowed:
                self.report.add(name, path, line, f"lower the row: {name} is {value}")
            elif value > allowed:
                self.report.add(name, path, line, f"{TEXT[name]}: {value}, allowed {allowed}")
                for breach in self.what[name][:BREACHES_SHOWN]:
                    self.report.add(name, *breach)
        for name, (_, line) in self.rows.items():
            self.report.add("rows", path, line, f"no measure {name}")


def reach(starts, following):
    found, work = {id(function): function for function in starts}, list(starts)
    while work:
        for each in following(work.pop()):
            if id(each) not in found:
                found[id(each)] = each
                work.append(each)
    return found


def read_rows(root):
    """{measure: (allowed, line)} of tests/lint/structure.txt."""
    path, rows = os.path.join(root, "tests/lint/structure.txt"), {}
    if os.path.exists(path):
        for number, line in enumerate(lint.read(root, path).split("\n"), 1):
            words = line.split("#")[0].split()
            if words:
                rows[words[0]] = (int(words[1]), number)
    return rows


def main():
    options = lint.options(__doc__)
    law = Law(options.root)
    law.layers()
    law.circles()
    law.sizes()
    law.names()
    law.trip()
    law.judge()
    for group in law.large_circles:
        room = "/".join(group[0].split("/")[:2])
        print(f"circle of {len(group)} in {room}/: " +
              " ".join(os.path.relpath(unit, room) for unit in group))
    if "list" in options.rest:
        for name, rows in law.what.items():
            for path, line, text in rows:
                print(f"{name}: {path}:{line}: {text}")
    law.report.end()


if __name__ == "__main__":
    main()
