# SPDX-License-Identifier: MIT
"""What other processes see of a name before its tags and contents are there: nothing."""
import unittest
import unittest.mock

from common import Case, Memory, Onlooker, gpushare
from gpushare import _session


class Staged(Case):
    def test_a_name_comes_with_its_tags(self):
        memory = Memory(64)
        makes = {"alloc": lambda: gpushare.alloc("x", (4,), "int32"),
                 "kept": lambda: gpushare.alloc("x", (4,), "int32", keep=True),
                 "adopt": lambda: gpushare.alloc("x", (4,), "int32", keep=True, adopt=True),
                 "bytes": lambda: gpushare.alloc("x", 16, tags={"step": "1"}),
                 "share": lambda: gpushare.share("x", memory, tags={"step": "1"}),
                 "pointer": lambda: gpushare.share_pointer("x", memory.pointer, 16, dtype="int32")}
        with Onlooker() as onlooker:
            seen = []
            tag = _session.set_tags

            def set_tags(*arguments):
                seen.append(onlooker.sees())
                tag(*arguments)
                seen.append(onlooker.sees())

            for what, make in makes.items():
                with self.subTest(what), unittest.mock.patch.object(_session, "set_tags", set_tags):
                    made = make()
                    self.assertEqual(seen, [[], []])
                    self.assertEqual(onlooker.sees(), [("x", sorted(made.tags))])
                    self.assertTrue(made.tags)
                    self.assertNotIn("staged", made.info.flags)
                    self.assertFalse(made.was_adopted)
                    made.unlink()
                    del made
                    seen.clear()
        memory.free()

    def test_what_is_kept_is_taken_over_without_memory_of_its_own(self):
        asked = []
        call_out = _session._native.call_out

        def counted(name, *arguments):
            asked.append(name)
            return call_out(name, *arguments)

        for adopt in (True, False):
            gpushare.alloc("x", 16, keep=True).close()
            with self.subTest(adopt=adopt), unittest.mock.patch.object(_session._native, "call_out", counted):
                made = gpushare.alloc("x", 16, keep=True, adopt=adopt)
                self.assertEqual(asked, ["gpushare_alloc_with"])
                self.assertEqual(made.was_adopted, adopt)
                made.unlink()
                made.close()
            asked.clear()

    def test_staged_until_it_is_committed(self):
        memory = Memory(64)
        with Onlooker() as onlooker:
            for make in (lambda: gpushare.alloc("x", (4,), "int32", staged=True, keep=True),
                         lambda: gpushare.share("x", memory, staged=True)):
                made = make()
                self.assertIn("staged", made.info.flags)
                self.assertEqual(onlooker.sees(), [])
                made.tags = {"step": "1"}
                made.commit()
                made.commit()
                self.assertEqual([name for name, tags in onlooker.sees() if "step" in tags], ["x"])
                self.assertEqual(made.generation, gpushare.stat("x").generation)
                made.unlink()
                made.close()
            gpushare.alloc("x", 16, staged=True, keep=True).close()
            self.assertEqual(onlooker.sees(), [])
        taken = gpushare.alloc("x", 16)
        with self.assertRaises(gpushare.ExistsError):
            gpushare.alloc("x", 16, staged=True)
        with self.assertRaises(gpushare.InvalidError):
            gpushare.alloc("y", 16, staged=True, keep=True, adopt=True)
        with self.assertRaises(gpushare.InvalidError):
            gpushare.alloc("y", 16, adopt=True)
        taken.close()
        memory.free()

    def test_what_is_kept_is_replaced_and_not_by_what_is_staged(self):
        for value in (1, 2):
            gpushare.alloc("k", (value,), "int32", keep=True).close()
            self.assertEqual(gpushare.attach("k").shape, (value,))
        with self.assertRaises(gpushare.ExistsError):
            gpushare.alloc("k", 16, staged=True)
        gpushare.unlink("k")


if __name__ == "__main__":
    unittest.main()
