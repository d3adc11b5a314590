#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Generate src/gpushare/_abi.py, the C API for ctypes, from include/gpushare.h.

abi.py   print the module; `make` writes it to its place, and backend.py into a wheel
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEADER = HERE.parent.parent / "include" / "gpushare.h"
SCALARS = {
    "int": "c_int", "unsigned int": "c_uint", "short": "c_short", "unsigned short": "c_ushort",
    "char": "c_char", "unsigned char": "c_ubyte", "size_t": "c_size_t", "void": "None",
    "int32_t": "c_int32", "uint32_t": "c_uint32", "int64_t": "c_int64", "uint64_t": "c_uint64",
    "uint8_t": "c_uint8", "uint16_t": "c_uint16", "double": "c_double", "float": "c_float",
}

# Structs for which _info.py has a record class, and the types of fields that differ from C. None: omit the field.
RECORDS = {
    "gpushare_info": {
        "device_uuid": "str", "backing": "str", "flags": "Tuple[str, ...]", "tags": "Dict[str, str]", "tag_count": None,
        "owner_alive": "bool", "deferred": "bool", "missing": "bool", "isolated": "bool"},
    "gpushare_holder": {"own": "bool"},
    "gpushare_registry_info": {},
}


def plain(text):
    """The text without comments, directives and continued lines."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = text.replace("\\\n", " ")
    return re.sub(r"^[ \t]*#.*$", "", text, flags=re.M)


def lists(text):
    """The X-macro lists: {"STATUSES": [("OK", 0, "done"), ...]}."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S).replace("\\\n", " ")
    found = {}
    for name, body in re.findall(r"^#define GPUSHARE_([A-Z_]+)\(X\)(.*)$", text, flags=re.M):
        found[name] = [(n, int(v, 0), t)
                       for n, v, t in re.findall(r'X\(\s*(\w+),\s*([-\w]+),\s*"([^"]*)"\s*\)', body)]
    return found


def numbers(text):
    """The numbers of lines such as #define GPUSHARE_NAME_MAX 255."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return {n: int(v, 0) for n, v in
            re.findall(r"^#define (GPUSHARE_\w+)[ \t]+(-?\w+)[ \t]*$", text, flags=re.M)
            if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", v)}


def camel(name):
    return "".join(word.capitalize() for word in name.replace("gpushare_", "", 1).split("_"))


class Header:
    def __init__(self, text):
        self.lists, self.numbers = lists(text), numbers(text)
        code = re.sub(r'extern "C" \{', "", plain(text))
        code = re.sub(r"__attribute__\s*\(\(.*?\)\)\)?", "", code)
        self.structs = {}
        for name, body in re.findall(r"\bstruct (\w+) \{([^{}]*)\};", code):
            self.structs[name] = body
        code = re.sub(r"\b(struct|enum) \w+ \{[^{}]*\};", "", code)
        self.functions = re.findall(
            r"^[ \t]*((?:const )?(?:struct |enum |unsigned )?\w+[\s*]+)(gpushare_\w+)\(((?:[^()]|\([^()]*\))*)\)\s*;",
            code, flags=re.M)

    def type(self, text):
        """The ctypes expression for a C type."""
        text = " ".join(text.replace("const", " ").replace("*", " * ").split())
        stars = text.count("*")
        base = text.replace("*", "").strip()
        if base.startswith("enum "):
            base = "int"
        if base in ("char", "void") and stars:
            kind, stars = f"c_{base}_p", stars - 1
        elif base.startswith("struct "):
            name = base[len("struct "):]
            if name in self.structs:
                kind = camel(name)
            else:
                kind, stars = "c_void_p", stars - 1
        else:
            kind = SCALARS[base]
        for _ in range(stars):
            kind = f"POINTER({kind})"
        return kind

    def split(self, text):
        """(type, name) of a declaration such as "const char *name"."""
        match = re.fullmatch(r"\s*(.*?[\s*])(\w+)\s*", text, flags=re.S)
        return match.group(1), match.group(2)

    def argument(self, text):
        call = re.fullmatch(r"\s*(.+?)\(\s*\*\s*\w+\s*\)\s*\((.*)\)\s*", text, flags=re.S)
        if call:
            kinds = [self.type(self.split(a)[0]) for a in call.group(2).split(",")]
            return f"CFUNCTYPE({', '.join([self.type(call.group(1))] + kinds)})"
        return self.type(self.split(text)[0])

    def arguments(self, text):
        if text.strip() == "void":
            return []
        return [self.argument(a) for a in re.split(r",(?![^(]*\))", text)]

    def fields(self, body):
        for line in body.split(";"):
            if not line.strip():
                continue
            first, *more = line.split(",")
            match = re.fullmatch(r"\s*(.*?[\s*])(\w+)\s*(?:\[(.+)\])?\s*", first, flags=re.S)
            kind, name, count = match.groups()
            yield name, self.type(kind) + (f" * {self.count(count)}" if count else "")
            for other in more:
                yield other.strip(), self.type(kind)

    def annotations(self, struct):
        """(name, Python's type) of a record's fields."""
        for field, kind in self.fields(self.structs[struct]):
            plain = "str" if kind.startswith("c_char *") else "int" if kind[0] == "c" else "Dict[str, Tuple[int, int]]"
            kind = RECORDS[struct].get(field, plain)
            if kind:
                yield field, kind

    def count(self, text):
        return sum(self.numbers[w] if w in self.numbers else int(w, 0)
                   for w in re.split(r"\s*\+\s*", text.strip()))


def generate(text):
    header = Header(text)
    out = ["# SPDX-License-Identifier: MIT",
           '"""include/gpushare.h for ctypes, as tools/python/abi.py writes it."""',
           "# ruff: noqa",
           "from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_int, c_int32, c_int64,",
           "                    c_size_t, c_ubyte, c_uint, c_uint16, c_uint32, c_uint64, c_uint8, c_ushort,",
           "                    c_void_p)", "from typing import Any, Dict, Tuple", ""]
    for name, value in header.numbers.items():
        out.append(f"{name[len('GPUSHARE_'):]} = {value}")
    for name, rows in header.lists.items():
        out += ["", f"{name} = {{"] + [f'    "{n}": ({v}, "{t}"),' for n, v, t in rows] + ["}"]
    for name, body in header.structs.items():
        out += ["", "", f"class {camel(name)}(Structure):", f'    """struct {name}"""', "", "    _fields_ = ["]
        out += [f'        ("{field}", {kind}),' for field, kind in header.fields(body)] + ["    ]"]
    for struct in RECORDS:
        out += ["", "", f"class {camel(struct)}Record:", f'    """The fields of struct {struct} in Python."""', ""]
        out += [f"    {field}: {kind}" for field, kind in header.annotations(struct)]
    out += ["", "", "# name: (result, arguments)", "FUNCTIONS: Dict[str, Any] = {"]
    for result, name, arguments in header.functions:
        kinds = header.arguments(arguments)
        listed = ", ".join(kinds) + ("," if len(kinds) == 1 else "")
        out.append(f'    "{name}": ({header.type(result)}, ({listed})),')
    return "\n".join(out + ["}", ""])


if __name__ == "__main__":
    sys.stdout.write(generate(HEADER.read_text()))
