#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds checks in .bats and .bash files whose failure bash ignores.

- errexit passes over a command that '!' negates and over every command but the last of an '&&' or '||'
  list. Such a check counts only as the last command of its function, where its status is returned.
- errexit is off in a function that is called in a condition (`if f`, `until_true f`, `f || ...`), or by
  bats' `run`: of its checks only the last one counts, and each other needs its own `|| return 1`.
- bats' `skip` in a function that `run` calls ends that alone, as if all were well.
- A loop over what a command prints checks nothing where the command fails: its output goes to a variable
  first (an assignment's failure counts) and is checked for being there.
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


CHECK = re.compile(r"^(\[\[? |equal |has |refute |lines |untouched |alike |cmp |diff |grep -q|is_over |has_ended )")
# Commands that follow in a condition; `run`'s own options and until_true's limit come before.
CALLED = re.compile(r"(?:^|[;&|({]\s*|\b(?:then|do|else)\s+)(?:(?:if|elif|while|until)\s+!?\s*|!\s+|run\s+(?:-\d+\s+|!\s+)?|"
                    r"until_true\s+(?:\d+\s+)?)([\w]+)\b|(?:^|[;{]\s*|\b(?:then|do|else)\s+)(\w+)\b[^;|&]*(?:\|\||&&)")


# Not so what may be nothing (processes to end), or can't be.
FALLIBLE = r"\$\((?!\(|[^)]*_pids|seq |unified_kinds)"


RAN = re.compile(r"\brun (?:-\d+ |! |--separate-stderr )*(\w+)")


def parts(command):
    """The commands of an '&&' list; quotes and [[ ]] are looked through no further than needed."""
    bare = re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\[\[ .*? \]\]", lambda found: "[[ " if found[0][0] == "[" else "q", command)
    return None if "||" in bare or ";" in bare else [part.strip() for part in bare.split("&&")]


def lost(text):
    """Does errexit ignore a failure of this command?"""
    command = text.strip()
    if command.startswith("! "):
        return "||" not in command and not command.endswith("; then")
    several = parts(command) if CHECK.match(command) else None
    return bool(several) and len(several) > 1 and all(CHECK.match(part) for part in several)


def skips(text):
    return re.search(r"(^|\|\| |&& )skip( |$)", text.strip())


def called_in_conditions(rows):
    return {name for _, text in rows for found in CALLED.findall(text.strip()) for name in found if name}


def unheeded(text):
    """A check of a function in which errexit is off, and nothing else heeds its failure."""
    command = text.strip()
    return bool(CHECK.match(command)) and not re.search(r"\|\||&&", command)


def loops_over_output(text):
    command = re.sub(r'"(?:\\.|[^"\\])*"', "q", text.strip())
    over = re.match(r"for \w+ in ([^;]*)", command)
    return re.match(r"done < <\(", command) or (over and re.search(FALLIBLE, over[1]))


def next_command(rows, index):
    return next((row for _, row in rows[index + 1:] if row.strip() and not row.strip().startswith("#")), "}")


def faults(path, called, ran):
    found, inside, off, function = [], False, False, None
    rows = list(commands(path.read_text().split("\n")))
    for index, (number, text) in enumerate(rows):
        opens = OPENS.match(text)
        if opens:
            function = opens[1][:-2] if opens[1].endswith("()") else None
            inside, off = True, function in called
        elif text == "}":
            inside = False
        if not inside or opens:
            continue
        if path.suffix == ".bats" and loops_over_output(text):
            found.append((number, text.strip()))
        elif function in ran and skips(text):
            found.append((number, text.strip()))
        elif (lost(text) or (off and unheeded(text))) and next_command(rows, index) not in ("}", "\t\t;;"):
            found.append((number, text.strip()))
    return found


names = [Path(name) for name in sorted(sys.argv[1:])]
texts = [text for name in names for _, text in commands(name.read_text().split("\n"))]
called = called_in_conditions(enumerate(texts))
ran = {found for text in texts for found in RAN.findall(text)}
bad = False
for name in names:
    for number, text in faults(name, called, ran):
        print(f"{name}:{number}: its failure is lost: {text}")
        bad = True
sys.exit(bad)
