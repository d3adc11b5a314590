#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who may include whom: lint_layers.py FILE... names each #include of a file of ours that goes against the
layers below, and each of nng's outside of the one module that knows it. A module is a folder; it may always
include itself. What is not listed here is not looked at yet: tools/."""
import re
import sys
from pathlib import Path

SHARED = ["registry/protocol", "include", "gen"]
CORE = ["shim/core", "shim/client", "shim/cuda", "shim/base", *SHARED]
PARTS = ["shim/core/buffer", "shim/core/order", "shim/core/copy", "shim/core/map"]
# module: those that it may include
MAY = {
    "include": [],
    "registry/protocol": ["include", "gen"],
    "registry/os": ["registry/protocol", "include"],
    "registry/state": ["registry/os", "registry/protocol", "include", "gen"],
    "registry/observe": ["registry/state", "registry/os", "registry/protocol", "include", "gen"],
    "registry/persist": ["registry", "registry/order", "registry/observe", "registry/state", "registry/os", "registry/protocol", "include", "gen"],
    "registry/order": ["registry", "registry/observe", "registry/state", "registry/persist", "registry/os", "registry/protocol", "include", "gen"],
    "registry": ["registry/order", "registry/observe", "registry/state", "registry/persist", "registry/os", "registry/protocol", "include", "gen"],
    "registry/verbs": ["registry", "registry/order", "registry/persist", "registry/observe", "registry/state", "registry/os", "registry/protocol", "include"],
    "registry/server": ["registry/verbs", "registry", "registry/persist", "registry/order", "registry/state", "registry/os", "registry/protocol", "include"],
    "shim/base": ["include"],
    "shim/cuda": ["shim/base", "include"],
    "shim/client": ["shim/base", *SHARED],
    "shim/core": CORE[1:],
    **{part: CORE for part in PARTS},
    "shim/api": [*PARTS, *CORE],
    "shim/preload": [*PARTS, *CORE],
}
# above all modules: a file, and what it may include besides
TOPS = {"registry/main.c": ["registry/server"]}
NNG = "registry/server"
FOLDERS = ["registry/protocol", "include", "shim", "registry"]  # as the compiler is told; gen/ is made
INCLUDE = re.compile(r'\s*#\s*include\s+(?:"([^"]+)"|<(nng/[^>]+)>)')


def module_of(path):
    """The innermost folder that is one, of a path such as registry/server/ask.c."""
    return next((str(folder) for folder in Path(path).parents if str(folder) in MAY), None)


def found(name, beside):
    if name.endswith(".pb.h"):
        return "gen"
    places = [Path(beside).parent, *map(Path, FOLDERS)]
    return next((module_of(place / name) for place in places if (place / name).exists()), None)


def faults(path):
    module = module_of(path)
    may = [module, *MAY[module], *TOPS.get(path, [])]
    for number, line in enumerate(Path(path).read_text().split("\n"), 1):
        include = INCLUDE.match(line)
        if not include:
            continue
        if include[2] and module != NNG:
            yield f"{path}:{number}: only {NNG} knows nng"
        elif include[1] and (other := found(include[1], path)) not in may:
            yield f"{path}:{number}: {module} may not include \"{include[1]}\" of {other}"


bad = [fault for path in sys.argv[1:] if module_of(path) for fault in faults(path)]
if bad:
    print("\n".join(bad))
sys.exit(bool(bad))
