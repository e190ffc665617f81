#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each lint passes a clean little tree and catches the fault planted in it."""
import os
import shutil
import subprocess
import sys
import tempfile

import check_subjects

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = "/* SPDX-License-Identifier: Apache-2.0 */\n/* One sentence of purpose. */\n"
HEADER = HEAD + """#ifndef TCPX_LOG_H
#define TCPX_LOG_H

#define TCPX_API __attribute__((visibility("default")))
TCPX_API int tcpx_value(void);

#endif
"""
PAGE = """.\\" SPDX-License-Identifier: Apache-2.0
.TH TCPX_VALUE 3 2025-01-01 tcpx-p2p "tcpx-p2p manual"
.SH NAME
tcpx_value \\- a value
.SH SYNOPSIS
.B int tcpx_value(void);
.SH DESCRIPTION
.BR tcpx_value ()
gives it.
.SH "RETURN VALUE"
The value.
.SH ERRORS
None.
.SH NOTES
None.
.SH EXAMPLES
.nf
int value = tcpx_value();
.fi
.SH "SEE ALSO"
.BR tcpx (7)
"""
STRUCT_OUT = "typedef struct tcpx_out {\n\tint value; /* size_t sz; */\n} tcpx_out;\n"
SOURCE = HEAD + """#include "base/thing.h"

int api_value(void)
{
	return 1; /* exit() and printf("abort()") here are words only */
}
"""
MUTANTS = """mutant: value-two
breaks: the value
caught-by: value
in: api_value
-	return 1;
+	return 2;
"""
# A trip of three files; calls through a table and a name that is a value are none.
START = HEAD + """int tcpx_request_start(int fd)
{
	return hooks_posted(fd);
}
"""
SEND = HEAD + """#include "core/queue.h"

static int (*const table[])(int) = {tcpx_request_start};

int worker_kick(int fd)
{
	return table[0](fd) + fd->api_value(tcpx_request_start);
}

int hooks_posted(int fd)
{
	core_job_queue(fd);
	return worker_kick(fd);
}

int chan_kicked(int fd)
{
	core_chunk_add(fd);
	return fd->send(fd);
}

int worker_main(int fd)
{
	return chan_kicked(fd);
}
"""
QUEUE = HEAD + """#include "core/queue.h"

int core_job_queue(int fd)
{
	return fd;
}

int core_chunk_add(int fd)
{
	return fd;
}
"""
STRUCT = """#pragma once
struct full {
	int a, b[3], c : 1, *d;
	union {
		int e, f;
		struct {
			int g;
		} h;
	};
	enum full_kind { FULL_ONE, FULL_TWO } i;
	int (*k)(int, int);
	char l[sizeof(int[2]) + 1];
	long m[1], n, o, p, q, r, s, t, u, v, w, x, y, z, a1, a2, a3, a4, a5, a6;
};
"""


def chain(length, folder="src/engine/link", last="worker_kick(0)"):
    """Files whose functions call one another in a row."""
    return {f"{folder}/chain_{number}.c": HEAD + f"int chain_{number}(void)\n{{\n\treturn " +
            (last if number == length - 1 else f"chain_{number + 1}()") + ";\n}\n"
            for number in range(length)}


CLEAN = {
    "include/tcpx/log.h": HEADER,
    "src/base/thing.h": HEAD + "#ifndef THING_H\n#define THING_H\nint api_value(void);\n#endif\n",
    "src/api/value.c": SOURCE,
    "src/api/start.c": START,
    "src/engine/channel/send.c": SEND,
    "src/core/queue.c": QUEUE,
    "src/core/queue.h": HEAD + STRUCT,
    "src/core/pure.c": HEAD + "#include <stdint.h>\n\nint core_pure;\n",
    "docs/man/tcpx_value.3": PAGE,
    "scripts/a.sh": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\necho hello\n",
    "README.md": "# A\n\n[a script](scripts/a.sh)\n",
    "tests/a.txt": "a_test\n",
    "tests/mutants/value.txt": MUTANTS,
    "Makefile": "# SPDX-License-Identifier: Apache-2.0\nall:\n",
    "scripts/try-readme.sh": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\nmake all\n",
    ".clang-format": None,
}


