# SPDX-License-Identifier: MIT
"""Publish and acquire, named events and notices; without them in the library, its error."""
import contextlib
import os
import pathlib
import select
import signal
import socket
import tempfile
import threading
import time
import unittest

from common import Case, Child, gpushare

has = gpushare._native.has
ORDER = has("gpushare_publish", "gpushare_acquire", "gpushare_sequence", "gpushare_publish_host",
            "gpushare_acquire_host", "gpushare_release_host", "gpushare_reclaim_host", "gpushare_join",
            "gpushare_leave")
EVENTS = has("gpushare_event_create", "gpushare_event_open", "gpushare_event_record", "gpushare_event_wait",
             "gpushare_event_query", "gpushare_event_wait_host", "gpushare_event_close")
WATCH = has("gpushare_watch", "gpushare_watch_next", "gpushare_watch_fd", "gpushare_watch_close")


class Older(Case):
    @unittest.skipIf(ORDER and EVENTS and WATCH, "the library has all of it")
    def test_what_is_not_there_is_said(self):
        with gpushare.alloc("x", 8) as b:
            for there, act in ((ORDER, b.publish), (EVENTS, lambda: gpushare.event_create("e")),
                               (WATCH, lambda: gpushare.watch())):
                if not there:
                    with self.assertRaisesRegex(gpushare.NotSupportedError, "has no gpushare_"):
                        act()


@unittest.skipUnless(ORDER, "the library has no publish")
class Order(Case):
    def test_host_to_host(self):
        with gpushare.alloc("x", 8) as b:
            self.assertEqual(b.sequence, 0)
            with Child("""
                b = gpushare.attach("x")
                first = b.join()
                print("joined", flush=True)
                for at in range(first, first + 3):
                    got = b.acquire_host(at, timeout=20)
                    print(got, b.read(0, 1)[0], flush=True)
                    b.release_host(at)
                b.leave()
            """) as child:
                self.assertEqual(child.hear(), "joined")
                for at in range(1, 4):
                    b.write(bytes([at]))
                    self.assertEqual(b.publish_host(), at)
                    self.assertEqual(child.hear(), f"{at} {at}")
                    b.reclaim_host(at, timeout=20)
                self.assertEqual(child.end()[0], 0)
            self.assertEqual(b.sequence, 3)
            with self.assertRaises(gpushare.TimedOutError):
                b.acquire_host(4, timeout=0.05)

    def test_streams(self):
        with gpushare.alloc("x", 8) as b:
            at = b.publish()
            with Child("""
                b = gpushare.attach("x", passive=True)
                b.acquire(None, 1)
                print(b.sequence)
            """) as child:
                self.assertEqual(child.hear(), str(at))
            self.assertIn(b.ordering, ("host-functions", "stream-memory-operations"))
            b.order_status()


@unittest.skipUnless(ORDER and EVENTS, "the library has no publish, or no named events")
class Interrupts(Case):
    def test_ctrl_c_ends_each_wait(self):
        waits = ("b.acquire_host()", "b.reclaim_host(b.publish_host())", "event.wait_host()",
                 "gpushare.event_open('never', wait=60)", "gpushare.attach('never', wait=60)",
                 "gpushare.watch('never').next()")
        with contextlib.ExitStack() as stack:
            children = [stack.enter_context(Child(f"""
                import signal
                signal.signal(signal.SIGINT, signal.default_int_handler)
                b = gpushare.alloc("x{number}", 8)
                consumer = gpushare.Session().attach("x{number}")
                consumer.join()
                event = gpushare.event_create("e{number}")
                if "event.wait" in sys.argv[1]:
                    b.acquire(None, 1)  # the legacy stream waits
                    event.record()
                print("waits", flush=True)
                try:
                    eval(sys.argv[1])
                except KeyboardInterrupt:
                    print("interrupted", flush=True)
                    sys.stdin.readline()
                """, wait)) for number, wait in enumerate(waits)]
            for child in children:
                self.assertEqual(child.hear(), "waits")
            for child, wait in zip(children, waits):
                self.until(lambda: pathlib.Path(f"/proc/{child.process.pid}/stat").read_text().split()[2] == "S", wait)
                child.process.send_signal(signal.SIGINT)
            for child, wait in zip(children, waits):
                self.assertTrue(select.select([child.process.stdout], [], [], 20)[0], wait)
                self.assertEqual(child.hear(), "interrupted", wait)
                child.kill()


