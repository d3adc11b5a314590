#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Make the manual from the sources: pages in scdoc, X-macro lists, and comments of gpushare.h.

pages.py page FILE.scd  FILE for scdoc on stdout: @VERSION@, @ENVIRONMENT@, @LIMITS@, @SETTINGS@ and
                        @EXAMPLES VERB@, @OPTIONS VERB@ replaced
pages.py conf           registry.conf on stdout, with every key, commented out
pages.py calls DIR      gpushare.h(3), and a page for each call, from the comments of gpushare.h
"""
import os
import re
import sys
import textwrap
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# The first word of a comment's paragraph, and the section of the page for it.
SECTIONS = {
    "Shapes": "NOTES", "Units": "NOTES", "Threads": "NOTES", "Errors": "ERRORS",
    "Source": "NOTES", "Return": "RETURN VALUE",
}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


HEADER = read("include/gpushare.h")
STATUSES = re.search(r"#define GPUSHARE_STATUSES.*?\n\n", HEADER, re.S)[0]
VERSION = re.search(r'#define GPUSHARE_VERSION "(.*)"', HEADER)[1]


def strip(comment):
    """The lines of a comment without the stars."""
    return [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment.strip().split("\n")]


def roff(text):
    text = re.sub(r"(?<![A-Z])_(E_[A-Z_]+)", r"GPUSHARE_\1", text)
    text = text.replace("\\", "\\e").replace("'", "\\(aq").replace("`", "\\(ga")
    text = re.sub(r"(?<![\w)])-(?=[-\w])", r"\\-", text)
    text = re.sub(r"@(\w+)", r"\\fI\1\\fP", text)
    text = re.sub(r"\b(gpushare_\w+)\(\)", r"\\fB\1\\fP(3)", text)
    text = re.sub(r"(?<!\w)(GPUSHARE_\w+)", r"\\fB\1\\fP", text)
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def verbatim(text):
    text = text.expandtabs(8).replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return ".nf\n" + re.sub(r"(?m)^([.'])", r"\\&\1", text) + "\n.fi"


class Call:
    def __init__(self, comment, prototype):
        self.name = re.search(r"\b(gpushare_\w+)\(", prototype)[1]
        self.prototype = prototype
        self.parameters, self.paragraphs = [], []
        self.sections = {}
        blocks = "\n".join(strip(comment)).split("\n\n")
        head, _, parameters = blocks[0].partition("\n@")
        head = re.sub(r"^\w+\(\) - ", "", head.replace("\n", " "))
        self.summary = re.split(r"; |: ", head)[0]
        if self.summary != head:
            self.paragraphs.append(head[0].upper() + head[1:] + ".")
        if parameters:
            for line in re.split(r"\n(?=@)", "@" + parameters):
                names, _, text = line.partition(":")
                self.parameters.append((names, re.sub(r"\s+", " ", text).strip()))
        for block in blocks[1:]:
            self.add(block)

    def add(self, block):
        for part in re.split(r"\n(?=(?:%s):)" % "|".join(SECTIONS), block):
            word, _, text = part.partition(":")
            if word in SECTIONS:
                text = re.sub(r"\s+", " ", text).strip()
                label = "" if SECTIONS[word] != "NOTES" else word
                self.sections.setdefault(SECTIONS[word], []).append((label, text))
            else:
                self.paragraphs.append(part)


def calls():
    for comment, prototype in re.findall(r"/\*\*((?:(?!\*/).)*)\*/\n([^/#]*?\);)", HEADER, re.S):
        yield Call(comment, prototype)


def check(all_calls):
    """Exit if a call has no comment, from which its page would be made."""
    lacking = set(re.findall(r"\b(gpushare_[a-z_]+)\(", HEADER)) - {call.name for call in all_calls}
    if lacking:
        sys.exit("gpushare.h: no comment of its own: " + ", ".join(sorted(lacking)))


def structs():
    """The definitions of the public structs, by name."""
    found = re.findall(r"^(struct (gpushare_\w+) \{.*?^\};)", HEADER, re.S | re.M)
    return {name: text for text, name in found}


def title(name, summary):
    day = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    return [
        '.\\" SPDX-License-Identifier: MIT',
        '.\\" Made from gpushare.h by tools/man/pages.py.',
        f'.TH {name} 3 {day} "gpushare {VERSION}" "gpushare\'s calls"',
        ".SH NAME", f"{name} \\- {roff(summary)}",
    ]


def mentioned(call):
    text = call.prototype + " ".join(call.paragraphs) + str(call.sections) + str(call.parameters)
    return sorted(set(re.findall(r"\b(gpushare_\w+)\(", text)) - {call.name})


def page(call, known, definitions):
    out = title(call.name, call.summary)
    out += [".SH LIBRARY", "gpushare (libgpushare, \\fB\\-lgpushare\\fP; \\fBpkg\\-config gpushare\\fP)"]
    out += [".SH SYNOPSIS", verbatim("#include <gpushare.h>\n\n" + call.prototype)]
    used = [name for name in definitions if f"struct {name} " in call.prototype]
    if call.paragraphs or call.parameters:
        out.append(".SH DESCRIPTION")
    for names, text in call.parameters:
        out += [".TP", roff(names), roff(text)]
    for i, paragraph in enumerate(call.paragraphs):
        out += [".PP"] if i or call.parameters else []
        out += [roff(paragraph)]
    if not call.paragraphs and not call.parameters:
        out += [".SH DESCRIPTION", roff(call.summary[0].upper() + call.summary[1:]) + "."]
    for name in used:
        out += [f".SH STRUCT {name.upper()}", verbatim(definitions[name])]
    if "RETURN VALUE" not in call.sections and call.prototype.startswith("int") and "ERRORS" in call.sections:
        call.sections["RETURN VALUE"] = [("", "GPUSHARE_OK, or a negative enum gpushare_status; "
                                          "what a pointer is named out_ for is untouched then.")]
    for section in ("RETURN VALUE", "ERRORS", "NOTES"):
        texts = call.sections.get(section, [])
        out += [f".SH {section}"] if texts else []
        for label, text in texts:
            out += [".TP", f"{label}:", roff(text)] if label else [roff(text)]
    others = [name for name in mentioned(call) if name in known]
    see = [f".BR {name} (3)," for name in sorted(others + ["gpushare.h"], key=lambda n: n != "gpushare.h")]
    return out + [".SH SEE ALSO"] + see + [".BR gpushare (7)"]


def overview(all_calls, definitions):
    out = title("gpushare.h", "GPU buffers with names, across processes, without a copy")
    out += [".SH LIBRARY", "gpushare (libgpushare, \\fB\\-lgpushare\\fP; \\fBpkg\\-config gpushare\\fP)"]
    out += [".SH SYNOPSIS", verbatim("#include <gpushare.h>"), ".SH DESCRIPTION"]
    about = re.search(r"/\*\n \* gpushare: [^\n]*\n \*\n(.*?)\*/", HEADER, re.S)[1]
    out += [roff("\n".join(strip(about))), ".SH CALLS"]
    for call in all_calls:
        out += [".TP", f".BR {call.name} (3)", roff(call.summary)]
    out += [".SH STATUSES"]
    for name, _, text in re.findall(r'X\((\w+), (-?\d+), "([^"]*)"\)', STATUSES):
        out += [".TP", roff("GPUSHARE_" + name), roff(text)]
    shown = [name for name in definitions if not any(f"struct {name} " in c.prototype for c in all_calls)]
    for name in shown:
        out += [f".SH STRUCT {name.upper()}", verbatim(definitions[name])]
    return out + [".SH SEE ALSO", ".BR gpushare (7),", ".BR gpushare (1)"]


def write(directory, name, lines):
    with open(os.path.join(directory, name + ".3"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def write_calls(directory):
    all_calls, definitions = list(calls()), structs()
    known = {call.name for call in all_calls}
    check(all_calls)
    for call in all_calls:
        write(directory, call.name, page(call, known, definitions))
    write(directory, "gpushare.h", overview(all_calls, definitions))


def entries(path, macro, pattern):
    """The lines of an X-macro list, as the groups of `pattern`."""
    text = re.sub(r"\\\n", "", read(path))
    body = re.search(r"#define %s\(.*" % macro, text)[0]
    return re.findall(pattern, re.sub(r'"\s*"', "", body))


def environment():
    """The list of environment.h as scdoc terms with their texts."""
    found = entries("tools/common/environment.h", "ENVIRONMENT", r'X\((GPUSHARE_\w+),\s*"([^"]*)",\s*"([^"]*)"\)')
    escaped = [(name, what.replace("_", "\\_"), default.replace("_", "\\_")) for name, what, default in found]
    return "\n\n".join(f"*{name}*\n\t{what}. Without it: {default}." for name, what, default in escaped)


def examples(verb):
    """The examples of the verb's --help."""
    found = entries("tools/cli/verb_help.c", "EXAMPLES", r'X\("([a-z]+)",\s*"((?:\\.|[^"])*)",\s*"([^"]*)"\)')
    lines = [f"{words}\n    {text}" for of, words, text in found if of == verb]
    return "\n".join(["```", *lines, "```"]).replace('\\"', '"')


