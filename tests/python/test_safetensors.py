# SPDX-License-Identifier: MIT
"""gpushare.torch.load_safetensors(): files that are right, files that lie, and processes that load one together."""
import json
import os
import pathlib
import struct
import sys
import tempfile
import threading
import unittest
import unittest.mock

from common import Case, Child, Onlooker, gpushare, needs_sim, numpy

FAKE = pathlib.Path(__file__).resolve().parent / "fake"
if numpy:
    sys.path.insert(0, str(FAKE))
    import torch  # noqa: F401
    load = gpushare.torch.load_safetensors

BIG = 5 << 20  # of float32: more than two of the library's chunks


def header(tensors, more=None):
    """The header of a file, as bytes, for (key, dtype, shape, bytes) rows."""
    told, end = dict(more or {}), 0
    for key, dtype, shape, data in tensors:
        told[key] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(told).encode()
    return text + b" " * (-len(text) % 8)


def encoded(text, data=b""):
    return struct.pack("<Q", len(text)) + text + data


def tensors():
    return [("embed", "F32", [5, 1 << 20], numpy.arange(BIG, dtype="<f4").tobytes()),
            ("norm", "BF16", [3], b"\x01\x02\x03\x04\x05\x06"), ("empty", "I64", [0, 4], b""),
            ("steps", "I64", [2, 1], struct.pack("<2q", 7, -7)), ("scale", "F32", [], struct.pack("<f", 2.5))]


