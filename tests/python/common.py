# SPDX-License-Identifier: MIT
"""Common code of the tests: the package from the tree, other processes, and a device array of no framework."""
import ast
import ctypes
import os
import pathlib
import subprocess
import sys
import textwrap
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE = pathlib.Path(os.environ.get("GPUSHARE_TEST_PACKAGE", ROOT / "tools" / "python" / "src"))
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
sys.path.insert(0, str(SOURCE))
os.environ.setdefault("GPUSHARE_LIBRARY", str(BUILD / "libgpushare.so.0"))

import gpushare  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None
needs_numpy = unittest.skipUnless(numpy, "numpy is not installed")
is_simulated = os.environ.get("GPUSHARE_TEST_DRIVER", "sim") == "sim"
needs_sim = unittest.skipUnless(is_simulated, "needs the simulated driver, whose device memory the CPU reaches")


class Child:
    """Another process that runs `code`. It prints lines, and waits for lines from the test by line = input()."""

    def __init__(self, code, *arguments, path=()):
        before = "import sys; sys.path[:0] = %r\nimport gpushare\n" % [*map(str, path), str(SOURCE)]
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", before + textwrap.dedent(code), *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the other process ended: {self.process.stderr.read()}")
        return line.rstrip("\n")

    def say(self, line=""):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self):
        """End the process. Returns its exit code and the rest of its output."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


class Onlooker(Child):
    """Another process that reports the names that exist, and the keys of their tags."""

    def __init__(self):
        super().__init__("""
            while True:
                input()
                print([(i.name, sorted(i.tags)) for i in gpushare.ls()])
        """)

    def sees(self):
        self.say()
        return ast.literal_eval(self.hear())


class Memory:
    """Device memory as an array of another library that has only the CUDA array interface."""

    driver = None

    def __init__(self, size, typestr="|u1", shape=None, strides=None):
        if Memory.driver is None:
            Memory.driver = ctypes.CDLL("libcuda.so.1")
            context = ctypes.c_void_p()
            assert not Memory.driver.cuInit(0)
            assert not Memory.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
            assert not Memory.driver.cuCtxSetCurrent(context)
        pointer = ctypes.c_uint64()
        assert not Memory.driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
        self.pointer = pointer.value
        itemsize = int(typestr[2:])
        self.__cuda_array_interface__ = {"version": 3, "typestr": typestr, "data": (self.pointer, False),
                                         "shape": shape or (size // itemsize,), "strides": strides, "stream": None}

    def free(self):
        assert not Memory.driver.cuMemFree_v2(ctypes.c_uint64(self.pointer))


class Case(unittest.TestCase):
    """Each test must end with no name left."""

    maxDiff = None

    def tearDown(self):
        import gc
        gc.collect()
        self.until(lambda: not gpushare.ls(), "every name has gone")  # those of a process that ended go soon

    def names(self):
        return [info.name for info in gpushare.ls()]

    def attachers(self, name):
        return gpushare.stat(name).attachers

    def until(self, condition, what="it"):
        end = time.monotonic() + 20
        while not condition():
            self.assertLess(time.monotonic(), end, f"still not: {what}")
            time.sleep(0.01)
