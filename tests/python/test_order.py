# SPDX-License-Identifier: MIT
"""Publish and acquire, named events and notices; without them in the library, its error."""
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


@unittest.skipUnless(WATCH, "the library has no watch")
class Watching(Case):
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
