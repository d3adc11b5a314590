# SPDX-License-Identifier: MIT
"""Names of parts of a buffer: gpushare_share_parts()."""
import os
import signal
import socket
import struct
import threading
import unittest

from common import Case, Child, Memory, gpushare


class Parts(Case):
    def whole(self, **options):
        made = gpushare.alloc("w", 4096, vmm=True, **options)
        made.write(bytes(range(256)) * 16)
        return made

    def give(self, whole):
        whole.share_parts({"w/a": whole.view("float32", (2, 3), offset=256),
                           "w/b": whole.view("int16", 8, offset=4080)}, {"w/a": {"key": "a"}})

    def test_a_part_is_a_buffer_of_its_own(self):
        whole = self.whole(read_only=True)
        self.give(whole)
        self.assertEqual(self.names(), ["w", "w/a", "w/b"])
        self.assertEqual(gpushare.stat("w/a").tags, {"dtype": "float32", "shape": "2,3", "key": "a"})
        self.assertEqual(gpushare.stat("w/a").flags, ("readonly",))
        with Child("""
            a, b = gpushare.attach("w/a"), gpushare.attach("w/b")
            print(a.dtype, a.shape, a.read().hex(), b.dtype, b.shape, b.read().hex())
            try:
                b.write(bytes(2))
            except gpushare.ReadOnlyError:
                print("read-only")
            input()
            print(b.read().hex(), b.state)
        """) as child:
            self.assertEqual(child.hear(), f"float32 (2, 3) {bytes(range(24)).hex()} int16 (8,) {bytes(range(240, 256)).hex()}")
            self.assertEqual(child.hear(), "read-only")
            self.assertEqual(gpushare.registry().descriptors, 1)
            gpushare.unlink("w")
            self.assertEqual(self.names(), ["w/a", "w/b"])
            whole.close()
            self.assertEqual(self.names(), [])
            child.say()
            self.assertEqual(child.hear(), f"{bytes(range(240, 256)).hex()} withdrawn")
        self.until(lambda: not gpushare.registry().descriptors, "the last attacher's descriptor closed")

    def test_all_names_or_none(self):
        whole, other = self.whole(keep=True), gpushare.alloc("w/b", 16)
        with self.assertRaisesRegex(gpushare.ExistsError, "w/b.*taken by pid"):
            whole.share_parts({**{f"w/{i:03}": whole.view(offset=i) for i in range(300)}, "w/b": whole.view()})
        self.assertEqual(self.names(), ["w", "w/b"])
        for error, parts in ((gpushare.GpushareError, {"w/ok": whole.view(), "w b": whole.view()}),
                             (ValueError, {"w/x": other.view()})):
            with self.assertRaises(error):
                whole.share_parts(parts)
        whole.share_parts({})
        self.assertEqual(self.names(), ["w", "w/b"])
        whole.unlink()
        other.close()

    def test_what_has_no_parts(self):
        memory = Memory(64)
        for plain in (gpushare.alloc("p", 64), gpushare.share("q", memory), gpushare.alloc("u", 64, unified=True)):
            with self.assertRaisesRegex(gpushare.NotSupportedError, "not vmm memory.*vmm=True"):
                plain.share_parts({"x": plain.view()})
            plain.close()
        with Child("w = gpushare.alloc('w', 64, vmm=True); print('up'); input()") as child:
            child.hear()
            theirs = gpushare.attach("w")
            with self.assertRaisesRegex(gpushare.InvalidError, "attached here; its owner names its parts"):
                theirs.share_parts({"x": theirs.view()})
        del theirs, plain
        memory.free()

    def test_kept_parts_outlive_their_owner_and_count_their_own_bytes(self):
        with Child("""
            w = gpushare.alloc("w", 8 << 20, keep=True)
            w.write(b"abcd", 4 << 20)
            w.share_parts({f"w/{i}": w.view("uint8", 4, offset=(4 << 20) + i) for i in range(100)})
            print("up"); input()
        """) as child:
            child.hear()
            child.kill()
        self.until(lambda: not gpushare.stat("w/99").owner_alive, "the owner gone")
        self.assertEqual(gpushare.registry().kept_bytes, (8 << 20) + 100 * 4)
        gpushare.unlink("w")
        self.assertEqual(gpushare.attach("w/0").read(), b"abcd")
        gpushare.alloc("w/0", 16, keep=True).close()  # replaces it, alone
        self.assertEqual(gpushare.attach("w/1").read()[:3], b"bcd")
        for name in self.names():
            gpushare.unlink(name)

    def kill_registry(self, keeper):
        registry = gpushare.registry().pid
        if keeper:
            os.kill(registry, signal.SIGSTOP)  # or it would start another keeper
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.connect(os.path.join(os.environ["GPUSHARE_DIR"], "keeper.sock"))
                os.kill(struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0], signal.SIGKILL)
        os.kill(registry, signal.SIGKILL)

    def test_another_registry_gets_them_again(self):
        self.whole(keep=True).close()
        for options in ({}, {"adopt": True}):
            whole = self.whole(keep=True, **options)
            self.assertEqual(whole.was_adopted, bool(options))
            self.give(whole)
            for keeper in (False, True):
                with self.subTest(keeper=keeper, **options):
                    self.kill_registry(keeper)
                    self.until(lambda: self.names() == ["w", "w/a", "w/b"], "all names back")
                    with Child("print(gpushare.attach('w/b', wait=10).read().hex())") as child:
                        self.assertEqual(child.hear(), bytes(range(240, 256)).hex())
                    self.assertEqual(gpushare.stat("w/a").tags, {"dtype": "float32", "shape": "2,3", "key": "a"})
            whole.share_parts({"w/c": whole.view()})
            whole.close()
            for part in ("w/a", "w/b", "w/c"):
                gpushare.unlink(part)
        gpushare.unlink("w")

    def test_a_registry_that_is_killed_meanwhile(self):
        """The next registry gets the rest: all have their names, in one call."""
        whole, first = self.whole(), gpushare.Session()
        parts = {f"w/{i:04}": whole.view(offset=i) for i in range(4000)}
        giver = threading.Thread(target=whole.share_parts, args=(parts,))
        giver.start()
        self.until(lambda: first.is_there("w/0100"), "a hundred names")
        os.kill(first.registry().pid, signal.SIGKILL)
        giver.join()
        self.until(lambda: self.names() == ["w", *parts], "all names")
        whole.close()


if __name__ == "__main__":
    unittest.main()
