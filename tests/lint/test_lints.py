#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each lint passes a clean little tree and catches the fault planted in it."""
import os
import shutil
import subprocess
import sys
import tempfile

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
.SH "SEE ALSO"
.BR tcpx (7)
"""
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
CLEAN = {
    "include/tcpx/log.h": HEADER,
    "src/base/thing.h": HEAD + "#ifndef THING_H\n#define THING_H\nint api_value(void);\n#endif\n",
    "src/api/value.c": SOURCE,
    "src/core/pure.c": HEAD + "#include <stdint.h>\n\nint core_pure;\n",
    "docs/man/tcpx_value.3": PAGE,
    "scripts/a.sh": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\necho hello\n",
    "README.md": "# A\n\n[a script](scripts/a.sh)\n",
    "tests/a.txt": "a_test\n",
    "tests/mutants/value.txt": MUTANTS,
    ".clang-format": None,
}


def body(line):
    return SOURCE.replace("\treturn 1;", f"\t{line}\n\treturn 1;")


# check, file, its text with one fault, what the check must say
FAULTS = [
    ("layers", "src/base/thing.h", HEAD + '#include "sys/a.h"\n', 'base/ must not include "sys/'),
    ("layers", "src/core/pure.c", HEAD + '#include "wire/table.h"\n', "core/ must not include"),
    ("layers", "src/core/pure.c", HEAD + "#include <pthread.h>\n", "core/ is pure"),
    ("layers", "src/net/tcp/tcp.c", HEAD + '#include "mem/kind.h"\n', "net/ must not include"),
    ("layers", "src/mem/host.c", HEAD + '#include "ctl/conn.h"\n', "mem/ must not include"),
    ("layers", "src/engine/a.c", HEAD + '#include "api/b.h"\n', "engine/ must not include"),
    ("layers", "src/wire/a.c", HEAD + "#include <tcpx/session.h>\n", "wire/ must not include"),
    ("layers", "src/wire/b.c", HEAD + "#include <openssl/hmac.h>\n", "belongs to sys/ alone"),
    ("layers", "src/new/a.c", HEAD + "#include <stdint.h>\n", "is no layer"),
    ("layers", "src/net/a.c", HEAD + '#include "../mem/kind.h"\n', "not relative to src/"),
    ("layers", "tools/tcpx/a.c", HEAD + '#include "core/link.h"\n', "tools must not include"),
    ("layers", "examples/a.c", HEAD + '#include "base/thing.h"\n', "installed headers only"),
    ("layers", "include/tcpx/a.h", HEAD + "#include <sys/socket.h>\n", "stand alone"),
    ("style", "src/api/value.c", SOURCE.split("\n", 1)[1], "the first line is not"),
    ("style", "src/api/value.c", HEAD.split("\n")[0] + "\n\nint a;\n", "what it is for"),
    ("style", "src/api/value.c", body("\n" * 520), "at most 500"),
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
    ("headers", "include/tcpx/log.h", HEADER.replace("(void)", "(size_t n)"), "size_t"),
    ("headers", "include/tcpx/log.h", HEADER.replace("int tcpx", "_Bool tcpx"), "c++"),
    ("headers", "src/base/thing.h", HEAD + "struct twice { int a; };\n", "redefinition"),
    ("man", "include/tcpx/log.h", HEADER.replace("tcpx_value", "tcpx_other"), "of no page"),
    ("man", "docs/man/tcpx_value.3", PAGE.replace('.SH ERRORS\nNone.\n', ""), "no section ERRORS"),
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
        for number, (name, path, text, says) in enumerate(FAULTS):
            if name in missing:
                continue
            root = os.path.join(top, str(number))
            os.makedirs(root)
            make_tree(root)
            write(root, path, text or f"#!/bin/sh\ncd {os.path.realpath(root)}/x\n")
            done = check(name, root)
            bad += case(f"{name} catches: {says}", done.returncode == 1 and says in done.stdout,
                        done.stdout + done.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
