# SPDX-License-Identifier: MIT
"""The ends of interpreters, of forked children, and of processes that are killed."""
import ctypes
import os
import unittest

from common import Case, Child, gpushare, needs_numpy


class Exits(Case):
    def ends(self, code, path=()):
        with Child(code, path=path) as child:
            self.assertEqual(child.end(), (0, "done\n", ""))
        self.until(lambda: not self.names(), "all gone")

    def test_with_all_kinds_alive(self):
        self.ends("""
            b = gpushare.alloc("x", 4096, unified=True)
            v, m, c, s = b.view("int32"), b.mirror(write=True), b.__dlpack__(), gpushare.Session()
            y = b.map(write=True).memory
            gpushare.attach("x")
            class Late:
                def __del__(self):
                    v.read(); y[0] = 1
            late = Late()
            cycle = [b, m]; cycle.append(cycle)
            print("done")
        """)

    @needs_numpy
    def test_with_arrays_alive(self):
        self.ends("""
            import numpy, threading
            b = gpushare.alloc("x", 4096, unified=True)
            gpushare.kept = numpy.from_dlpack(b.cpu), numpy.asarray(b)
            threading.Thread(target=lambda: b.read()).start()
            print("done")
        """)

    def test_by_sys_exit_and_by_exceptions(self):
        with Child("b = gpushare.alloc('x', 64); c = b.__dlpack__(); sys.exit(7)") as child:
            self.assertEqual(child.end(), (7, "", ""))
        with Child("b = gpushare.alloc('x', 64); c = b.__dlpack__(); 1 / 0") as child:
            code, _, said = child.end()
            self.assertEqual((code, said.count("Error")), (1, 1))
        self.until(lambda: not self.names(), "all gone")

    def test_killed(self):
        with Child("b = gpushare.alloc('x', 64); print('up'); input()") as child:
            child.hear()
            b = gpushare.attach("x")
            child.kill()
        self.until(lambda: not self.names(), "all gone")
        self.assertEqual((b.state, len(b.read())), ("withdrawn", 64))


class Forks(Case):
    def child(self, work):
        """Run `work` in a forked child, and return its output."""
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.write(write, repr(work()).encode())
            except BaseException as error:
                os.write(write, f"{type(error).__name__}: {error}".encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as said:
            words = said.read()
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        return words

    def test_what_was_made_before_is_the_parents(self):
        b = gpushare.alloc("x", 64)
        capsule = b.__dlpack__()
        mirror = b.mirror(write=True)
        for work in (b.read, lambda: b.tags, mirror.sync, lambda: b.__dlpack__(stream=-1), b.unlink, b.mirror):
            self.assertIn("ForkedError", self.child(work))
        self.assertEqual(self.child(lambda: b.close()), "None")
        self.assertEqual(self.child(mirror.drop), "None")
        self.assertEqual(self.names(), ["x"])
        b.write(b"still")
        self.assertEqual(b.read(0, 5), b"still")
        del b, mirror, capsule

    def test_a_child_has_sessions_of_its_own(self):
        with gpushare.alloc("x", 64):
            self.assertEqual(self.child(lambda: [i.name for i in gpushare.ls()]), "['x']")
            self.assertEqual(self.child(lambda: gpushare.stat("x").size), "64")
            self.assertEqual(self.names(), ["x"])

    def test_exit_in_a_child_while_the_parent_has_a_map(self):
        with Child("""
            import os, warnings
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
            b = gpushare.alloc("x", 4096, vmm=True)
            try:
                m = b.map(write=True)
            except gpushare.NotSupportedError as error:
                print("no map:", error)
                sys.exit()
            m.memory[5] = 42
            def child(code):
                pid = os.fork()
                if not pid:
                    sys.stdout.write("child\\n")
                    sys.exit(code)
                print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]), m.memory[5], m.memory.readonly)
            child(3)
            m.close()
            m = b.map()
            child(0)
            sys.exit(4)
        """) as other:
            code, said, complaints = other.end()
        if said.startswith("no map"):
            self.skipTest(said)  # a host that gives the CPU no way in
        self.assertEqual((code, said, complaints), (4, "child\n3 42 False\nchild\n0 42 True\n", ""))
        self.until(lambda: not self.names(), "all gone")

    def test_gpushare_close_with_a_tensor_ends_all_other_attachments(self):
        with Child("a, b = gpushare.alloc('x', 64), gpushare.alloc('y', 64); print('up'); input()") as child:
            child.hear()
            library, session, tensor = ctypes.CDLL(os.environ["GPUSHARE_LIBRARY"]), ctypes.c_void_p(), ctypes.c_void_p()
            self.assertEqual(library.gpushare_open(None, ctypes.byref(session)), 0)
            for name in (b"x", b"x", b"x", b"y"):
                buffer = ctypes.c_void_p()
                self.assertEqual(library.gpushare_attach(session, name, None, ctypes.byref(buffer)), 0)
            self.assertEqual(library.gpushare_dlpack(buffer, None, ctypes.byref(tensor)), 0)
            library.gpushare_close(session)
            self.assertEqual((self.attachers("x"), self.attachers("y")), (0, 1))


if __name__ == "__main__":
    unittest.main()