def body(line):
    return SOURCE.replace("\treturn 1;", f"\t{line}\n\treturn 1;")


# The second file calls its own function of that name, and not the one above it.
STATICS = {"src/base/a.c": HEAD + "static int api_value(void)\n{\n\treturn 2;\n}\n\n"
           "int base_a(void)\n{\n\treturn api_value();\n}\n"}

# check, files, what the check says although it passes
PASSES = [
    ("style", {"src/api/value.c": SOURCE + "\n" * 820}, "lines, more than 800"),
    ("structure", dict(STATICS, **{"tests/lint/structure.txt": "static-repeats 1\n"}),
     "has: 1, wanted 0, allowed 1"),
    ("structure", {"src/engine/a.c": HEAD + "int a(void)\n{\n\treturn worker_kick(1);\n}\n",
                   "src/engine/link/b.c": HEAD + "int b(void)\n{\n\treturn a();\n}\n",
                   "tests/lint/structure.txt": "engine-root-files 1\n"},
     "calls that go upward: 0"),
    ("structure", {"src/abi/long.h": HEAD + "\n" * 200,
                   "tests/lint/exempt.txt": "header src/abi/*.h # theirs\n"},
     "headers above 150 lines: 0"),
    ("structure", {"src/core/queue.h": HEAD + STRUCT}, "(struct full): 30, wanted 30"),
]