def options(verb):
    """The options of the verb's --help, without --json and --dir."""
    verbs = re.sub(r'"\s*"', "", re.sub(r"\\\n", "", read("tools/cli/verbs.h")))
    usage = re.search(r'X\(%s,\s*(\w*)\s*"([^"]*)"\s*(\w*)' % verb, verbs)
    shared = [re.search(r'#define %s\s+"(.*)"' % name, verbs)[1] for name in usage.group(1, 3) if name.endswith("_OPTIONS")]
    lines = re.sub(r'"\s+"', "", read("tools/cli/options.c"))
    dtypes = " ".join(entries("tools/data/dtype.h", "DTYPES", r'X\(\w+, "(\w+)"'))
    found = []
    for name, argument, types, text in re.findall(
            r'\{"(-[\w-]+)", "([A-Z=]*)", [^"]*"[^"]*",\s*(DTYPES\(TYPE_WORD\))?\s*"([^"]*)"\}', lines):
        words = f"{name} {argument}".strip()
        if f"[{words}]" not in usage[2] + " ".join(shared) or name in ("--json", "--dir"):
            continue
        term = f"*{name}*" + ", *--output*" * (words == "-o FILE") + f" _{argument}_" * bool(argument)
        text = f"{dtypes} {text}" if types else text[0].upper() + text[1:]
        found.append(f"{term}\n\t" + re.sub(r"([_*])", r"\\\1", text) + ".")
    return "\n\n".join(found)


