#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Markdown files: lint_docs.py FILE... names each local link that leads nowhere. Of docs/ and registry/, also each
line over 120 characters, each source file that its module's README leaves out or that is named and not there, and each
verb of the protocol that docs/protocol.md leaves out or makes up."""
import re
import sys
from pathlib import Path

MOST = 120
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
STRICT = ("docs/", "registry/")  # the other pages are older than these rules
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
    """The table of a module's files: first cells, `store.c` or `entry.*`."""
    cells = "".join(re.findall(r"^\|([^|]*)\|", text, flags=re.M))
    named = {(stem, end) for stem, end in re.findall(r"`(\w+)\.(c|h|\*)`", cells)}
    there = {(file.stem, file.suffix[1:]) for file in path.parent.glob("*.[ch]")}
    for stem, end in sorted(named):
        if not any(stem == other and end in ("*", kind) for other, kind in there):
            yield f"{path}: no {stem}.{end}"
    for stem in sorted({stem for stem, _ in there} - {stem for stem, _ in named}):
        if (stem, "c") in there:
            yield f"{path}: {stem}.c is not in it"


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
    if path.parts[0] == "registry":
        yield from files(path, text)
    if str(path) == "docs/protocol.md":
        yield from verbs(path, text)


bad = [fault for name in sys.argv[1:] for fault in faults(Path(name))]
if bad:
    print("\n".join(bad))
sys.exit(bool(bad))
