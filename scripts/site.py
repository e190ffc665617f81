#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a static site of the Markdown documents and man pages, and checks every link in it.

Usage: scripts/site.py FOLDER      it is made anew; open FOLDER/index.html, no server is needed
Exit: 0 made, all links lead somewhere; 1 a link is dead, or no python3-markdown; 2 usage."""
import html
import os
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "tests/lint"))
import lint # noqa: E402
import pages # noqa: E402

FRONT = "docs/index.md"
MARKER = ".made-by-site.py"
MAN = re.compile(r"docs/man/([\w-]+)\.([1-8])$")
STYLE = """
:root { --ink: #1f2328; --soft: #59636e; --back: #ffffff; --line: #d1d9e0; --tint: #f6f8fa;
  --link: #0b5fcc; color-scheme: light dark }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --back: #0d1117;
  --line: #30363d; --tint: #161b22; --link: #6cb0ff } }
* { box-sizing: border-box }
body { margin: 0; color: var(--ink); background: var(--back);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
.page { display: flex; max-width: 1180px; margin: 0 auto }
nav { flex: 0 0 230px; padding: 24px 16px; font-size: 14px; border-right: 1px solid var(--line) }
nav input, nav label { display: none } nav b { display: block; margin: 14px 0 4px }
nav a { display: block; padding: 2px 0 } nav a.here { color: var(--ink); font-weight: 600 }
main { flex: 1; min-width: 0; padding: 24px 32px 80px }
h1 { font-size: 30px; margin: 0 0 16px } h2 { font-size: 22px; margin: 36px 0 12px;
  border-bottom: 1px solid var(--line); padding-bottom: 6px } h3 { font-size: 17px }
pre, code { font: 13.5px/1.5 ui-monospace, "DejaVu Sans Mono", monospace }
pre { background: var(--tint); border: 1px solid var(--line); border-radius: 6px; padding: 12px;
  overflow-x: auto } code { background: var(--tint); border-radius: 4px; padding: 1px 4px }
pre code { padding: 0; background: none }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: 14.5px; margin: 12px 0 }
th, td { border: 1px solid var(--line); padding: 5px 10px; text-align: left; vertical-align: top }
th { background: var(--tint) } td[style*=right] { white-space: nowrap }
img { max-width: 100%; height: auto }
footer { color: var(--soft); font-size: 13px; margin-top: 60px }
.man pre { white-space: pre } .man table.head, .man table.foot { width: 100%; font-size: 13px }
.man dd { margin-left: 2em } .man h1 { font-size: 21px; margin: 32px 0 10px }
.man h2 { font-size: 17px; margin: 24px 0 8px; border: 0 } .man a.permalink { color: inherit }
.man table.head td, .man table.foot td { border: 0; color: var(--soft); width: 33% }
.man td.head-vol { text-align: center } .man td.head-rtitle, .man td.foot-os { text-align: right }
@media (max-width: 800px) { .page { display: block } main { padding: 16px }
  p:has(> img) { overflow-x: auto } img { min-width: 600px }
  .wide th, .wide td { padding: 4px 7px; font-size: 13px } .wide td:first-child { min-width: 8em }
  nav { border: 0; border-bottom: 1px solid var(--line); padding: 12px 16px }
  nav label { display: block; font-weight: 600; cursor: pointer } nav div { display: none }
  nav input:checked ~ div { display: block } }
"""
FRAME = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="{up}style.css"></head><body><div class="page">
<nav><input type="checkbox" id="menu"><label for="menu">tcpx-p2p &#9776;</label>
<div>{nav}</div></nav>
<main class="{kind}">{body}
<footer>tcpx-p2p {version}, made from {source}</footer></main></div></body></html>
"""


class Site:
    def __init__(self, out):
        import markdown
        from markdown.extensions.toc import TocExtension
        self.out = out
        self.tree = set(lint.tree(TOP))
        self.folders = {str(parent) for name in self.tree
                        for parent in pathlib.PurePosixPath(name).parents} - {"."}
        self.copied = set()
        self.man = {f"{found[1]}({found[2]})": f"man/{found[1]}.{found[2]}.html"
                    for found in map(MAN.match, sorted(self.tree)) if found}
        toc = TocExtension(slugify=lambda text, _: pages.slug(text), toc_depth="1-6")
        self.convert = lambda text: markdown.markdown(
            text, extensions=["tables", "fenced_code", "sane_lists", toc])
        self.version = re.search(r"version: '([\d.]+)'", lint.read(TOP, "meson.build"))[1]
        self.menu = self.read_menu()

    def place(self, name):
        """Where a file or folder of the tree lies in the site; copies what is no page."""
        if name == FRONT:
            return "index.html"
        if name.endswith(".md"):
            return re.sub(r"^docs/", "", name)[:-3].lower() + ".html"
        found = MAN.match(name)
        if found:
            return f"man/{found[1]}.{found[2]}.html"
        if name in self.folders:
            self.copy_folder(name)
            return f"files/{name}/index.html"
        if name in self.tree:
            self.copy(name)
            return f"files/{name}"
        return None

    def copy(self, name):
        if name not in self.copied:
            self.copied.add(name)
            target = self.out / "files" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TOP / name, target)

    def copy_folder(self, folder):
        rows = sorted(name for name in self.tree if posixpath.dirname(name) == folder)
        if folder in self.copied:
            return
        self.copied.add(folder)
        for name in rows:
            self.copy(name)
        items = "".join(f'<li><a href="{html.escape(posixpath.basename(name))}">'
                        f"{html.escape(posixpath.basename(name))}</a></li>" for name in rows)
        self.write(f"files/{folder}/index.html", folder, f"<h1>{folder}/</h1><ul>{items}</ul>",
                   folder)

    def read_menu(self):
        """[(heading, [(text, file)])] of the links of the front page."""
        menu = []
        for line in pages.outside(lint.read(TOP, FRONT)):
            if line.startswith("## "):
                menu.append((line[3:], []))
            for text, target in re.findall(r"\[([^\]]+)\]\(([^)#]+)\)", line):
                name = posixpath.normpath(posixpath.join(posixpath.dirname(FRONT), target))
                if menu and name.endswith(".md"):
                    menu[-1][1].append((text, name))
        return menu

    def link(self, source, page, target):
        """A link of a document, as it is from its page in the site."""
        path, hash_, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return target
        name = posixpath.normpath(posixpath.join(posixpath.dirname(source), html.unescape(path)))
        place = self.place(name)
        if place is None:
            raise SystemExit(f"site: {source}: no file {path}")
        return posixpath.relpath(place, posixpath.dirname(page) or ".") + hash_ + anchor

    def manual(self, page, text):
        """'man 7 tcpx' and tcpx-perf(1) become links."""
        def to(match, name, section):
            for one in [section] if section else "1735":
                place = self.man.get(f"{name}({one})")
                if place:
                    href = posixpath.relpath(place, posixpath.dirname(page) or ".")
                    return f'<a href="{href}">{match[0]}</a>'
            return match[0]
        text = re.sub(r"<code>man (?:(\d) )?([\w-]+)</code>", lambda m: to(m, m[2], m[1]), text)
        return re.sub(r"<b>([\w-]+)</b>\((\d)\)", lambda m: to(m, m[1], m[2]), text)

    def nav(self, page):
        out = []
        up = posixpath.dirname(page) or "."
        for heading, rows in [("", [("Start", FRONT), ("About", "README.md")]), *self.menu]:
            out.append(f"<b>{html.escape(heading)}</b>" if heading else "")
            for text, name in rows:
                place = self.place(name)
                here = ' class="here"' if place == page else ""
                out.append(f'<a href="{posixpath.relpath(place, up)}"{here}>'
                           f"{html.escape(text)}</a>")
            if heading == "Reference":
                out.append(f'<a href="{posixpath.relpath("man/index.html", up)}">Man pages</a>')
        return "\n".join(out)

    def write(self, page, title, body, source, kind="doc"):
        target = self.out / page
        target.parent.mkdir(parents=True, exist_ok=True)
        body = re.sub(r"(<table.*?</table>)", r'<div class="wide">\1</div>', body, flags=re.S) \
            if kind == "doc" else body
        target.write_text(FRAME.format(
            title=html.escape(title), up="../" * page.count("/"), nav=self.nav(page), body=body,
            kind=kind, version=self.version, source=html.escape(source)),
            encoding="utf-8")

    def document(self, name):
        page, text = self.place(name), lint.read(TOP, name)
        body = self.convert(re.sub(r"<!-- .*? -->\n", "", text))
        body = re.sub(r'(href|src)="([^"]*)"',
                      lambda m: f'{m[1]}="{self.link(name, page, m[2])}"', body)
        title = re.search(r"^# (.*)", text, re.M)
        self.write(page, title[1] if title else name, self.manual(page, body), name)

    def man_page(self, name):
        found = MAN.match(name)
        page = self.place(name)
        body = subprocess.run(["mandoc", "-T", "html", "-O", "fragment", TOP / name], check=True,
                              capture_output=True, text=True).stdout
        self.write(page, f"{found[1]}({found[2]})", self.manual(page, body), name, "man")

    def man_index(self):
        rows = {}
        for title, place in self.man.items():
            text = lint.read(TOP, f"docs/{place[:-5]}").replace("\\-", "-")
            about = re.search(r"^\.SH NAME\n(?:.*\n)*?.*? - (.*)", text, re.M)
            rows.setdefault(title[-2], []).append(
                f'<tr><td><a href="{posixpath.basename(place)}">{title}</a></td>'
                f"<td>{html.escape(about[1] if about else '')}</td></tr>")
        names = {"1": "Commands", "3": "Library calls", "5": "File formats", "7": "Overviews"}
        body = "<h1>Man pages</h1>" + "".join(
            f"<h2>{names[key]}</h2><table>{''.join(rows[key])}</table>" for key in sorted(rows))
        self.write("man/index.html", "Man pages", body, "docs/man")