# check, file, its text with one fault, what the check must say; without a file the text is a
# dictionary of files
FAULTS = [
    ("layers", "src/base/thing.h", HEAD + '#include "sys/a.h"\n', 'base/ must not include "sys/'),
    ("layers", "src/core/pure.c", HEAD + '#include "wire/table.h"\n', "core/ must not include"),
    ("layers", "src/core/pure.c", HEAD + "#include <pthread.h>\n", "core/ is pure"),
    ("layers", "src/net/tcp/tcp.c", HEAD + '#include "mem/kind.h"\n', "net/ must not include"),
    ("layers", "src/mem/host.c", HEAD + '#include "ctl/conn.h"\n', "mem/ must not include"),
    ("layers", "src/engine/a.c", HEAD + '#include "api/b.h"\n', "engine/ must not include"),
    ("layers", "src/net/tcp/tcp.c", HEAD + '#include "plugin/plugin.h"\n', "net/ must not include"),
    ("layers", "src/engine/a.c", HEAD + '#include "plugin/comm.h"\n', 'include "plugin/plugin.h"'),
    ("layers", "src/wire/a.c", HEAD + "#include <tcpx/session.h>\n", "wire/ must not include"),
    ("layers", "src/wire/b.c", HEAD + "#include <openssl/hmac.h>\n", "belongs to sys/ alone"),
    ("layers", "src/new/a.c", HEAD + "#include <stdint.h>\n", "is no layer"),
    ("layers", "src/net/a.c", HEAD + '#include "../mem/kind.h"\n', "not relative to src/"),
    ("layers", "tools/tcpx/a.c", HEAD + '#include "core/link.h"\n', "tools must not include"),
    ("layers", "examples/a.c", HEAD + '#include "base/thing.h"\n', "installed headers only"),
    ("layers", "include/tcpx/a.h", HEAD + "#include <sys/socket.h>\n", "stand alone"),
    ("style", "src/api/value.c", SOURCE.split("\n", 1)[1], "the first line is not"),
    ("style", "src/api/value.c", HEAD.split("\n")[0] + "\n\nint a;\n", "what it is for"),
    ("style", "src/base/thing.h", CLEAN["src/base/thing.h"] + "\n" * 520, "at most 500"),
    ("style", "scripts/a.sh", CLEAN["scripts/a.sh"] + "\n" * 520, "at most 500"),
    ("style", "src/api/value.c", body("api_value();\n" * 80), "lines in one function"),
    ("style", "src/api/value.cpp", HEAD + "class a final : public b\n{\n" + "\tvoid f()\n\t{\n" +
     "\t\tg();\n" * 80 + "\t}\n};\n", "82 lines in one function"),
    ("style", "src/api/value.c", body("api_value(); " + "/* x */ " * 13), "wider than"),
    ("style", "src/api/value.c", body("").replace("\treturn", "        return"), "by spaces"),
    ("style", "src/api/value.c", body("/* T" + "ODO */"), "left open"),
    ("style", "src/core/thing.h", CLEAN["src/base/thing.h"], "the same file name"),
    ("style", "src/api/value.c", body("exit(1);"), "ends the process"),
    ("style", "src/api/value.c", body("close(3);"), "sys_fd_close()"),
    ("style", "src/api/value.c", body("abort();"), "ends the process"),
    ("style", "src/api/value.c", body("assert(1);"), "ends the process"),
    ("style", "src/api/value.c", body('printf("x");'), "prints"),
    ("style", "src/api/value.c", body('setenv("A", "b", 1);'), "changes the process"),
    ("style", "src/api/value.c", body('system("x");'), "starts a process"),
    ("style", "src/api/value.c", body("atomic_thread_fence(memory_order_acquire);"), "fence"),
    ("style", "src/api/value.c", body("int fd = socket(AF_INET, SOCK_STREAM, 0);"), "CLOEXEC"),
    ("style", "src/api/value.c", body('snprintf(a->why, 9, "%s", b);'), "cuts between words"),
    ("style", "tools/tcpx/a.c", body('vsnprintf(what, cap, b, c);'), "cuts between words"),
    ("style", "src/api/value.c", body("send(1, p, 2, MSG_DONTWAIT);"), "MSG_NOSIGNAL"),
    ("style", "src/api/value.c", body("recv(1, p, 2, MSG_WAITALL);"), "blocks"),
    ("style", "src/api/value.c", body("").replace("int api", "static int tcpx"),
     "never start with"),
    ("structure", "src/base/thing.h", HEAD + '#include "sys/a.h"\n', '"sys/a.h" lies above base/'),
    ("structure", "src/engine/link/a.c", HEAD + '#include "engine/peer/b.h"\n',
     '"engine/peer/b.h" lies above engine/link/'),
    ("structure", "src/engine/other/a.c", HEAD + '#include "engine/link/b.h"\n',
     '"engine/link/b.h" lies above engine/other/'),
    ("structure", "src/base/a.c", HEAD + "int base_a(void)\n{\n\treturn api_value();\n}\n",
     "base_a calls api_value of src/api/value.c"),
    ("structure", "src/base/a.h", HEAD + "#define BASE_A(x) ((x) + api_value())\n",
     "BASE_A calls api_value of src/api/value.c"),
    ("structure", "src/base/a.h", HEAD + "static inline int base_a(void)\n{\n"
     "\treturn api_value();\n}\n", "base_a calls api_value of src/api/value.c"),
    ("structure", "src/engine/link/a.c",
     HEAD + "int link_a(void)\n{\n\treturn worker_kick(1);\n}\n", "link_a calls worker_kick"),
    ("structure", "src/core/pure.c",
     HEAD + "int core_job_queue(int a)\n{\n\treturn worker_kick(a);\n}\n",
     "core/ -> engine/channel/: core_job_queue calls worker_kick"),
    ("structure", "src/engine/a.c", HEAD + "int a;\n", "directly in src/engine/: 1, allowed 0"),
    ("structure", None, chain(5, last="chain_0()"), "5 files in a circle: chain_0 chain_1"),
    ("structure", None, dict(
        {name.replace("link/chain_3", "chain_3"): text
         for name, text in chain(5, last="chain_0()").items()},
        **{"tests/lint/structure.txt": "engine-root-files 1\n"}), "5 files in a circle"),
    ("structure", "src/base/thing.h", HEAD + "\n" * 150, "152 lines, at most 150"),
    ("structure", "src/core/queue.h", HEAD + STRUCT.replace("int g", "int g, g2"),
     "struct full: 31 fields, at most 30"),
    ("structure", "src/core/queue.h", HEAD + STRUCT.replace("c : 1", "c : 1, c2 : 1"),
     "struct full: 31 fields, at most 30"),
    ("structure", "src/core/pure.c", HEAD + STRUCT, "struct full is also in src/core/"),
    ("structure", "src/net/a.c", HEAD + "static int api_value(void)\n{\n\treturn 2;\n}\n",
     "api_value is also in src/api/value.c"),
    ("structure", "src/api/start.c", START.replace("tcpx_request_start", "tcpx_request_begin"),
     "TRIP: no function tcpx_request_start"),
    ("structure", None, dict(chain(14), **{
        "src/api/start.c": START.replace("hooks_posted(fd)", "hooks_posted(chain_0())")}),
     "files on a WRITE's trip: 17, allowed 16"),
    ("structure", "tests/lint/structure.txt", "static-repeats 2\n", "repeats is 0, delete it"),
    ("structure", None, dict(STATICS, **{"tests/lint/structure.txt": "static-repeats 2 # why\n"}),
     "lower the row: static-repeats is 1"),
    ("structure", "tests/lint/structure.txt", "trip-files 16\n", "a row is for more than 16"),
    ("structure", "tests/lint/structure.txt", "trips 20\n", "no measure trips"),
    ("headers", "include/tcpx/log.h", HEADER.replace("(void)", "(size_t n)"), "size_t"),
    ("headers", "include/tcpx/log.h", HEADER.replace("int tcpx", "_Bool tcpx"), "c++"),
    ("headers", "src/base/thing.h", HEAD + "struct twice { int a; };\n", "redefinition"),
    ("headers", "include/tcpx/log.h", HEADER.replace("\n#endif", STRUCT_OUT + "\n#endif"),
     "tcpx_out does not begin with"),
    ("headers", "include/tcpx/log.h",
     HEADER.replace("\n#endif", STRUCT_OUT.replace("value; /* s", "value; /**< 1: s") + "\n#endif"),
     "is uint32_t in a struct, not int"),
    ("headers", "include/tcpx/log.h",
     HEADER.replace("\n#endif", STRUCT_OUT.replace("int", "_Bool") + "\n#endif"),
     "is uint32_t in a struct, not _Bool"),
    ("man", "include/tcpx/log.h", HEADER.replace("tcpx_value", "tcpx_other"), "of no page"),
    ("man", "docs/man/tcpx_value.3", PAGE.replace('.SH ERRORS\nNone.\n', ""), "no section ERRORS"),
    ("man", "docs/man/tcpx_value.3", PAGE.replace(".SH EXAMPLES\n", ""), "no section EXAMPLES"),
    ("man", None, {"include/tcpx/tcpx.h": HEAD + "#include <stddef.h>\n#include <stdint.h>\n"
                   "typedef int tcpx_session, tcpx_peer, tcpx_region, tcpx_request, tcpx_status;\n"
                   "enum tcpx_log_level { A };\n",
                   "docs/man/tcpx_value.3": PAGE.replace("= tcpx_value()", "= gone")},
     "undeclared (first use"),
    ("man", "docs/man/tcpx_value.3",
     PAGE.replace('.SH "SEE ALSO"\n.BR tcpx (7)\n', "")
         .replace(".SH SYNOPSIS", '.SH "SEE ALSO"\n.BR tcpx (7)\n.SH SYNOPSIS'), "out of order"),
    ("format", "src/api/value.c", SOURCE.replace("\treturn", "\t\treturn"), "clang-format"),
    ("format", "src/base/thing.h",
     HEAD + "#ifndef THING_H\n#define THING_H\n#define THING_FOREACH(a) for (; a;)\n#endif\n",
     "THING_FOREACH is not in ForEachMacros"),
    ("shell", "scripts/a.sh", CLEAN["scripts/a.sh"] + "rm -r $1/*\n", "SC2086"),
    ("paths", "scripts/a.sh", "", "a path of one machine"),
    ("links", "README.md", "[gone](docs/gone.md)\n", "no file docs/gone.md"),
    ("links", "README.md", "[gone](#gone)\n", "no heading gone in README.md"),
    ("links", "docs/a.md", "[gone](../README.md#b)\n", "no heading b in README.md"),
    ("commands", "README.md", "```\necho\n```\n", "no comment '<!-- run -->'"),
    ("commands", "README.md", "<!-- run: by hand -->\n```\necho\n```\n", "one that is unknown"),
    ("commands", "README.md", "<!-- run: make -->\n```\nmake gone\n```\n", "no target gone"),
    ("commands", "README.md", "<!-- run -->\n```\ntcpx gone\n```\n", "no command tcpx gone"),
    ("commands", "README.md", "set TCPX_NO_SUCH\n", "nothing reads TCPX_NO_SUCH"),
    ("commands", "docs/guide/troubleshooting.md", "| `nobody says this` | a | b |\n",
     "no message says 'nobody says this'"),
    ("commands", "docs/guide/troubleshooting.md", "| D99 | a |\n", "check D99"),
    ("advice", "src/api/value.c", body('say("raise TCPX_NO_SUCH");'), "reads TCPX_NO_SUCH"),
    ("advice", "tools/tcpx/a.c", body('say("try --no-such");'), "no page has --no-such"),
    ("links", "README.md", "`tests/gone.py::test_it`\n", "no file tests/gone.py"),
    ("links", "README.md", "`tests/a.txt::a_test` `tests/a.txt::gone_test`\n",
     "no test gone_test in tests/a.txt"),
    ("mutants", "src/api/value.c", SOURCE.replace("return 1", "return 3"),
     "api_value has no place"),
    ("mutants", "src/api/value.c", body("return 1;"), "api_value has 2 places"),
    ("mutants", "tests/mutants/value.txt", MUTANTS.replace("in: api_value", "in: api_gone"),
     "no definition of api_gone"),
    ("mutants", "src/core/pure.c", HEAD + SOURCE.split("\n", 1)[1], "api_value has 2 places"),
    ("mutants", "tests/mutants/value.txt", MUTANTS.replace("in: api_value\n", ""), "expected"),
    ("mutants", "tests/mutants/value.txt", MUTANTS.replace("caught-by", "breaks"), "needs"),
    ("mutants", "tests/mutants/other.txt", MUTANTS, "is also in"),
]