@unittest.skipUnless(EVENTS, "the library has no named events")
class Events(Case):
    def test_one_is_found_by_its_name(self):
        with gpushare.event_create("e") as event:
            event.record()
            with Child("""
                with gpushare.event_open("e") as event:
                    event.wait()
                    event.wait_host(timeout=20)
                    print(event.query())
            """) as child:
                self.assertEqual(child.hear(), "True")
            event.wait_host(timeout=20)
            self.assertTrue(event.query())


def varint(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def field(number, value):
    """A field of protobuf: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


HELLO = field(3, field(1, 2))  # Reply.hello.protocol


def told(kind, serial, name=b"", registry=1000):
    """A Reply with one notice."""
    notice = field(1, serial) + field(2, kind) + field(8, registry)
    return field(13, field(1, notice + field(3, field(1, name)) if name else notice))


def play_registry(peer, watches):
    """Answer the Subscribe requests of a connection with the replies of the next of `watches`, and then no more."""
    replies = None
    with peer:
        peer.sendall(b"\0SP\0\0\x31\0\0")
        peer.recv(8, socket.MSG_WAITALL)
        while header := peer.recv(13, socket.MSG_WAITALL):
            body = peer.recv(int.from_bytes(header[1:9], "big") - 4, socket.MSG_WAITALL)
            if body[0] == 1 << 3 | 2:  # Hello
                answers = [HELLO]
            else:
                answers = replies = watches.pop(0) if replies is None else replies
            if answers:
                reply = answers.pop(0)
                peer.sendall(b"\1" + (len(reply) + 4).to_bytes(8, "big") + header[9:] + reply)


@unittest.skipUnless(WATCH, "the library has no watch")
class Watching(Case):
    def test_gaps_are_told_and_nonsense_is_refused(self):
        nonsense = [b"\xff" * 4, told(1, 24), told(1, 3, b"older"), told(1, 24, b"strange", 0)]
        watches = [[told(0, 10), told(1, 11, b"a"), told(1, 21, b"b"), told(4000, 22, b"newer"), told(1, 23, b"c")]]
        watches += [[told(0, 23)] for _ in nonsense]
        for replies, bad in zip(watches, nonsense):
            replies.append(bad)
        watches[-1].append(told(1, 24, b"d"))

        def accept():
            for _ in range(2 + len(nonsense)):  # the session, then the watch
                threading.Thread(target=play_registry, args=(listener.accept()[0], watches), daemon=True).start()

        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(folder + "/registry.sock")
            listener.listen()
            threading.Thread(target=accept, daemon=True).start()
            with gpushare.Session(directory=folder) as session, session.watch() as watch:
                seen = [watch.next(10) for _ in range(4)]
                self.assertEqual([(notice.kind, notice.lost, notice.info and notice.info.name) for notice in seen],
                                 [("share", 0, "a"), ("lost", 9, None), ("share", 0, "b"), ("share", 0, "c")])
                for _ in nonsense:
                    with self.assertRaisesRegex(gpushare.ProtocolError, "registry.sock"):
                        watch.next(10)
                self.assertEqual(watch.next(10).info.name, "d")

    def test_a_program_that_takes_the_socket_keeps_its_own(self):
        gpushare.ls()
        before = os.listdir("/proc/self/fd")
        with gpushare.watch("w") as watch:  # another test's child may end only now
            [taken] = [int(fd) for fd in os.listdir("/proc/self/fd")
                       if fd not in before and os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")]
            own, other = socket.socketpair()
            os.dup2(own.fileno(), taken)
            other.sendall(b"mine")
            self.assertIsNone(watch.next(0.2))
            with gpushare.alloc("w", 1):
                self.assertEqual(watch.next(10).info.name, "w")
        self.assertEqual(os.read(taken, 4), b"mine")
        for fd in (taken, own.detach(), other.detach()):
            os.close(fd)

    def test_what_happens_is_told(self):
        with gpushare.watch("w/*") as watch:
            self.assertIsNone(watch.next(0))
            self.assertGreaterEqual(watch.fileno(), 0)
            began = time.monotonic()
            self.assertIsNone(watch.next(0.2))
            self.assertGreater(time.monotonic() - began, 0.15)
            with gpushare.alloc("w/x", (2,), "int32"), gpushare.alloc("other", 1):
                notice = watch.next(10)
                self.assertEqual((notice.kind, notice.info.name, notice.info.size), ("share", "w/x", 8))
            kinds = set()
            while "withdraw" not in kinds:
                kinds.add(watch.next(10).kind)
        with self.assertRaisesRegex(ValueError, "closed"):
            watch.next(0)


if __name__ == "__main__":
    unittest.main()
