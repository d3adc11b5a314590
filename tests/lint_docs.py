#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the Markdown files: lint_docs.py FILE... names each local link whose file or heading is missing, and each
reference that is used but not defined, or defined but not used. In README.md, docs/, registry/ and shim/ it also names
each line over 120 characters, and in README.md each line after the 200th. It names each source file that its module's
README leaves out, or that the README names but that doesn't exist. And it names each verb of the protocol that
docs/protocol.md leaves out, or has but the protocol doesn't."""
import fnmatch
import re
import sys
from pathlib import Path

MOST = 120
LONGEST = 200  # lines of README.md
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]:\s*(\S+)|\b(?:src|srcset|href)=\"([^\"]+)\"", re.M)
USED, DEFINED = re.compile(r"\]\[([^\]]+)\]"), re.compile(r"^\[([^\]]+)\]:", re.M)
STRICT = ("README.md", "docs/", "registry/", "shim/")  # the other pages are older than these rules
WRITTEN = re.compile(r"docs/measurements/.*/")  # by programs, which make one line of a table's row


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def anchors(text):
    """GitHub's anchors of the headings: lower case, no punctuation, dashes for blanks, a number on a repeated one."""
    seen = {}
    for heading in re.findall(r"^#+ +(.*?) *$", without_code(text), flags=re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        yield f"{slug}-{seen[slug]}" if slug in seen else slug
        seen[slug] = seen.get(slug, 0) + 1


def links(path, text):
    text = without_code(text)
    for target in ("".join(found) for found in LINK.findall(re.sub(r"`[^`\n]*`", "", text))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        to = path.parent / file if file else path
        if not to.exists():
            yield f"{path}: no {target}"
        elif anchor and anchor not in anchors(to.read_text()):
            yield f"{path}: no heading {target}"
    if DEFINED.search(text):
        for name in sorted(set(USED.findall(text)) ^ set(DEFINED.findall(text))):
            yield f"{path}: the reference [{name}] is not used and defined"


def lengths(path, text):
    if path.name == str(path) == "README.md" and text.count("\n") > LONGEST:
        yield f"{path}: {text.count(chr(10))} lines, over {LONGEST}"
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MOST:
            yield f"{path}:{number}: {len(line)} characters"


def files(path, text):
    """The file patterns in the first cells of a module's table: `store.c`, `entry.*` or `rules_*.c`."""
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
    listed = re.findall(r"#define \w+_VERBS\(X\)((?:.*\\\n)*.*)", Path("registry/protocol/protocol.h").read_text())
    real = set(re.findall(r"(?<!_VERBS)\b(?:X\()(\w+)\)", " ".join(listed)))
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