@needs_sim
@unittest.skipUnless(numpy, "numpy is not installed")
class Safetensors(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "model.safetensors"

    def written(self, rows=None):
        rows = tensors() if rows is None else rows
        self.path.write_bytes(encoded(header(rows, {"__metadata__": {"format": "pt"}}), b"".join(r[3] for r in rows)))
        return self.path

    def test_once_per_host(self):
        module = torch.Module(**{row[0]: torch.empty((0,)) for row in tensors()})
        mine = load(self.written(), "llama", module)
        self.assertEqual(list(mine), ["embed", "norm", "empty", "steps", "scale"])
        self.assertEqual(mine["embed"].array.reshape(-1)[[0, 1, BIG - 1]].tolist(), [0, 1, BIG - 1])
        self.assertEqual(mine["norm"].array.view("u1").tolist(), [1, 2, 3, 4, 5, 6])
        self.assertEqual((mine["steps"].array.tolist(), float(mine["scale"].array)), ([[7], [-7]], 2.5))
        self.assertEqual((mine["empty"].shape, mine["empty"].dtype), ((0, 4), torch.int64))
        self.assertTrue(module.states["embed"].is_cuda)
        self.assertEqual(self.names(), ["llama", "llama/embed", "llama/norm", "llama/scale", "llama/steps"])
        self.assertEqual(gpushare.stat("llama/steps").tags, {"dtype": "int64", "shape": "2,1", "key": "steps"})
        with Child("""
            import torch, unittest.mock
            with unittest.mock.patch("os.preadv", None):  # it reads no tensor
                print(float(gpushare.torch.load_safetensors(sys.argv[1], "llama")["embed"].array[4, -1]))
        """, self.path, path=[FAKE]) as child:
            self.assertEqual(child.hear(), str(float(BIG - 1)))
        mine.close()

    def test_processes_that_start_together_read_it_once(self):
        code = """
            import torch
            print("up"); input()
            found = gpushare.torch.load_safetensors(sys.argv[1], "llama", wait=60)
            print(float(found["embed"].array[4, -1]), gpushare.stat("llama").owner_pid == __import__("os").getpid())
            input()
        """
        self.written()
        children = [Child(code, self.path, path=[FAKE]) for _ in range(4)]
        try:
            for act in (Child.hear, Child.say):
                for child in children:
                    act(child)
            said = [child.hear().split() for child in children]
            self.assertEqual({value for value, _ in said}, {str(float(BIG - 1))})
            self.assertEqual([owns for _, owns in said].count("True"), 1)
            self.assertEqual(gpushare.registry().descriptors, 1)
        finally:
            for child in children:
                child.kill()

    def test_the_others_wait_and_one_of_them_takes_over(self):
        """Nobody sees a name while the file is read. When its reader is killed, another process reads it."""
        self.written()
        with Child("""
            import os, torch
            def stop(*_):
                os.write(1, b"half\\n"); input()  # several threads read
            os.preadv, read = stop, os.preadv
            os.preadv = lambda *a: read(*a) if a[2] < 9 else stop()
            gpushare.torch.load_safetensors(sys.argv[1], "llama")
        """, self.path, path=[FAKE]) as reader, Onlooker() as onlooker:
            self.assertEqual(reader.hear(), "half")
            self.assertEqual(onlooker.sees(), [])
            with self.assertRaisesRegex(gpushare.TimedOutError, "another process has been reading it.*wait="):
                load(self.path, "llama", wait=0.1)
            with Child("""
                import torch
                print("up")
                print(float(gpushare.torch.load_safetensors(sys.argv[1], "llama")["scale"].array))
            """, self.path, path=[FAKE]) as other:
                self.assertEqual(other.hear(), "up")
                reader.kill()
                self.assertEqual(other.hear(), "2.5")

    def test_kept_it_is_read_once_for_good_and_never_for_another_file(self):
        load(self.written(), "llama", keep=True).close()
        with unittest.mock.patch("os.preadv", None):
            self.assertEqual(float(load(self.path, "llama", keep=True)["scale"].array), 2.5)
        os.utime(self.path, ns=(1, 1))
        with self.assertRaisesRegex(ValueError, "'llama' does not hold '.*model.safetensors', but an older version"):
            load(self.path, "llama")
        gpushare.torch.remove_state_dict("llama")
        shared = gpushare.torch.share_state_dict({"a": torch.tensor([1.0])}, "llama")
        with self.assertRaisesRegex(ValueError, "a state dict that a process shared; use another name"):
            load(self.path, "llama")
        shared.close()

    def test_a_file_that_lies_is_refused_before_anything_is_allocated(self):
        f32 = lambda begin, end, shape, dtype="F32": {  # noqa: E731
            "dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        dumps = lambda **rows: json.dumps(rows).encode()  # noqa: E731
        cases = {
            "header would have 0 bytes": b"\1\2\3",
            "header would have 4096 bytes, but the file has 10": struct.pack("<Q", 4096) + b"{}",
            f"header would have {(1 << 64) - 1} bytes": b"\xff" * 8 + b"{}",
            "header is not JSON: ": encoded(b'{"a":'),
            "header is not JSON: .*'a' is there twice": encoded(b'{"a": 1, "a": 2}'),
            "header is not JSON:": encoded(b"[" * 200000),
            "header is not JSON:  ?": encoded(b'{"a": \xff\xfe}'),
            "header is not a JSON object": encoded(b"[1, 2]"),
            "'a' has no dtype, shape": encoded(dumps(a=[1])),
            "'a' has no dtype, shape and": encoded(dumps(a=f32(0, 4, [-1]))),
            "'a' has no dtype, shape and data": encoded(dumps(a=f32(0, 1 << 70, [1]))),
            "'a' has no dtype, shape and data_": encoded(dumps(a=f32(0, 4, [True]))),
            "'a' has no dtype, shape and data_offsets": encoded(dumps(a=f32(0, 4, [1] * 65))),
            "the dtype 'F4' of 'a' is not supported": encoded(dumps(a=f32(0, 4, [1], "F4"))),
            r"the dtype \[\] of 'a' is not": encoded(dumps(a=f32(0, 4, [1], []))),
            "'a' has 4 bytes, not the 8 of": encoded(dumps(a=f32(0, 4, [2])), bytes(4)),
            "'a' has -4 bytes": encoded(dumps(a=f32(8, 4, [1])), bytes(8)),
            "'a' has 4 bytes, not the": encoded(dumps(a=f32(0, 4, [(1 << 62), (1 << 62)])), bytes(4)),
            "'b' begins at byte .* the tensor before it ends": encoded(dumps(a=f32(0, 8, [2]), b=f32(4, 12, [2])), bytes(12)),
            "'b' begins at byte": encoded(dumps(a=f32(0, 4, [1]), b=f32(8, 12, [1])), bytes(12)),
            "its tensors end at byte .*, but the file has": encoded(dumps(a=f32(0, 4, [1])), bytes(5)),
            "its tensors end at byte": encoded(dumps(a=f32(0, 8, [2])), bytes(4)),
        }
        with unittest.mock.patch.object(gpushare.torch, "_Set", None):
            for why, data in cases.items():
                with self.subTest(why):
                    self.path.write_bytes(data)
                    with self.assertRaisesRegex(ValueError, f"^'{self.path}'.*{why}.*; "):
                        load(self.path, "llama")
            with self.assertRaises(FileNotFoundError):
                load(self.path.with_name("none"), "llama")

    def test_a_file_that_changes_meanwhile_is_refused_and_leaves_nothing(self):
        self.written()
        read = os.preadv

        def cut(fd, views, at):
            if at > 1 << 20:
                os.truncate(self.path, 1 << 20)
            return read(fd, views, at)

        def touch(fd, views, at):
            os.utime(self.path, ns=(at, at))
            return read(fd, views, at)

        for act, why in ((cut, "became shorter while it was read"), (touch, "was changed while it was read; load it again")):
            for keep in (False, True):
                self.written()
                with self.subTest(why, keep=keep), unittest.mock.patch("os.preadv", act):
                    with self.assertRaisesRegex(ValueError, why):
                        load(self.path, "llama", keep=keep)
                self.assertEqual(self.names(), [])

    def test_no_thread_reads_into_a_chunk_after_an_error(self):
        read, entered, left, reading = os.preadv, threading.Event(), threading.Event(), []

        def fail_first(fd, views, at):
            if len(views[0]) < 2 << 20:  # the header's
                return read(fd, views, at)
            if at < 2 << 20:
                self.assertTrue(entered.wait(20))
                raise OSError("no such sector")
            reading.append(at)
            entered.set()
            left.wait(0.3)  # until feed() has returned, if it doesn't wait for this read
            reading.remove(at)
            return read(fd, views, at)

        def feed(array, *arguments):
            try:
                feed_array(array, *arguments)
            finally:
                still.append(list(reading))
                left.set()

        feed_array, still = gpushare._array.Array.feed, []
        with unittest.mock.patch("os.preadv", fail_first), unittest.mock.patch("gpushare._array.Array.feed", feed):
            with self.assertRaisesRegex(OSError, "no such sector"):
                load(self.written(), "llama")
        self.assertEqual(still, [[]])

    def test_an_empty_file_of_tensors(self):
        found = load(self.written([]), "none")
        self.assertEqual((found, self.names()), ({}, ["none"]))
        found.close()


if __name__ == "__main__":
    unittest.main()
