# SPDX-License-Identifier: Apache-2.0
"""The functions that the public headers declare, read from the headers themselves."""
import re

import lint


def functions(root):
    """Name of each function marked TCPX_API: {name: header}."""
    found = {}
    for name in lint.tree(root):
        if not (name.startswith("include/tcpx/") and name.endswith(".h")):
            continue
        text = lint.bare(lint.read(root, name))
        for match in re.finditer(r"^TCPX_API\b[^;]*?\b(tcpx_\w+)\s*\(", text, re.M):
            found[match[1]] = name
    return found