# A subject, and what is wrong with it.
SUBJECTS = [
    ("core: end a request once", None), ("Merge branch 'a'", None), ('Revert "a"', None),
    ("tests, docs: name the mutant", None), ("core: " + "x" * 70, "76 characters"),
    ("End a request once", "not 'area: imperative'"), ("core end a request", "not 'area:"),
    ("core: end a request.", "a period"),
    ("core: fixes a request", "not in the imperative"),
]


def write(root, name, text):
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def make_tree(root):
    for name, text in CLEAN.items():
        if text is None:
            shutil.copy(os.path.join(os.path.dirname(os.path.dirname(HERE)), name), root)
        else:
            write(root, name, text)


def check(name, root):
    return subprocess.run([sys.executable, os.path.join(HERE, f"check_{name}.py"), "--root", root],
                          text=True, capture_output=True)


def case(name, good, text):
    print(f"{'ok' if good else 'FAIL'} {name}")
    if not good:
        print(text, file=sys.stderr)
    return not good


def main():
    bad = 0
    for subject, wrong in SUBJECTS:
        said = check_subjects.breach(subject)
        bad += case(f"subjects: {subject[:30]}", said == wrong or wrong and wrong in (said or ""),
                    str(said))
    missing = set()
    with tempfile.TemporaryDirectory() as top:
        root = os.path.join(top, "clean")
        os.makedirs(root)
        make_tree(root)
        for name in sorted({fault[0] for fault in FAULTS}):
            done = check(name, root)
            if done.returncode == 77:
                missing.add(name)
                print(f"skip {name} (tool missing)")
                continue
            bad += case(f"{name} passes a clean tree", done.returncode == 0, done.stdout)
        rows = [(name, files, says, 0) for name, files, says in PASSES]
        rows += [(name, {path: text} if path else text, says, 1)
                 for name, path, text, says in FAULTS]
        for number, (name, files, says, status) in enumerate(rows):
            if name in missing:
                continue
            root = os.path.join(top, str(number))
            os.makedirs(root)
            make_tree(root)
            for path, text in files.items():
                write(root, path, text or f"#!/bin/sh\ncd {os.path.realpath(root)}/x\n")
            done = check(name, root)
            bad += case(f"{name} {'catches' if status else 'passes'}: {says}",
                        done.returncode == status and says in done.stdout,
                        done.stdout + done.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
