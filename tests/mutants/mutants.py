#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what share of seeded faults the tests find: mutants.py [--folder registry] [--count 60] [--seed 18]
[--first N] [--list]. It makes one ordinary mistake at a time in a copy of the tree (a comparison, a sign, a condition,
a constant, a call left out). Then it builds the copy and runs the tests, nearest ones first, until one fails. The last
line says how many faults were found. The same seed on the same tree gives the same faults. If a fault does not compile,
the next one of the draw takes its place."""
import argparse
import os
import random
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# pattern in a line of code, its replacement
SWAPS = [
    (r"(?<=[\w)\]] )<(?= [\w(])", "<="),
    (r"(?<=[\w)\]] )>(?= [\w(])", ">="),
    (r"<=", "<"),
    (r"(?<![-=])>=", ">"),
    (r"==", "!="),
    (r"!=", "=="),
    (r"&&", "||"),
    (r"\|\|", "&&"),
    (r"(?<=[\w)\]] )\+(?= [\w(])", "-"),
    (r"(?<=[\w)\]] )-(?= [\w(])", "+"),
    (r"\+=", "-="),
    (r"-=", "+="),
    (r"\breturn true;", "return false;"),
    (r"\breturn false;", "return true;"),
    (r"\bif \(!", "if ("),
    (r"\breturn 0;", "return 1;"),
]
CALL = re.compile(r"^\t+(?!return\b)[a-z_]\w*\([^;{}]*\);$")  # a statement that is a call


def code_lines(path):
    """The numbers and texts of lines with code: not of comments, directives or tables of X-macros."""
    comment = False
    for number, line in enumerate(path.read_text().split("\n")):
        begins, ends = "/*" in line, "*/" in line
        if not comment and not begins and line.startswith("\t") and not line.rstrip().endswith("\\"):
            yield number, line
        comment = (comment or begins) and not ends


def sites(folder):
    for path in sorted((ROOT / folder).rglob("*.c")):
        for number, line in code_lines(path):
            for pattern, instead in SWAPS:
                for found in re.finditer(pattern, line):
                    changed = line[: found.start()] + instead + line[found.end() :]
                    yield path.relative_to(ROOT), number, line, changed
            if CALL.match(line):
                yield path.relative_to(ROOT), number, line, re.match(r"\t+", line)[0] + ";"


def build(copy, goal):
    path = "/usr/lib/ccache:" + os.environ["PATH"]  # not for the tests: with it build.bats fails
    done = subprocess.run(
        ["make", "-s", "-j2", goal], cwd=copy, env={**os.environ, "PATH": path}, capture_output=True, check=False
    )
    return done.returncode == 0


def stages(path):
    """Filters for tests/run, in order: tests named after the file, the registry's unit tests, end-to-end tests, all."""
    words = [f"unit_{path.stem}", f"{path.stem}.bats"]
    return [words, ["/unit_"], [".bats"], ["/contract_"]]


def first_failure(copy, filters):
    """Run tests until a file fails; return its name, or None."""
    with subprocess.Popen(
        ["tests/run", "--said", *filters], cwd=copy, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as running:
        for line in running.stdout:
            failed = re.match(r"([\w.]+): \d+ passed, [1-9]\d* failed|FAILED: (?!no test)([\w.]+)", line)
            if failed:
                running.terminate()  # it ends its tests
                return failed[1] or failed[2]
    return None


def finder(copy, path):
    """Run the tests; return the file that failed, or None. It must fail twice: other load may fail a test once."""
    for filters in stages(path):
        for _ in range(3):
            failed = first_failure(copy, filters)
            if not failed:
                break
            if first_failure(copy, ["--one", failed]):
                return failed
    return None


def make_copy():
    copy = ROOT / "build-mutants"
    if not copy.exists():
        subprocess.run(["git", "clone", "-q", str(ROOT), str(copy)], check=True)
    subprocess.run(["git", "fetch", "-q", "origin"], cwd=copy, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    subprocess.run(["git", "checkout", "-q", "-f", head.strip()], cwd=copy, check=True)
    if not build(copy, "tests"):
        sys.exit("the tree doesn't build")
    return copy


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--folder", default="registry")
    options.add_argument("--count", type=int, default=60)
    options.add_argument("--seed", type=int, default=18)
    options.add_argument("--first", type=int, default=0, help="go on with this one of them")
    options.add_argument("--list", action="store_true", help="only say which they are")
    chosen = options.parse_args()
    drawn = list(sites(chosen.folder))
    random.Random(chosen.seed).shuffle(drawn)
    copy = None if chosen.list else make_copy()
    tried = found = 0
    for path, number, line, changed in drawn:
        if tried == chosen.count:
            break
        what = f"{path}:{number + 1}: {line.strip()}  =>  {changed.strip()}"
        if chosen.list or tried < chosen.first:
            print(what)
            tried += 1
            continue
        text = (ROOT / path).read_text().split("\n")
        text[number] = changed
        (copy / path).write_text("\n".join(text))
        if build(copy, "unit-tests"):
            by = finder(copy, path)
            tried, found = tried + 1, found + (by is not None)
            print(f"{what}: {by or 'NOT FOUND'}", flush=True)
        (copy / path).write_text((ROOT / path).read_text())
    if not chosen.list:
        print(f"{found} of {tried - chosen.first} seeded faults found")
    return 0


sys.exit(main())
