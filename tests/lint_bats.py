#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds checks in .bats and .bash files whose failure bash ignores.

- errexit ignores a command that '!' negates, and every command but the last of an '&&' or '||' list.
  Such a check counts only as the last command of its function, because its status is returned.
- errexit is off in a function that is called in a condition (`if f`, `until_true f`, `f || ...`), or by
  bats' `run`. Only the function's last check counts; each other check needs its own `|| return 1`.
- bats' `skip` in a function that `run` calls ends only that function, with success.
- If a command fails, a loop over its output checks nothing. So the output must be assigned to a variable first
  (an assignment's failure counts), and the test must check that it is not empty.
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
# Finds commands that are called in a condition, after `run`'s own options or until_true's limit.
CALLED = re.compile(r"(?:^|[;&|({]\s*|\b(?:then|do|else)\s+)(?:(?:if|elif|while|until)\s+!?\s*|!\s+|run\s+(?:-\d+\s+|!\s+)?|"
                    r"until_true\s+(?:\d+\s+)?)([\w]+)\b|(?:^|[;{]\s*|\b(?:then|do|else)\s+)(\w+)\b[^;|&]*(?:\|\||&&)")


# Command substitutions that can fail. Not those that may be empty (processes to end), or that always print something.
FALLIBLE = r"\$\((?!\(|[^)]*_pids|seq |unified_kinds)"


RAN = re.compile(r"\brun (?:-\d+ |! |--separate-stderr )*(\w+)")


def parts(command):
    """The commands of an '&&' list; quotes and [[ ]] are parsed only as far as needed."""
    bare = re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\[\[ .*? \]\]", lambda found: "[[ " if found[0][0] == "[" else "q", command)
    return None if "||" in bare or ";" in bare else [part.strip() for part in bare.split("&&")]


def lost(text):
    """True if errexit ignores a failure of this command."""
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
    """True for a check in a function without errexit, if nothing else uses the check's failure."""
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
