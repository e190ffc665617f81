# SPDX-License-Identifier: Apache-2.0
"""What a Markdown page holds: its command blocks, headings and anchors."""
import re
from collections import namedtuple

# how: what the comment above the block says, "" without one; lines: the commands
Block = namedtuple("Block", "line how lines")
MARK = re.compile(r"<!-- ((?:not )?run(?:: .*)?) -->")
# Pages whose commands are checked: what users type from.
COMMANDS = re.compile(r"README\.md|docs/(guide/[\w-]+|migration-uccl)\.md")


def fences(text):
    """(line number, info string, line above, body) of each fenced block."""
    lines, inside, above = text.splitlines(), None, ""
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            if inside:
                yield inside + (lines[inside[0]:number - 1],)
                inside = None
            else:
                inside = (number, line[3:].strip(), above)
        elif not inside and line.strip():
            above = line


def commands(text):
    """Blocks without an info string are commands."""
    for number, info, above, body in fences(text):
        if not info:
            found = MARK.fullmatch(above.strip())
            yield Block(number, found[1] if found else "", body)


def outside(text):
    """The page without its fenced blocks, line numbers kept."""
    out, inside = [], False
    for line in text.splitlines():
        fence = line.startswith("```")
        out.append("" if inside or fence else line)
        inside ^= fence
    return out


def slug(heading):
    """The anchor that a heading gets."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", plain.strip().lower()))


def anchors(text):
    out = set(re.findall(r'<a id="([^"]+)">', text))
    for line in outside(text):
        if re.match(r"#{1,6} ", line):
            name, number = slug(line.lstrip("#")), 1
            while name in out:
                name, number = f"{slug(line.lstrip('#'))}-{number}", number + 1
            out.add(name)
    return out
