#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks which module includes which: lint_layers.py FILE... names each #include of our files that the layers below
forbid, and each #include of nng outside the modules that use it. The layers must have no circle. A module is a
folder, and may always include itself. Modules that are not listed here are not checked."""
import re
import sys
from pathlib import Path

SHARED = ["registry/protocol", "include", "gen"]
BELOW = ["registry/observe", "registry/state", "registry/os", *SHARED]
CORE = ["shim/core", "shim/client", "shim/cuda", "shim/base", *SHARED]
PARTS = ["shim/core/buffer", "shim/core/order", "shim/core/copy", "shim/core/map"]
TOOLS = ["tools/common", "shim/base", *SHARED]
# module: the modules that it may include
MAY = {
    "include": [],
    "registry/protocol": ["include", "gen"],
    "registry/os": ["registry/protocol", "include"],
    "registry/state": ["registry/os", "registry/protocol", "include", "gen"],
    "registry/observe": ["registry/state", "registry/os", "registry/protocol", "include", "gen"],
    "registry/fdstore": ["registry/state", "registry/os", "registry/protocol", "include"],
    "registry/context": ["registry/observe", "registry/state", "registry/os", "registry/protocol", "include"],
    "registry/order": ["registry/context", "registry/fdstore", *BELOW],
    "registry/persist": ["registry/order", "registry/context", "registry/fdstore", *BELOW],
    "registry/verbs": ["registry/persist", "registry/order", "registry/context", *BELOW],
    "registry/server": ["registry/verbs", "registry/persist", "registry/order", "registry/context", *BELOW],
    "registry": ["registry/server", "registry/persist", "registry/order", "registry/context", "registry/fdstore", *BELOW],
    "shim/base": ["include"],
    "shim/cuda": ["shim/base", "include"],
    "shim/client": ["shim/base", *SHARED],
    "shim/core": CORE[1:],
    **{part: CORE for part in PARTS},
    "shim/api": [*PARTS, *CORE],
    "shim/preload": [*PARTS, *CORE],
    "tools/common": ["shim/preload", *TOOLS[1:]],  # the shim's rules and times
    "tools/data": TOOLS,
    "tools/copy": ["tools/data", *TOOLS],
    "tools/top": TOOLS,
    "tools/doctor": ["shim/preload", "shim/cuda", *TOOLS],
    "tools/node": ["tools/copy", "shim/cuda", "tools/data", *TOOLS],
    "tools/cli": ["tools/node", "tools/copy", "tools/doctor", "tools/top", "tools/data", "shim/preload", *TOOLS],
}
NNG = ["registry/server"]
FOLDERS = ["registry/protocol", "include", "shim", "tools", "registry"]  # as the compiler is told; gen/ is made
INCLUDE = re.compile(r'\s*#\s*include\s+(?:"([^"]+)"|<(nng/[^>]+)>)')


def module_of(path):
    """The innermost folder that is a module, for a path such as registry/server/ask.c."""
    return next((str(folder) for folder in Path(path).parents if str(folder) in MAY), None)


def found(name, beside):
    if name.endswith(".pb.h"):
        return "gen"
    places = [Path(beside).parent, *map(Path, FOLDERS)]
    return next((module_of(place / name) for place in places if (place / name).exists()), None)


def faults(path):
    module = module_of(path)
    may = [module, *MAY[module]]
    for number, line in enumerate(Path(path).read_text().split("\n"), 1):
        include = INCLUDE.match(line)
        if not include:
            continue
        if include[2] and module not in NNG:
            yield f"{path}:{number}: only these know nng: {', '.join(NNG)}"
        elif include[1] and (other := found(include[1], path)) not in may:
            yield f"{path}:{number}: {module} may not include \"{include[1]}\" of {other}"


def circle():
    """Modules that include each other, directly or through others. With such a circle the other checks mean nothing."""
    left = dict(MAY)
    while free := [module for module, may in left.items() if not set(may) & set(left)]:
        for module in free:
            del left[module]
    return sorted(left)


bad = [f"these modules form a circle: {', '.join(circle())}"] if circle() else []
bad += [fault for path in sys.argv[1:] if module_of(path) for fault in faults(path)]
if bad:
    print("\n".join(bad))
sys.exit(bool(bad))
