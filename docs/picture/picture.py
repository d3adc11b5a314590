#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draw picture.txt as light.svg and dark.svg, beside it. `picture.py --check` names each file that is not what it would
draw, and exits with 1 then."""
import html
import sys
from pathlib import Path

HERE = Path(__file__).parent
THEMES = {
    "light": {"text": "#1f2328", "dim": "#57606a", "program": ("#ddf4ff", "#0969da"),
              "memory": ("#dafbe1", "#1a7f37"), "daemon": ("#f6f8fa", "#57606a")},
    "dark": {"text": "#e6edf3", "dim": "#9da7b3", "program": ("#0c2d4a", "#4493f8"),
             "memory": ("#0f3020", "#3fb950"), "daemon": ("#21262d", "#9da7b3")},
}
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
LINE = 20


def text(x, y, words, color, weight="normal", anchor="start"):
    return (f'<text x="{x}" y="{y}" fill="{color}" font-weight="{weight}" text-anchor="{anchor}">'
            f"{html.escape(words, quote=False)}</text>")


def box(theme, numbers, kind, words):
    x, y, width, height = numbers
    fill, edge = theme[kind]
    yield (f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}" stroke="{edge}" '
           'stroke-width="1.5"/>')
    top = y + (height - LINE * len(words)) / 2 + 15
    for number, line in enumerate(words):
        color, weight = (theme["dim"], "normal") if number else (theme["text"], "bold")
        yield text(x + width / 2, top + LINE * number, line, color, weight, "middle")


def arrow(theme, numbers, kind, words):
    x1, y1, x2, y2 = numbers
    color = theme["memory" if kind == "memory" else "daemon"][1]
    dashes = "" if kind == "memory" else ' stroke-dasharray="5 4"'
    # A request passes behind the memory's box: its line is drawn before all boxes.
    yield f'<path d="M {x1} {y1} L {x2} {y2 - 7}" stroke="{color}" stroke-width="1.5"{dashes}/>'
    yield f'<path d="M {x2 - 5} {y2 - 8} L {x2 + 5} {y2 - 8} L {x2} {y2} Z" fill="{color}"/>'
    side = ("start", 8) if kind == "memory" else ("end", -8)
    yield text(x1 + side[1], 148 if kind == "memory" else 168, words[0], theme["dim"], anchor=side[0])


def draw(source, theme):
    drawn = {"arrow": [], "box": []}
    width = height = 0
    for line in source.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        head, *words = (part.strip() for part in line.split("|"))
        what, *rest = head.split()
        if what == "size":
            width, height = map(int, rest)
            continue
        *numbers, kind = rest
        drawn[what] += (box if what == "box" else arrow)(theme, list(map(int, numbers)), kind, words)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="{FONT}" font-size="13" role="img">',
        "<title>Programs that share one GPU buffer by its name</title>", *drawn["arrow"], *drawn["box"], "</svg>", ""])


def main():
    source = (HERE / "picture.txt").read_text()
    stale = []
    for name, theme in THEMES.items():
        path, picture = HERE / f"{name}.svg", draw(source, theme)
        if sys.argv[1:] != ["--check"]:
            path.write_text(picture)
        elif not path.exists() or path.read_text() != picture:
            stale.append(path)
    for path in stale:
        print(f"{path}: not what picture.py draws; run it")
    return bool(stale)


sys.exit(main())
