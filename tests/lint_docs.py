#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Markdown files: lint_docs.py FILE... names each local link that leads nowhere. Of docs/, registry/, shim/ also each
line over 120 characters, each source file that its module's README leaves out or that is named and not there, and each
verb of the protocol that docs/protocol.md leaves out or makes up."""
import fnmatch
import re
import sys
from pathlib import Path

MOST = 120
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
STRICT = ("docs/", "registry/", "shim/")  # the other pages are older than these rules
WRITTEN = re.compile(r"docs/measurements/.*/")  # by programs, which make one line of a table's row


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def links(path, text):
    for target in LINK.findall(without_code(text)):
        if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
            yield f"{path}: no {target}"


def lengths(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MOST:
            yield f"{path}:{number}: {len(line)} characters"


def files(path, text):
    """The table of a module's files: first cells, `store.c`, `entry.*` or `rules_*.c`."""
    cells = "".join(re.findall(r"^\|([^|]*)\|", text, flags=re.M))
    named = re.findall(r"`([\w*]+\.[chS*])`", cells)
    there = {file.name for file in path.parent.glob("*.[chS]")}
    for name in named:
        if not fnmatch.filter(there, name) and not (path.parent / name).exists():
            yield f"{path}: no {name}"
    known = {Path(file).stem for name in named for file in fnmatch.filter(there, name)}
    for file in sorted(there):
        if file.endswith(".c") and Path(file).stem not in known:
            yield f"{path}: {file} is not in it"


def verbs(path, text):
    listed = re.search(r"#define REQUEST_VERBS\(X\)((?:.*\\\n)*.*)", Path("registry/protocol/protocol.h").read_text())[1]
    real = set(re.findall(r"X\((\w+)\)", listed))
    section = text[text.index("\n## Verbs\n") :].split("\n## ")[1]
    said = set(re.findall(r"^\| `(\w+)` \|", section, flags=re.M))
    for verb in sorted(real ^ said):
        yield f"{path}: the verb {verb} is {'not in it' if verb in real else 'none'}"


def faults(path):
    text = path.read_text()
    yield from links(path, text)
    if str(path).startswith(STRICT) and not WRITTEN.match(str(path)):
        yield from lengths(path, text)
    if path.parts[0] in ("registry", "shim"):
        yield from files(path, text)
    if str(path) == "docs/protocol.md":
        yield from verbs(path, text)


bad = [fault for name in sys.argv[1:] for fault in faults(Path(name))]
if bad:
    print("\n".join(bad))
sys.exit(bool(bad))
