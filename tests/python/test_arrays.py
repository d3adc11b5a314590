# SPDX-License-Identifier: MIT
"""What other libraries see of a buffer: DLPack, the CUDA array interface, the array interface, the buffer protocol."""
import collections
import ctypes
import gc
import sys
import unittest
import unittest.mock
import weakref

from common import Case, Child, Memory, gpushare, needs_numpy, needs_sim, numpy
from gpushare import _abi, _dlpack, _driver, _native

DTYPES = gpushare._dtypes.DTYPES


def told(capsule):
    return _dlpack.read(capsule)


class Consumer:
    """Consumes a capsule as DLPack requires: renames it, and calls its deleter at the end."""

    NAMES = {_dlpack.PLAIN: b"used_dltensor", _dlpack.VERSIONED: b"used_dltensor_versioned"}

    def __init__(self, capsule):
        name = _dlpack.VERSIONED if _dlpack._is_valid(capsule, _dlpack.VERSIONED) else _dlpack.PLAIN
        self.told = told(capsule)._replace(keep=None)
        self.address = _dlpack._get(capsule, name)
        kind = _dlpack._Versioned if name == _dlpack.VERSIONED else _dlpack._Plain
        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kind.from_address(self.address).deleter)
        ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
            ("PyCapsule_SetName", ctypes.pythonapi))(capsule, self.NAMES[name])

    def end(self):
        self.deleter(self.address)


