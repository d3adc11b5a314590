# SPDX-License-Identifier: MIT
"""Sharing arrays of other libraries: by the CUDA array interface, by DLPack, and refusals."""
import ctypes
import gc
import unittest

from common import Case, Child, Memory, gpushare
from gpushare import _dlpack


class Sharing(Case):
    def test_by_the_interface(self):
        memory = Memory(4096, "<f4", (16, 64))
        b = gpushare.share("x", memory, tags={"who": "me"})
        self.assertEqual((b.dtype, b.shape, b.pointer), ("float32", (16, 64), memory.pointer))
        self.assertEqual(gpushare.stat("x").tags, {"dtype": "float32", "shape": "16,64", "who": "me"})
        with Child("b = gpushare.attach('x'); b.write(b'hello'); print(b)") as child:
            self.assertEqual(child.hear(), "<gpushare.Buffer 'x' float32[16, 64]>")
            child.end()
        self.assertEqual(b.read(0, 5), b"hello")
        b.close()
        memory.free()

    def test_it_keeps_the_array(self):
        import weakref
        memory = Memory(4096)
        looked = weakref.ref(memory)
        b = gpushare.share("x", memory)
        m = b.mirror()
        del memory
        self.assertIsNotNone(looked())
        pointer = looked().pointer
        del b
        self.assertEqual(self.names(), [])
        self.assertIsNotNone(looked())  # the mirror is of it
        del m
        gc.collect()
        self.assertIsNone(looked())
        Memory.driver.cuMemFree_v2(ctypes.c_uint64(pointer))

    def test_by_dlpack(self):
        with gpushare.alloc("source", (3, 5), "bfloat16") as source:
            for version in (None, (1, 0)):
                class Array:
                    requires_grad = True
                    asked = []

                    def detach(self):
                        self.requires_grad = False
                        return self

                    def __dlpack_device__(self):
                        return source.__dlpack_device__()

                    def __dlpack__(self, *, stream=None):
                        assert not self.requires_grad
                        self.asked.append(stream)
                        return source.__dlpack__(stream=stream, max_version=version)

                array = Array()
                with gpushare.share("again", array) as b:
                    self.assertEqual((b.dtype, b.shape, b.pointer), ("bfloat16", (3, 5), source.pointer))
                    self.assertEqual(array.asked, [-1])
                    self.assertEqual(_dlpack.read(b.__dlpack__(stream=1)).pointer, source.pointer)  # the array's own
                    self.assertEqual(array.asked, [-1, 1])
                    with self.assertRaisesRegex(BufferError, "use that array"):
                        b.view("uint8", (1,)).__dlpack__()

    def test_refused_with_a_sentence(self):
        memory = Memory(4096)
        class Cpu:
            def __dlpack__(self):
                raise AssertionError

            def __dlpack_device__(self):
                return 1, 0

        def like(**told):
            made = type("Fake", (), {})()
            made.__cuda_array_interface__ = {**memory.__cuda_array_interface__, **told}
            return made

        for array, error, words in (
                ([1, 2], TypeError, "builtins.list has neither"), (Cpu(), ValueError, "not in a GPU's memory"),
                (like(shape=(4, 4), strides=(8, 1)), ValueError, r"not contiguous: shape \(4, 4\), strides \(8, 1\)"),
                (like(shape=(4, 4), strides=(1, 4)), ValueError, "not contiguous"),
                (like(shape=(2,), typestr="<i4", strides=(6,)), ValueError, "not contiguous"),
                (like(shape=(0, 4)), ValueError, "no elements"), (like(mask=memory), ValueError, "mask"),
                (like(shape=(1 << 20,)), gpushare.RangeError, "allocation|past"),
                (like(data=(0x10, False)), gpushare.GpushareError, ""),
                (like(data=(0, False)), gpushare.GpushareError, "")):
            with self.assertRaisesRegex(error, words):
                gpushare.share("x", array)
            self.assertEqual(self.names(), [])
        # these are contiguous: the stride of a dimension of size 1 doesn't matter
        for told_ in ({"shape": (1, 4), "strides": (99, 1)}, {"shape": (4, 1), "strides": (1, 7)},
                      {"shape": (2, 2), "strides": (2, 1)}, {"shape": ()}):
            with gpushare.share("x", like(**told_)) as b:
                self.assertEqual(b.shape, told_["shape"])
        with gpushare.share("x", like(typestr="|V16", shape=(2,))) as b:
            self.assertEqual((b.dtype, b.shape), ("uint8", (32,)))
        memory.free()


if __name__ == "__main__":
    unittest.main()