def settings():
    """(keys, defaults, text) of all keys of registry.conf: the limits, and the others."""
    limits, others = [], []
    for key, of_all, of_user, what in entries("registry/state/limit.h", "LIMITS", r'X\((\w+), (\d+), (\d+), "([^"]*)"'):
        text = f"how many {what} at most, for all users together and for each user"
        limits.append(([key, f"user_{key}"], [of_all, of_user], text))
    found = entries("registry/config.h", "SETTINGS",
                    r'[NW]\((\w+), (?:(\d+), (\d+)|\w+), "?([^",]*)"?,\s*"([^"]*)"\)')
    for key, least, most, preset, text in found:
        text += f"; from {least} to {most}" if least else ""
        others.append(([key], [preset], text))
    if not limits or len(others) < 5:
        sys.exit("limit.h or config.h: their lists are not what they were")
    return limits, others


def terms(entries_of):
    """Keys as scdoc terms with their texts and defaults."""
    name = lambda keys: ", ".join(f"*{key}*" for key in keys).replace("_", "\\_")
    return "\n\n".join(
        f"{name(keys)}\n\t{text[0].upper()}{text[1:]}. Without it: {' and '.join(presets)}."
        for keys, presets, text in entries_of)


def conf():
    out = ["# SPDX-License-Identifier: MIT",
           "# What gpushare-registry(8) reads as /etc/gpushare/registry.conf; registry.conf(5) says more.",
           "# Every key is here, commented out, with its default."]
    for keys, presets, text in sum(settings(), []):
        lines = textwrap.wrap(text[0].upper() + text[1:] + ".", 100)
        out += [""] + ["# " + line for line in lines]
        out += [f"#{key} = {preset}" for key, preset in zip(keys, presets)]
    return "\n".join(out) + "\n"


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "calls":
        write_calls(arguments[1])
    elif len(arguments) == 2 and arguments[0] == "page":
        with open(arguments[1], encoding="utf-8") as file:
            text = file.read()
        limits, others = settings()
        words = {"VERSION": VERSION, "ENVIRONMENT": environment(), "LIMITS": terms(limits), "SETTINGS": terms(others)}
        text = re.sub("@(%s)@" % "|".join(words), lambda word: words[word[1]], text)
        text = re.sub("@OPTIONS ([a-z]+)@", lambda word: options(word[1]), text)
        sys.stdout.write(re.sub("@EXAMPLES ([a-z]+)@", lambda word: examples(word[1]), text))
    elif arguments == ["conf"]:
        sys.stdout.write(conf())
    else:
        sys.exit(__doc__)


main(sys.argv[1:])