class DLPack(Case):
    def test_each_type_as_it_is_named(self):
        for dtype in DTYPES.values():
            with gpushare.alloc("x", (2, 3), dtype.name) as b:
                seen = told(b.__dlpack__())
                self.assertEqual((seen.dtype, seen.shape, seen.strides, seen.pointer, seen.device_type, seen.device),
                                 (dtype, (2, 3), (3, 1), b.pointer, 2, 0))
                self.assertEqual(b.__dlpack_device__(), (2, 0))

    def test_versions_and_read_only(self):
        with gpushare.alloc("x", 8, read_only=True) as b:
            self.assertIn('"dltensor"', repr(b.__dlpack__()))
            self.assertIn('"dltensor"', repr(b.__dlpack__(max_version=(0, 8))))
            for version in ((1, 0), (1, 1), (2, 0)):
                capsule = b.__dlpack__(max_version=version)
                self.assertIn('"dltensor_versioned"', repr(capsule))
                self.assertFalse(told(capsule).read_only)  # its owner may write
            with gpushare.Session() as other, other.attach("x") as attached:
                self.assertIn(attached.read_only, (True, False))

    def test_views(self):
        with gpushare.alloc("x", (4, 4), "float32") as b:
            part = b.view("int16", (3,), offset=8)
            seen = told(part.__dlpack__())
            self.assertEqual((seen.pointer, seen.shape, seen.dtype.name), (b.pointer + 8, (3,), "int16"))
            self.assertEqual(b.view("uint8").shape, (64,))
            self.assertEqual(b.view(shape=(2, 8)).shape, (2, 8))
            self.assertEqual(part.view(offset=2).shape, (2,))
            self.assertEqual(b.view(offset=64).shape, (0,))
            for offset in (-1, 65, 80):
                with self.assertRaisesRegex(gpushare.RangeError, f"from offset {offset} are more than the 64 bytes"):
                    b.view(offset=offset)
            scalar = b.view("float64", ())
            self.assertEqual((told(scalar.__dlpack__()).shape, scalar.nbytes), ((), 8))
            with self.assertRaises(TypeError):
                len(scalar)

    def test_streams(self):
        waits = []
        settle, order = _driver.settle, _driver.order
        _driver.settle, _driver.order = lambda d: waits.append("all"), lambda d, a, b: waits.append((a, b))
        try:
            with gpushare.alloc("x", 8) as b:
                for stream, expected in ((None, ["all"]), (-1, []), (1, ["all"]), (2, ["all"]), (0x1234560, ["all"])):
                    if stream == 0x1234560:
                        _driver_is, _driver.is_capturing = _driver.is_capturing, lambda s: False
                    b.__dlpack__(stream=stream)
                    self.assertEqual(waits, expected, stream)
                    waits.clear()
                with self.assertRaisesRegex(BufferError, "ambiguous"):
                    b.__dlpack__(stream=0)
                b.written_on(0x40)
                b.__dlpack__(stream=0x80)
                b.__dlpack__(stream=0x40)
                b.__dlpack__(stream=None)
                self.assertEqual(waits, [(0x40, 0x80), (0x40, 1)])
                self.assertEqual(b.__cuda_array_interface__["stream"], 0x40)
                b.written_on(None)
                self.assertEqual(b.__cuda_array_interface__["stream"], 1)
                waits.clear()
                _driver.is_capturing = lambda s: True
                b.__dlpack__(stream=0x80)
                self.assertEqual(waits, [])  # it happens later: nothing can be waited for
                _driver.is_capturing = _driver_is
        finally:
            _driver.settle, _driver.order = settle, order

    def test_what_a_capture_forbids_to_wait_for_stays_till_later(self):
        settle = _driver.settle
        with Child("b = gpushare.alloc('x', 8); print('up'); input()") as child:
            child.hear()
            b = gpushare.attach("x")
            b.__cuda_array_interface__
            try:
                _driver.settle = lambda device: False
                del b
                self.assertEqual(self.attachers("x"), 1)
            finally:
                _driver.settle = settle
            gpushare.attach("x").close()
            self.assertEqual(self.attachers("x"), 0)

    def test_what_waits_is_released_once_if_another_hold_ends_meanwhile(self):
        released = collections.Counter()
        library = unittest.mock.Mock(end=lambda handle: released.update([handle]))

        class Later(list):
            """Each access releases another Hold, as the garbage collector may."""

            def __getitem__(self, index):
                got = super().__getitem__(index)
                _native.Hold(next(numbers, 0), "end").give_back()
                return got

            def pop(self, index):
                got = super().pop(index)
                _native.Hold(next(numbers, 0), "end").give_back()
                return got

        numbers = iter(range(100, 102))
        later = Later((None, "end", number, ()) for number in range(1, 5))
        with unittest.mock.patch.object(_native, "_later", later), \
                unittest.mock.patch.object(_native, "library", lambda: library):
            _native.Hold(5, "end").give_back()
        self.assertEqual([released[number] for number in range(1, 6)], [1] * 5)

    def test_places(self):
        with gpushare.alloc("x", 8) as b:
            self.assertIn("PyCapsule", repr(type(b.__dlpack__(dl_device=(2, 0)))))
            for place in ((1, 0), (2, 7), (3, 0), (13, 0)):
                with self.assertRaisesRegex(BufferError, "here, not to"):
                    b.__dlpack__(dl_device=place)
            with self.assertRaisesRegex(BufferError, "copy"):
                b.__dlpack__(copy=True)
            with self.assertRaises(gpushare.NotSupportedError):
                b.cpu
        with gpushare.alloc("u", 8, unified=True) as u:
            self.assertEqual((u.__dlpack_device__(), u.cpu.__dlpack_device__()), ((2, 0), (1, 0)))
            for array, place, expected in ((u, None, 2), (u, (1, 0), 1), (u, (3, 0), 3), (u.cpu, None, 1),
                                           (u.cpu, (2, 0), 2)):
                seen = told(array.__dlpack__(dl_device=place))
                self.assertEqual((seen.device_type, seen.pointer), (expected, u.pointer))
            with self.assertRaisesRegex(BufferError, "stream"):
                u.cpu.__dlpack__(stream=2)

    def test_the_last_consumer_lets_go(self):
        with Child("gpushare_kept = gpushare.alloc('x', 4096); gpushare_kept.write(b'abc'); print('up'); input()"
                   ) as child:
            child.hear()
            b = gpushare.attach("x")
            consumers = [Consumer(b.__dlpack__(max_version=v)) for v in (None, (1, 0), None)]
            other = b.view(shape=16)
            del b
            self.assertEqual(self.attachers("x"), 1)
            del other
            for consumer in consumers:
                self.assertEqual(self.attachers("x"), 1)
                consumer.end()
            self.assertEqual(self.attachers("x"), 0)
            # a capsule that no consumer took keeps nothing either
            b = gpushare.attach("x")
            capsule = b.__dlpack__()
            del b
            gc.collect()
            self.assertEqual(self.attachers("x"), 1)
            del capsule
            gc.collect()
            self.assertEqual(self.attachers("x"), 0)
            b = gpushare.attach("x")
            with self.assertRaises(ZeroDivisionError):
                [b.__dlpack__(), 1 / 0]
            b.close()
            del b
            self.assertEqual(self.attachers("x"), 0)

    def test_a_closed_buffer_keeps_the_memory_of_cuda_array_interface_consumers(self):
        with Child("b = gpushare.alloc('x', 8); print('up'); input()") as child:
            child.hear()
            b = gpushare.attach("x")
            view = b.view("uint16")
            view.__cuda_array_interface__
            b.close()
            del b
            self.assertEqual(self.attachers("x"), 1)
            del view
            self.assertEqual(self.attachers("x"), 0)
            pending = len(_dlpack._pending)
            with gpushare.attach("x") as b:
                for _ in range(5):
                    self.assertEqual(b.__cuda_array_interface__["data"][0], b.pointer)
            self.assertEqual(len(_dlpack._pending), pending + 1)
            self.assertEqual(self.attachers("x"), 1)
            del b
            self.assertEqual(self.attachers("x"), 0)
        memory = Memory(64)
        source = weakref.ref(memory)
        with gpushare.share("y", memory) as b:
            b.__cuda_array_interface__
        self.assertEqual(self.names(), [])
        del memory
        self.assertIsNotNone(source())
        source().free()
        del b
        self.assertIsNone(source())

    def test_counts_of_references_as_of_python_3_14(self):
        """From 3.14 on, getrefcount() doesn't count its own argument."""
        with Child("""
            count = sys.getrefcount

            def in_one_place():
                pending = [(object(), b"")]
                capsule, _ = pending[0]
                return counted(capsule)

            def counted(thing):
                return count(thing) - more
            more = 0
            more = in_one_place() - 2
            sys.getrefcount = counted
            import importlib
            importlib.reload(gpushare._dlpack)
            b = gpushare.alloc("x", 8)
            capsule = b.__dlpack__()
            gpushare._dlpack.sweep()
            print(len(gpushare._dlpack._pending))
            del capsule
            gpushare._dlpack.sweep()
            print(len(gpushare._dlpack._pending))
        """) as child:
            self.assertEqual((child.hear(), child.hear()), ("1", "0"))

    def test_nothing_is_left_of_many(self):
        with gpushare.alloc("x", 64) as b:
            def once():
                for _ in range(500):
                    Consumer(b.__dlpack__()).end()
                    b.__dlpack__(max_version=(1, 0))
                    b.__cuda_array_interface__
                    with b.mirror(write=True) as m:
                        m.memory[0] = 1
                gc.collect()
                return sys.getallocatedblocks(), len(gc.get_objects())

            once()
            first, second = once(), once()
            self.assertLess(second[0] - first[0], 400)  # what is left each time is there 500 times
            self.assertLess(second[1] - first[1], 400)
            self.assertLess(len(_dlpack._pending), 3)

    @needs_numpy
    def test_numpy_takes_unified(self):
        with gpushare.alloc("u", (2, 3), "float32", unified=True) as u:
            array = numpy.from_dlpack(u.cpu)
            numpy.asarray(u)[:] = 3
            self.assertEqual(array.tolist(), [[3.0] * 3] * 2)
        self.assertEqual(self.names(), [])
        self.assertEqual(array.tolist(), [[3.0] * 3] * 2)  # the memory is there for it
        with gpushare.alloc("d", 4) as d:
            with self.assertRaises((RuntimeError, BufferError)) as caught:
                numpy.from_dlpack(d)
            self.assertNotIsInstance(caught.exception, SystemError)

    @needs_numpy
    @needs_numpy
    def test_numpy_takes_nothing_else_for_an_array(self):
        """Without __array__(), NumPy would make an array that holds the buffer object."""
        for made in ({}, {"vmm": True}):
            with gpushare.alloc("x", (2, 3), "float32", **made) as b:
                for ask in (numpy.asarray, numpy.array, lambda a: numpy.zeros(6) + a, lambda a: a.view().__array__()):
                    with self.assertRaisesRegex(TypeError, r"'x' lies in the GPU's memory: map\(\) or mirror\(\) it"):
                        ask(b)
        with gpushare.alloc("x", (2, 3), "float32", unified=True) as b:
            self.assertEqual(b.__array__().shape, (2, 3))
            self.assertEqual(b.__array__("int64").dtype, "int64")

    def test_what_the_library_refuses(self):
        large = 1 << 40
        cases = [({"device_type": 9}, "E_INVALID", "not 9"),
                 ({"device_type": _dlpack.CPU}, "E_NOT_SUPPORTED", "gpushare_map"),
                 ({"bits": 4}, "E_INVALID", "whole number of bytes"), ({"bits": 12}, "E_INVALID", "whole number of bytes"),
                 ({"ndim": 1}, "E_INVALID", "dimensions"), ({"shape": [1] * 65}, "E_INVALID", "dimensions"),
                 ({"shape": [-1, 1]}, "E_INVALID", "dimension 0"), ({"shape": [large, large]}, "E_INVALID", "larger than any buffer"),
                 ({"shape": [0, large, large]}, "E_INVALID", "strides"),
                 ({"shape": [100, 1], "offset": 1}, "E_RANGE", "past the end")]
        with gpushare.alloc("x", 100) as b:
            for given, status, words in cases:
                given = dict(given)
                shape = given.pop("shape", None)
                if shape:
                    given.update(ndim=len(shape), shape=(ctypes.c_int64 * len(shape))(*shape))
                options = _native.make(_abi.DlpackOptions, **given)
                with self.assertRaisesRegex(Exception, words) as caught:
                    _native.call_out("gpushare_dlpack", b._exported(), ctypes.byref(options))
                self.assertEqual(caught.exception.status, status)

    def test_capsules_that_are_none(self):
        for thing in (None, 3, object()):
            with self.assertRaises((BufferError, TypeError)):
                _dlpack.read(thing)
        with gpushare.alloc("x", 8) as b:
            capsule = b.__dlpack__()
            Consumer(capsule).end()
            with self.assertRaisesRegex(BufferError, "consumed"):
                _dlpack.read(capsule)

    @needs_numpy
    def test_an_exception_under_way_is_not_lost(self):
        def take(*_):
            raise AssertionError

        with gpushare.alloc("u", 8, unified=True) as u:
            with self.assertRaises(ZeroDivisionError):
                take(numpy.from_dlpack(u.cpu), 1 / 0)
            with self.assertRaises(ZeroDivisionError):
                take(u.cpu.__dlpack__(), 1 / 0)
        self.assertEqual(self.names(), [])


