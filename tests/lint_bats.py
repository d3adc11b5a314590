#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds checks in .bats and .bash files whose failure bash ignores.

errexit passes over a command that '!' negates and over every command but the last of an '&&' or '||'
list. Such a check counts only as the last command of its function, where its status is returned.
"""
import re
import sys
from pathlib import Path

OPENS = re.compile(r"^(@test .*|[\w-]+\(\)) \{$")


def commands(lines):
    """Logical lines: continued ones are joined, here-documents left out."""
    number, whole, until = 0, "", None
    for at, line in enumerate(lines, 1):
        if until is not None:
            if line.strip() == until:
                until = None
            continue
        if not whole:
            number = at
        whole += line.rstrip("\\") if line.endswith("\\") else line
        if line.endswith("\\"):
            continue
        found = re.search(r"<<-?\s*['\"]?(\w+)['\"]?(?!<)", whole.replace("<<<", "   "))
        if found:
            until = found.group(1)
        yield number, whole
        whole = ""


def lost(text):
    """Does errexit ignore a failure of this command?"""
    command = text.strip()
    return command.startswith("! ") and "||" not in command and not command.endswith("; then")


def faults(path):
    found, inside = [], False
    rows = list(commands(path.read_text().split("\n")))
    for index, (number, text) in enumerate(rows):
        if OPENS.match(text):
            inside = True
        elif text == "}":
            inside = False
        if not inside or not lost(text):
            continue
        following = next((row for _, row in rows[index + 1:] if row.strip() and not row.strip().startswith("#")), "}")
        if following != "}":
            found.append((number, text.strip()))
    return found


bad = False
for name in sorted(sys.argv[1:]):
    for number, text in faults(Path(name)):
        print(f"{name}:{number}: its failure is lost: {text}")
        bad = True
sys.exit(bad)
