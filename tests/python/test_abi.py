# SPDX-License-Identifier: MIT
"""_abi.py agrees with the header, with a C compiler's layout, and with the library."""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from common import BUILD, ROOT, gpushare
from gpushare import _abi

HEADER = ROOT / "include" / "gpushare.h"
COMPILER = shutil.which(os.environ.get("CC", "gcc")) or shutil.which("cc")


def structs():
    return [kind for kind in vars(_abi).values()
            if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and kind is not ctypes.Structure]


class Abi(unittest.TestCase):
    maxDiff = None

    def test_every_call_of_the_header_is_there(self):
        text = re.sub(r"/\*.*?\*/", " ", HEADER.read_text(), flags=re.S)
        calls = set(re.findall(r"\b(gpushare_\w+)\(", text))
        calls -= {"gpushare_mirror_scope"}
        self.assertEqual(set(_abi.FUNCTIONS), calls)
        self.assertGreater(len(calls), 40)

    def test_the_library_has_each(self):
        for name in _abi.FUNCTIONS:
            self.assertTrue(gpushare._native.has(name), name)

    @unittest.skipUnless(COMPILER, "no C compiler")
    def test_structs_are_as_the_compiler_lays_them_out(self):
        lines, expected = [], []
        for kind in structs():
            name = kind.__doc__
            lines.append(f'printf("%zu\\n", sizeof({name}));')
            expected.append(ctypes.sizeof(kind))
            for field, *_ in kind._fields_:
                lines.append(f'printf("%zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
                expected.append((getattr(kind, field).offset, getattr(kind, field).size))
        said = self.compiled("\n".join(lines)).splitlines()
        got = [tuple(map(int, line.split())) for line in said]
        self.assertEqual(got, [e if isinstance(e, tuple) else (e,) for e in expected])
        self.assertGreater(len(structs()), 8)

    @unittest.skipUnless(COMPILER, "no C compiler")
    def test_calls_have_as_many_arguments_of_those_sizes(self):
        lines = []
        for name, (result, arguments) in _abi.FUNCTIONS.items():
            casts = ", ".join(self.c_type(a) for a in arguments) or "void"
            lines.append(f"{self.c_type(result)} (*{name}_)({casts}) = (void *){name}; (void){name}_;")
            values = ", ".join("0" for _ in arguments)
            lines.append(f"if (argc > 99) {name}({values});")
        self.compiled("\n".join(lines), "-Wno-incompatible-pointer-types", "-Wno-pedantic")

    def c_type(self, kind):
        if kind is None:
            return "void"
        if issubclass(kind, (ctypes._Pointer, ctypes._CFuncPtr)) or kind in (ctypes.c_void_p, ctypes.c_char_p):
            return "void *"
        return {ctypes.c_int: "int", ctypes.c_uint: "unsigned int", ctypes.c_uint64: "uint64_t",
                ctypes.c_size_t: "size_t", ctypes.c_int32: "int", ctypes.c_uint32: "uint32_t"}[kind]

    def compiled(self, body, *flags):
        """Compile a program of these lines, and return what it prints."""
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder) / "p.c", pathlib.Path(folder) / "p"
            source.write_text('#include <stdio.h>\n#include <stddef.h>\n#include "gpushare.h"\n'
                              f"int main(int argc, char **argv)\n{{\n(void)argc; (void)argv;\n{body}\nreturn 0;\n}}\n")
            made = subprocess.run([COMPILER, *flags, f"-I{HEADER.parent}", str(source), f"-L{BUILD}", "-lgpushare",
                                   f"-Wl,-rpath,{BUILD}", "-o", str(program)], capture_output=True, text=True)
            self.assertEqual(made.returncode, 0, made.stderr)
            return subprocess.run([program], capture_output=True, text=True, check=True).stdout


class Errors(unittest.TestCase):
    def test_one_for_each_status(self):
        library = gpushare._native.library()
        for status, (code, text) in _abi.STATUSES.items():
            self.assertEqual(library.gpushare_status_text(code).decode(), text)
            if code == 0:
                continue
            kind = type(gpushare._errors.from_code(code, "said"))
            self.assertTrue(issubclass(kind, gpushare.GpushareError))
            self.assertEqual((kind.status, kind.code), (status, code))
            self.assertIs(getattr(gpushare, kind.__name__), kind)
            self.assertIn(kind.__name__, gpushare.__all__)

    def test_what_they_also_are(self):
        for name, also in {"NotFoundError": LookupError, "TimedOutError": TimeoutError, "DeniedError": PermissionError,
                           "InvalidError": ValueError, "NoMemoryError": MemoryError}.items():
            self.assertTrue(issubclass(getattr(gpushare, name), also))
            self.assertEqual(str(getattr(gpushare, name)("the sentence")), "the sentence")
        error = gpushare._errors.from_code(-999, "what is this")
        self.assertEqual((type(error), error.code, str(error)), (gpushare.GpushareError, -999,
                                                                "what is this (status -999)"))

    def test_no_library(self):
        from common import Child
        for told, words in (("/nonexistent.so", "GPUSHARE_LIBRARY"), ("libc.so.6", "no gpushare")):
            with Child(f"""
                import os
                os.environ["GPUSHARE_LIBRARY"] = {told!r}
                try: gpushare.ls()
                except ImportError as error: print(type(error).__name__, error)
            """) as child:
                line = child.hear()
                self.assertIn("LibraryError", line)
                self.assertIn(words, line)


if __name__ == "__main__":
    unittest.main()