class Interfaces(Case):
    def test_cuda_array_interface(self):
        for dtype in DTYPES.values():
            with gpushare.alloc("x", (2, 3), dtype.name) as b:
                if dtype.typestr is None:
                    self.assertFalse(hasattr(b, "__cuda_array_interface__"))
                    continue
                self.assertEqual(b.__cuda_array_interface__, {
                    "version": 3, "shape": (2, 3), "typestr": dtype.typestr, "strides": None,
                    "data": (b.pointer, False), "stream": None})
                self.assertFalse(hasattr(b, "__array_interface__"))

    @needs_numpy
    def test_unified_memory_is_an_array_of_the_cpus(self):
        for read_only in (False, True):
            with gpushare.alloc("u", (2, 3), "int32", unified=True, read_only=read_only) as u:
                u.write(numpy.arange(6, dtype="int32"))
                array = numpy.asarray(u)
                self.assertEqual(array.tolist(), [[0, 1, 2], [3, 4, 5]])
                self.assertTrue(array.flags.writeable)
                array[1, 2] = 50
                self.assertEqual(u.read(20), (50).to_bytes(4, "little"))
                self.assertEqual(memoryview(u.memory).nbytes, 24)
                code = """
                    b = gpushare.attach("u")
                    import numpy
                    a = numpy.asarray(b)
                    print(b.read_only, a.flags.writeable, a.tolist())
                """
                with Child(code) as child:
                    self.assertEqual(child.hear(), f"{read_only} {not read_only} [[0, 1, 2], [3, 4, 50]]")
            self.assertEqual(array.tolist(), [[0, 1, 2], [3, 4, 50]])
            del array

    def test_buffer_protocol(self):
        with gpushare.alloc("u", (2, 3), "int32", unified=True) as u:
            for thing in (u, u.mirror(write=True), u.map(write=True)):
                if sys.version_info >= (3, 12):
                    view = memoryview(thing)
                else:
                    with self.assertRaises(TypeError):
                        memoryview(thing)
                    view = thing.__buffer__(0)
                self.assertEqual((view.format, view.shape, view.nbytes, view.readonly), ("i", (2, 3), 24, False))
                view[1, 2] = 7
                view.release()
            with self.assertRaises(BufferError):
                u.view("bfloat16").__buffer__(0)
            scalar = u.view("int32", ()).__buffer__(0)
            self.assertEqual(scalar[()], u.memory.cast("i")[0])
        with gpushare.alloc("d", 4) as d:
            with self.assertRaisesRegex(BufferError, "map"):
                d.__buffer__(0)


@needs_sim
class Threads(Case):
    def test_deleters_on_any_thread(self):
        import threading
        with Child("b = gpushare.alloc('x', 1 << 20); print('up'); input()") as child:
            child.hear()
            failed = []

            def work():
                try:
                    for _ in range(100):
                        b = gpushare.attach("x")
                        consumer = Consumer(b.__dlpack__(stream=-1))
                        b.view(shape=4).read()
                        del b
                        consumer.end()
                except BaseException as error:
                    failed.append(error)

            threads = [threading.Thread(target=work) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failed, [])
            self.assertEqual(self.attachers("x"), 0)


if __name__ == "__main__":
    unittest.main()
