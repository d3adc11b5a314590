#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws comments, messages and pages of the product with a fixed seed, for a reader who has never seen the product.

tests/sample.py [SEED]: 40 comments, 20 messages, 5 pages.
"""
import random
import re
import subprocess
import sys

FILES = subprocess.run(['git', 'ls-files'], capture_output=True, text=True, check=True).stdout.split()
SOURCES = [f for f in FILES if re.match(r'(shim|registry|tools|include)/.*\.[ch]$', f)]
PAGES = [f for f in FILES if re.match(r'(README|docs/[^/]*)\.md$|tools/man/.*\.scd$', f)]
COMMENT = re.compile(r'/\*(?! SPDX).*?\*/', re.S)
# A call with a message: at least four words in one string, or in several strings in a row.
MESSAGE = re.compile(r'\b(\w*(?:fail|refuse|log|say|warn|explain|error)\w*)\(([^;{}]*?"[^;{}]*)\);', re.S)
# Strings in a row, and macros such as PRIu64 between them.
PIECE = re.compile(r'"((?:\\.|[^"\\])*)"|\b([A-Z]\w+)\b')
RUN = re.compile(r'"(?:\\.|[^"\\])*"(?:\s*(?:"(?:\\.|[^"\\])*"|\b[A-Z]\w+\b))*')


def place(path, text, match):
    return f'{path}:{text.count(chr(10), 0, match.start()) + 1}'


def comments(path, text):
    for match in COMMENT.finditer(text):
        after = text[match.end():].lstrip('\n').split('\n')[:4]
        before = text[:match.start()].split('\n')[-1]
        yield place(path, text, match), before.strip() + match.group(0), '\n'.join(after)


def messages(path, text):
    for match in MESSAGE.finditer(text):
        runs = [''.join(word or f'<{macro}>' for word, macro in PIECE.findall(run.group(0)))
                for run in RUN.finditer(match.group(2))]
        words = max(runs, key=len, default='')
        if len(words.split()) >= 4:
            yield place(path, text, match), words, ''


def main():
    if len(sys.argv) > 1 and not sys.argv[1].isdigit():
        sys.exit(__doc__.split('\n\n')[1])
    draw = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    texts = [(f, open(f, encoding='utf-8').read()) for f in SOURCES]
    all_comments = [c for f, t in texts for c in comments(f, t)]
    all_messages = [m for f, t in texts for m in messages(f, t)]
    for kind, drawn in (('comment', draw.sample(all_comments, 40)), ('message', draw.sample(all_messages, 20))):
        for number, (path, what, after) in enumerate(drawn, 1):
            print(f'== {kind} {number}: {path}\n{what}\n{after}')
    for path in draw.sample(PAGES, 5):
        print('== page:', path)


main()