def dead_links(out):
    """Links of the site that lead nowhere: file, link."""
    texts = {path.relative_to(out).as_posix(): path.read_text(encoding="utf-8")
             for path in out.rglob("*.html")}
    ids = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in texts.items()}
    for name, text in sorted(texts.items()):
        for target in re.findall(r'\b(?:href|src)="([^"]*)"', text):
            path, _, anchor = html.unescape(target).partition("#")
            if re.match(r"[a-z]+:", path):
                continue
            place = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) \
                if path else name
            if not (out / place).is_file() or (anchor and place in ids and
                                               anchor not in ids[place]):
                yield name, target


def main(argv):
    if len(argv) != 1 or argv[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    out = pathlib.Path(argv[0]).absolute()
    if out.exists() and not (out / MARKER).exists() and any(out.iterdir()):
        print(f"site: {argv[0]} holds something else", file=sys.stderr)
        return 1
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / MARKER).touch()
    (out / "style.css").write_text(STYLE, encoding="utf-8")
    try:
        site = Site(out)
    except ImportError:
        print("site: no python3-markdown (package python3-markdown)", file=sys.stderr)
        return 1
    with_man = shutil.which("mandoc")
    if not with_man:
        print("site: no mandoc: without the man pages", file=sys.stderr)
        site.man = {}
    for name in sorted(site.tree):
        if name.endswith(".md") and not name.startswith(".github/"):
            site.document(name)
        elif with_man and MAN.match(name):
            site.man_page(name)
    site.man_index()
    dead = list(dead_links(out))
    for name, target in dead:
        print(f"site: {name}: dead link {target}", file=sys.stderr)
    count = sum(1 for _ in out.rglob("*.html"))
    print(f"site: {argv[0]}/index.html, {count} pages, {len(dead)} dead links")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
