# SPDX-License-Identifier: MIT
"""Names, copies, maps, mirrors: the C API's behaviour in its Python form."""
import io
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
import warnings

from common import BUILD, ROOT, Case, Child, gpushare, needs_numpy, needs_sim, numpy

PATTERN = bytes(range(256)) * 64


class Names(Case):
    def test_alloc_attach_and_what_is_known(self):
        with gpushare.alloc("a/b", (4, 8), "float32", tags={"step": "3"}) as made:
            self.assertEqual((made.dtype, made.shape, made.nbytes, len(made)), ("float32", (4, 8), 128, 4))
            self.assertEqual(made.tags, {"dtype": "float32", "shape": "4,8", "step": "3"})
            info = gpushare.stat("a/b")
            self.assertEqual((info.name, info.size, info.backing, info.owner_pid), ("a/b", 128, "ipc", os.getpid()))
            self.assertTrue(info.device_uuid.startswith("GPU-") and len(info.device_uuid) == 40)
            self.assertEqual(gpushare.ls("a/*"), [info])
            self.assertEqual(gpushare.ls("b*"), [])
            with Child("""
                b = gpushare.attach("a/b")
                print(b, b.device, b.read_only, b.generation)
                b.write(bytes(range(128)))
                input()
            """) as child:
                self.assertEqual(child.hear(), f"<gpushare.Buffer 'a/b' float32[4, 8]> 0 False {made.generation}")
                self.until(lambda: made.read() == bytes(range(128)), "written")
                self.assertEqual([h.pid for h in gpushare.holders("a/b")], [child.process.pid])
                child.say()
                child.end()
            self.until(lambda: self.attachers("a/b") == 0, "detached")
            made.tags = {"step": "4", "shape": None}
            self.assertEqual(made.tags, {"dtype": "float32", "step": "4"})
        with self.assertRaises(gpushare.NotFoundError) as caught:
            gpushare.attach("a/b")
        self.assertIn("gone", str(caught.exception))
        self.assertEqual(caught.exception.status, "E_NOT_FOUND")

    def test_many_together(self):
        kinds = ["float32", "int8", "bfloat16"]
        owned = [gpushare.alloc(f"set/{kind}", 4, kind, vmm=kind == "int8") for kind in kinds]
        with Child("""
            names = [f"set/{kind}" for kind in ("int8", "bfloat16", "float32", "int8")]
            for wrong in (names + ["none"], ["a b"]):
                try:
                    gpushare.attach_many(wrong)
                except (gpushare.NotFoundError, gpushare.BadNameError) as error:
                    print(type(error).__name__, flush=True)
            print(len(gpushare.attach_many([])))
            found = gpushare.attach_many(iter(names), wait=5)
            print(*[f"{b.name} {b.dtype} {b.shape}" for b in found], sep=", ")
            input()
            del found
            input()
        """) as child:
            self.assertEqual([child.hear() for _ in range(3)], ["NotFoundError", "BadNameError", "0"])
            self.assertEqual(child.hear(), "set/int8 int8 (4,), set/bfloat16 bfloat16 (4,), set/float32 float32 (4,), "
                             "set/int8 int8 (4,)")
            self.assertEqual([self.attachers(b.name) for b in owned], [1, 2, 1])
            child.say()
            self.until(lambda: not any(self.attachers(b.name) for b in owned), "detached")
            child.say()
            child.end()
        for buffer in owned:
            buffer.close()

    def test_many_waited_for(self):
        def attaches():
            lines = subprocess.run([BUILD / "gpushare", "metrics"], stdout=subprocess.PIPE, check=True, text=True).stdout
            return int(re.search(r'^gpushare_requests_total{verb="attach"} (\d+)$', lines, re.M)[1])

        owned = [gpushare.alloc(f"set/{i}", 4) for i in range(40)]
        names = [buffer.name for buffer in owned]
        before = attaches()
        with Child("""
            names = [f"set/{i}" for i in range(40)]
            try:
                gpushare.attach_many(names + ["set/never"], wait=2.2)
            except gpushare.TimedOutError as error:
                print(error)
            input()
            found = gpushare.attach_many(["set/late1", *names, "set/late0"], wait=20)
            print(*[buffer.name for buffer in found])
            input()
        """) as child:
            self.assertIn('"set/never"', child.hear())
            self.assertLess(attaches() - before, 100)  # not the whole set each second
            self.assertEqual({self.attachers(name) for name in names}, {0})
            child.say()
            time.sleep(1.2)  # more than one of its turns
            owned += [gpushare.alloc(f"set/late{i}", 4) for i in range(2)]
            self.assertEqual(child.hear().split(), ["set/late1", *names, "set/late0"])
            self.assertEqual({self.attachers(buffer.name) for buffer in owned}, {1})
            child.say()
            child.end()
        for buffer in owned:
            buffer.close()

    def test_bad_words(self):
        for name in ("", "a b", "\u00e9", "a\0b", "x" * 256):
            with self.assertRaises(gpushare.BadNameError):
                gpushare.alloc(name, 1)
        for name in (None, 3, ["a"]):
            with self.assertRaises(TypeError):
                gpushare.attach(name)
        for shape in ((-1,), (2, -3)):
            with self.assertRaises(ValueError):
                gpushare.alloc("x", shape)
        with self.assertRaises(TypeError):
            gpushare.alloc("x", 2.5)
        with self.assertRaises(gpushare.InvalidError):
            gpushare.alloc("x", 0)
        with self.assertRaisesRegex(ValueError, "not an element type"):
            gpushare.alloc("x", 1, "float33")
        with self.assertRaises(gpushare.GpushareError):
            gpushare.alloc("x", 1 << 60)
        with self.assertRaises(gpushare.InvalidError):
            gpushare.alloc("x", 1, ttl=3)
        for wait in (-1, 1 << 40, float("nan")):
            with self.assertRaises(ValueError):
                gpushare.attach("x", wait=wait)
        with gpushare.alloc("x", 8) as buffer:
            with self.assertRaises(gpushare.ExistsError):
                gpushare.alloc("x", 8)
            for tags in ({"k" * 32: "v"}, {"k": "v" * 128}, {"a/b": "v"}, {"k": "\n"}):
                with self.assertRaises(gpushare.InvalidError):
                    buffer.tags = tags
            with self.assertRaises(gpushare.GpushareError):
                buffer.tags = {f"k{i}": "v" for i in range(5)}
        with self.assertRaises(ValueError):
            buffer.read()
        with self.assertRaises(gpushare.GpushareError):
            gpushare.Session("/nonexistent/\u00e9", autostart=False)

    def test_what_fails_after_the_name_takes_it_back(self):
        with self.assertRaises(gpushare.InvalidError):
            gpushare.alloc("x", 8, tags={"bad/key": "v"})
        self.assertEqual(self.names(), [])

    def test_layout_from_tags_told_and_false(self):
        with gpushare.alloc("x", 24) as made:
            self.assertEqual(gpushare.attach("x").shape, (24,))
            told = gpushare.attach("x", dtype="<i4", shape=(2, 3))
            self.assertEqual((told.dtype, told.shape), ("int32", (2, 3)))
            self.assertEqual(gpushare.attach("x", dtype="float16").shape, (12,))
            with self.assertRaises(gpushare.RangeError):
                gpushare.attach("x", dtype="float64", shape=4)
            made.tags = {"dtype": "bfloat16", "shape": "3,4"}
            self.assertEqual(gpushare.attach("x").shape, (3, 4))
            made.tags = {"shape": None}
            self.assertEqual(gpushare.attach("x").shape, (12,))
            for tags in ({"dtype": "what"}, {"dtype": "int32", "shape": "7"}, {"dtype": "int32", "shape": "-1"},
                         {"dtype": "int32", "shape": "0"}, {"dtype": "int32", "shape": "9" * 100},
                         {"dtype": "int32", "shape": "2,,3"}):
                self.tag_by_c("x", **tags)
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    self.assertEqual(gpushare.attach("x").shape, (24,))
                self.assertEqual(len(said), 1, tags)
        with gpushare.alloc("s", (), "float64") as scalar:
            self.assertEqual((scalar.shape, scalar.nbytes, scalar.tags["shape"] if "shape" in scalar.tags else ""),
                             ((), 8, ""))
            self.assertEqual(gpushare.attach("s").shape, ())

    def tag_by_c(self, name, **tags):
        """Set tags like a program that calls the library directly: the library checks no layout."""
        gpushare._buffer.set_tags(gpushare._session.session_of().handle, name, tags)

    def test_tags_are_read_as_the_tools_read_them(self):
        with gpushare.alloc("x", 24):
            for dtype, shape, is_dtype, is_shape in (
                    ("f16", "3x4", "float16", (3, 4)), ("i8", "[2, 12]", "int8", (2, 12)), ("u64", "(3,)", "uint64", (3,)),
                    ("torch.bfloat16", " 1 x 12 ", "bfloat16", (1, 12)), ("<i8", "3", "int64", (3,))):
                gpushare.tag("x", dtype=dtype, shape=shape)
                found = gpushare.attach("x")
                self.assertEqual((found.dtype, found.shape), (is_dtype, is_shape))
            for shape in ("2,", "2x", ",2", "2,3x1", "(2", "(2,,)", "[2)", "()2", "2 3"):
                with self.assertRaisesRegex(ValueError, "not a shape"):
                    gpushare.tag("x", shape=shape)

    def test_tags_that_do_not_fit_are_refused(self):
        with gpushare.alloc("x", (4, 8), "float32", tags={"step": "3"}) as made:
            before = made.tags
            for tags, said in (({"shape": "4,9"}, r"'x'.*float32.*\(4, 9\).*144 bytes.*128"),
                               ({"dtype": "float64"}, r"float64.*\(4, 8\).*256 bytes.*128"),
                               ({"dtype": "float64", "shape": None}, None), ({"dtype": "float32", "shape": (4, 8)}, None),
                               ({"shape": "0"}, r"\(0,\).*128"), ({"shape": "-1"}, "not a shape"), ({"shape": "2,,3"}, "not a shape"),
                               ({"shape": "9" * 19 + ",9" * 30}, "128"), ({"dtype": "complex128", "shape": "3,3"}, "144 bytes")):
                for tag in (lambda: gpushare.tag("x", **tags), lambda: setattr(made, "tags", tags)):
                    with self.subTest(tags):
                        if said is None:
                            tag()
                            self.tag_by_c("x", dtype="float32", shape="4,8")
                            continue
                        with self.assertRaisesRegex(ValueError, said) as caught:
                            tag()
                        self.assertEqual(caught.exception.status, "E_INVALID")
                        self.assertEqual(made.tags, before)
            self.tag_by_c("x", shape="99")
            gpushare.tag("x", step="4")  # whoever sets another tag answers for that alone
            self.assertEqual(gpushare.tag("x")["step"], "4")
        with self.assertRaisesRegex(ValueError, "'y'.*64 bytes.*32"):
            gpushare.alloc("y", (4, 8), "uint8", tags={"shape": "64"})
        with gpushare.alloc("z", 8, staged=True) as staged:
            with self.assertRaisesRegex(ValueError, "12 bytes.*8"):
                staged.tags = {"dtype": "int32", "shape": "3"}
        with gpushare.alloc("s", (), "float64", tags={"step": "1"}) as scalar:
            scalar.tags = {"dtype": "int64", "shape": ""}
            self.assertEqual((scalar.dtype, scalar.shape), ("int64", ()))

    def test_buffers_follow_the_tags_that_their_session_sets(self):
        def layouts(*buffers):
            return [(b.dtype, b.shape) for b in buffers]

        with gpushare.alloc("x", (2, 3), "float32") as made, gpushare.Session() as other:
            attached, told = gpushare.attach("x"), gpushare.attach("x", dtype="uint8")
            view, elsewhere = attached.view(), other.attach("x")
            gpushare.tag("x", dtype="int16", shape="3,4")
            self.assertEqual(layouts(made, attached), [("int16", (3, 4))] * 2)
            self.assertEqual(layouts(view, elsewhere), [("float32", (2, 3))] * 2)
            self.assertEqual(layouts(told), [("uint8", (24,))])
            attached.tags = {"shape": "12"}
            self.assertEqual(layouts(made, attached), [("int16", (12,))] * 2)
            with self.assertRaises(ValueError):
                gpushare.tag("x", shape="13")
            self.assertEqual(layouts(made, attached), [("int16", (12,))] * 2)
            with Child("""
                gpushare.tag("x", dtype="int32", shape="6")
                print("tagged")
            """) as child:
                self.assertEqual(child.hear(), "tagged")
            self.assertEqual(layouts(attached), [("int16", (12,))])  # another process's tags come with an attach
            self.assertEqual(layouts(gpushare.attach("x"), other.attach("x")), [("int32", (6,))] * 2)
            gpushare.tag("x", step="1")
            self.assertEqual(layouts(attached), [("int16", (12,))])
            attached.write(bytes(range(24)))
            self.assertEqual(attached.read(), bytes(range(24)))

    def test_an_interrupted_list_raises(self):
        with gpushare.alloc("x", 1), unittest.mock.patch("sys.unraisablehook"):
            with unittest.mock.patch("gpushare._session.Info", side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    gpushare.ls()

    def test_waiting_for_a_name(self):
        threading.Timer(0.2, lambda: made.append(gpushare.alloc("late", (3,), "int32"))).start()
        made = []
        self.assertEqual(gpushare.attach("late", wait=20).shape, (3,))
        made.clear()
        began = time.monotonic()
        with self.assertRaises((gpushare.NotFoundError, gpushare.TimedOutError)):
            gpushare.attach("never", wait=0.2)
        self.assertGreater(time.monotonic() - began, 0.15)

    def test_kept_adopted_and_removed(self):
        with Child("""
            b = gpushare.alloc("k", (16,), "int32", keep=True)
            b.write(bytes(range(64)))
        """) as child:
            self.assertEqual(child.end()[0], 0)
        self.until(lambda: not gpushare.stat("k").owner_alive)
        self.assertIn("keep", gpushare.stat("k").flags)
        attached = gpushare.attach("k")
        self.assertEqual((attached.read(), attached.dtype, attached.state), (bytes(range(64)), "int32", "kept"))
        with gpushare.alloc("k", (16,), "int32", keep=True, adopt=True) as adopted:
            self.assertTrue(adopted.was_adopted)
            adopted.unlink()
            self.assertEqual(attached.state, "withdrawn")
        self.assertEqual(attached.read(0, 4), bytes(range(4)))

    def test_read_only_for_others(self):
        with gpushare.alloc("r", 64, read_only=True) as made:
            made.write(PATTERN[:64])
            self.assertFalse(made.read_only)
            with Child("""
                b = gpushare.attach("r")
                print(b.read_only, b.read().hex())
                for act in (lambda: b.write(b"x"), lambda: b.mirror(write=True), lambda: b.map(write=True)):
                    try: act()
                    except gpushare.ReadOnlyError as error: print(error)
                try: b.__dlpack__()
                except BufferError as error: print(error)
                print("dltensor_versioned" in repr(b.__dlpack__(max_version=(1, 0))))
                print("dltensor" in repr(b.view(promise_read_only=True).__dlpack__()))
                print(b.__cuda_array_interface__["data"][1])
            """) as child:
                self.assertEqual(child.hear(), f"True {PATTERN[:64].hex()}")
                for _ in range(3):
                    self.assertIn("read-only here", child.hear())
                self.assertIn("promise_read_only", child.hear())
                self.assertEqual([child.hear() for _ in range(3)], ["True"] * 3)
                self.assertEqual(child.end()[0], 0)

    def test_sessions_of_their_own(self):
        with gpushare.Session(os.environ["GPUSHARE_DIR"], timeout=5) as session:
            buffer = session.alloc("own", 16)
            self.assertEqual(session.stat("own").size, 16)
            self.assertGreaterEqual(session.registry().connections, 1)
            self.assertEqual(session.ls(deferred=True), [])
        with self.assertRaisesRegex(ValueError, "closed"):
            session.ls()
        self.assertEqual(self.names(), ["own"])  # the lease is the buffer's
        buffer.write(b"still")
        self.assertEqual(gpushare.attach("own").read(0, 5), b"still")
        del buffer
        self.until(lambda: not self.names())

    def test_pickled_it_is_attached(self):
        with gpushare.alloc("p", (2, 2), "int16") as made:
            made.write(bytes(range(8)))
            with Child("""
                import pickle
                b = pickle.loads(bytes.fromhex(input()))
                print(b, b.read().hex())
            """) as child:
                child.say(pickle.dumps(made).hex())
                self.assertEqual(child.hear(), f"<gpushare.Buffer 'p' int16[2, 2]> {bytes(range(8)).hex()}")
            old = pickle.dumps(made)
        with gpushare.alloc("p", (2, 2), "int16"):
            with self.assertRaises(gpushare.OwnerGoneError):
                pickle.loads(old)


class Copies(Case):
    def test_read_write_and_ranges(self):
        with gpushare.alloc("x", len(PATTERN)) as b:
            self.assertEqual(b.write(PATTERN), len(PATTERN))
            self.assertEqual(b.write(memoryview(b"abcd"), 10), 4)
            self.assertEqual(b.write(bytearray(b"ef"), 14), 2)
            self.assertEqual(b.read(9, 8), PATTERN[9:10] + b"abcdef" + PATTERN[16:17])
            target = bytearray(6)
            self.assertEqual(b.readinto(target, 10), 6)
            self.assertEqual(target, b"abcdef")
            self.assertEqual((b.read(len(PATTERN)), b.read(3, 0), b.write(b"")), (b"", b"", 0))
            part = b.view(offset=8, shape=4)
            self.assertEqual(part.read(), PATTERN[8:10] + b"ab")
            part.write(b"zz", 2)
            self.assertEqual(b.read(10, 2), b"zz")
            for act in (lambda: b.read(-1), lambda: b.read(0, len(PATTERN) + 1),
                        lambda: b.write(b"xy", len(PATTERN) - 1), lambda: part.read(0, 5), lambda: part.view(shape=5), lambda: b.view(offset=-1),
                        lambda: b.view("int64", shape=len(PATTERN))):
                with self.assertRaises(gpushare.RangeError):
                    act()
            for bad in ("text", 3, None):
                with self.assertRaises(TypeError):
                    b.write(bad)
            with self.assertRaises(TypeError):
                b.readinto(b"constant")

    def test_streams_both_ways(self):
        size = (9 << 20) + 17
        data = (PATTERN * (size // len(PATTERN) + 1))[:size]
        with gpushare.alloc("x", size) as b:
            source = io.BytesIO(data)
            b.feed(lambda chunk: source.readinto(chunk))
            sink, chunks = io.BytesIO(), []
            b.stream(lambda chunk: (chunks.append(len(chunk)), self.assertTrue(chunk.readonly), sink.write(chunk)))
            self.assertEqual(sink.getvalue(), data)
            self.assertGreater(len(chunks), 1)
            with self.assertRaisesRegex(ZeroDivisionError, "division"):
                b.stream(lambda chunk: 1 / 0)
            kept = []
            b.stream(kept.append, 0, 16)
            with self.assertRaises(ValueError):
                bytes(kept[0])  # its memory has gone

    def test_a_call_of_another_thread_ends_before_its_buffer(self):
        for transfer in ("stream", "feed"):
            inside, closed = threading.Event(), threading.Event()
            b = gpushare.alloc("x", 8)
            thread = threading.Thread(target=getattr(b, transfer), args=[lambda _: (inside.set(), closed.wait(20))])
            thread.start()
            self.assertTrue(inside.wait(20))
            b.close()
            self.assertEqual(self.names(), ["x"])
            closed.set()
            thread.join()
            self.assertEqual(self.names(), [])
        session = gpushare.Session()
        handle = session.handle
        session.close()
        self.assertEqual(gpushare._native.library().gpushare_unlink(handle, b"never"),
                         gpushare._abi.STATUSES["E_NOT_FOUND"][0])

    def test_an_interrupted_transfer_raises(self):
        """The signal nearly always arrives while the library copies, not while Python code runs."""
        seen = []

        def interrupt(*_):
            seen.append(1)
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        with gpushare.alloc("x", 96 << 20) as b, unittest.mock.patch("sys.unraisablehook"):
            for transfer in (b.stream, b.feed) * 3:
                seen.clear()
                with self.assertRaises(KeyboardInterrupt):
                    signal.setitimer(signal.ITIMER_REAL, 0.004)
                    transfer(lambda chunk: None)
                    while not seen:
                        time.sleep(0.001)

    @needs_numpy
    def test_arrays_go_in_and_out(self):
        with gpushare.alloc("x", (3, 4), "float64") as b:
            array = numpy.arange(12.0).reshape(3, 4)
            b.write(array)
            out = numpy.empty_like(array)
            b.readinto(out)
            self.assertTrue((out == array).all())
            with self.assertRaises((TypeError, ValueError)):
                b.write(array.T)


class Looks(Case):
    def test_mirrors(self):
        with gpushare.alloc("x", (4,), "int32") as b:
            with b.mirror(write=True, read=False) as m:
                m.memory[:] = bytes(range(16))
                m.sync()
                self.assertEqual(b.read(), bytes(range(16)))
                m.memory[0] = 99
            self.assertEqual(b.read(0, 1), b"c")
            with self.assertRaises(ZeroDivisionError):
                with b.mirror(write=True) as m:
                    m.memory[0] = 1
                    1 / 0
            self.assertEqual(b.read(0, 1), b"c")
            with b.mirror() as m:
                view = m.memory
                self.assertTrue(view.readonly)
                self.assertEqual((m.dtype, m.shape, len(m), m.nbytes), ("int32", (4,), 4, 16))
                with self.assertRaises(TypeError):
                    view[0] = 1
                with self.assertRaises(gpushare.InvalidError):
                    m.sync()
            self.assertTrue(m.closed)
            with self.assertRaisesRegex(ValueError, "the mirror is closed"):
                m.memory
            self.assertEqual(bytes(view[:1]), b"c")  # is still there
            with b.view(shape=1, offset=4).mirror(write=True) as m:
                m.memory[:] = b"efgh"
            self.assertEqual(b.read(4, 4), b"efgh")
            with self.assertRaises(gpushare.InvalidError):
                b.mirror(read=False)

    @needs_sim
    def test_a_mirror_that_can_not_be_written_back_stays_open(self):
        with Child("""
            import os
            os.environ["GPUSHARE_SIM_FAIL"] = "cuMemcpyHtoD:1:1"
            b = gpushare.alloc("x", 4)
            m = b.mirror(write=True)
            m.memory[:] = b"abcd"
            try: m.close()
            except gpushare.CudaError as error: print(m.closed, bytes(m.memory))
            m.close()
            print(m.closed, b.read())
        """) as child:
            self.assertEqual(child.hear(), "False b'abcd'")
            self.assertEqual(child.hear(), "True bytearray(b'abcd')")

    def test_maps(self):
        with gpushare.alloc("x", (4,), "int32", vmm=True) as b:
            try:
                with b.map(write=True) as m:
                    view = m.memory
                    view[:] = bytes(range(16))
                    m.flush()
                    m.invalidate(4, 4)
                    self.assertIn(m.backend, ("vulkan", "dma-buf"))
                    self.assertIn(m.caching, ("write-combined", "cached"))
                    for act in (lambda: m.flush(15, 2), lambda: m.invalidate(17, 0)):
                        with self.assertRaises(gpushare.RangeError):
                            act()
            except gpushare.NotSupportedError as error:
                self.skipTest(str(error))  # a host that gives the CPU no way in
            self.assertEqual(b.read(), bytes(range(16)))
            with b.map() as m:
                self.assertTrue(m.memory.readonly)
            del b
        self.assertEqual(bytes(view[:4]), bytes(range(4)))  # outlives the buffer
        with gpushare.alloc("x", 4) as b:
            with self.assertRaisesRegex(gpushare.NotSupportedError, r"with gpushare.alloc\(\.\.\., vmm=True\), or use mirror\(\)"):
                b.map()

    def test_tags_of_a_name(self):
        with gpushare.alloc("x", (2, 2), "int8"):
            self.assertEqual(gpushare.tag("x"), {"dtype": "int8", "shape": "2,2"})
            self.assertEqual(gpushare.tag("x", step="7", shape=None), {"dtype": "int8", "step": "7"})
        with self.assertRaises(gpushare.NotFoundError):
            gpushare.tag("x")

    @needs_numpy
    @needs_sim  # where the CPU can map
    def test_the_readme_can_be_typed(self):
        text = (ROOT / "tools" / "python" / "README.md").read_text()
        cpu = text.split("## The CPU's side\n```python\n")[1].split("```")[0]
        lines = [line for line in text.splitlines() if line.startswith("made = ")] + cpu.splitlines()
        self.assertEqual(len(lines), 8)
        code = "\n".join(line for line in lines if "torch" not in line)
        exec(compile(code, "README.md", "exec"), {"gpushare": gpushare, "numpy": numpy})

    @needs_numpy
    def test_as_arrays(self):
        with gpushare.alloc("x", (2, 3), "float32") as b:
            with b.mirror(write=True) as m:
                array = numpy.asarray(m)
                self.assertEqual((array.dtype, array.shape, array.flags.writeable), ("float32", (2, 3), True))
                array[:] = 2.5
            with b.mirror() as m:
                array = numpy.asarray(m)
                self.assertFalse(array.flags.writeable)
            self.assertEqual(array.tolist(), [[2.5] * 3] * 2)
        for dtype in gpushare._dtypes.DTYPES.values():
            with gpushare.alloc("x", (2,), dtype.name) as b, b.mirror() as m:
                self.assertEqual(numpy.asarray(m).dtype.itemsize, dtype.itemsize)
                self.assertEqual(gpushare._dtypes.dtype_of(numpy.asarray(m).dtype if dtype.typestr else dtype), dtype)

    def test_without_cuda(self):
        with gpushare.alloc("x", (2,), "int64", vmm=True) as made:
            made.write(bytes(range(16)))
            with Child("""
                b = gpushare.attach("x", host_only=True)
                print(b.device, b.pointer, b.dtype)
                try: b.__dlpack__()
                except BufferError as error: print(error)
                print(hasattr(b, "__cuda_array_interface__"))
                try: print(b.read().hex())
                except gpushare.NotSupportedError as error: print("no way in")
            """) as child:
                self.assertEqual(child.hear(), "-1 0 int64")
                self.assertIn("without CUDA", child.hear())
                self.assertEqual(child.hear(), "False")
                self.assertIn(child.hear(), (bytes(range(16)).hex(), "no way in"))


if __name__ == "__main__":
    sys.exit(unittest.main())
