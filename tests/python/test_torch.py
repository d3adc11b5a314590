# SPDX-License-Identifier: MIT
"""gpushare.torch's logic, with a stand-in for torch; tests/gpu has the real one."""
import pathlib
import sys
import threading
import unittest
import unittest.mock

from common import Case, Child, Onlooker, gpushare, needs_sim, numpy

FAKE = pathlib.Path(__file__).resolve().parent / "fake"
if numpy:
    sys.path.insert(0, str(FAKE))
    import torch
    share, attach = gpushare.torch.share_state_dict, gpushare.torch.attach_state_dict

MANY = 1 << 19  # of float32: 2 MiB


def states():
    big = torch.tensor(numpy.arange(MANY))
    return {"embed.weight": big, "layers.0.norm": torch.tensor([1.5, 2.5]), "head.weight": big,
            "layers.0.scale": torch.tensor(3.25), "steps": torch.tensor([[1, 2], [3, 4]], torch.int64),
            "odd name:\u00e9": torch.tensor([7, 8, 9], torch.bfloat16), "odd name_\u00e9": torch.tensor([1.0]),
            "empty": torch.empty((0, 4)), "turned": torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t()}


CONSUMER = """
    import torch, sys
    name, many = sys.argv[1], int(sys.argv[2])
    states = gpushare.torch.attach_state_dict(name, wait=20)
    print(list(states))
    print([(str(t.dtype), t.shape, t.device.type, t.array.reshape(-1)[:4].tolist()) for t in states.values()])
    print(states["embed.weight"] is states["head.weight"], int(states["embed.weight"].array[-1]))
    try:
        gpushare.attach(name + "/embed.weight").write(b"no")
    except gpushare.ReadOnlyError:
        print("read-only")
    try:
        gpushare.attach(name + "/layers.0.norm").write(b"no")
    except gpushare.ReadOnlyError:
        print("read-only")
    norm = gpushare.attach(name + "/layers.0.norm")
    print(norm.dtype, norm.shape, norm.tags["key"], norm.read().hex())
    input()
    print(states["layers.0.norm"].array.tolist())
"""


@needs_sim
@unittest.skipUnless(numpy, "numpy is not installed")
class Torch(Case):
    def test_one_copy_by_name(self):
        source = states()
        shared = share(torch.Module(**source), "llama")
        self.assertEqual(list(shared), list(source))
        with Child(CONSUMER, "llama", MANY, path=[FAKE]) as child:
            self.assertEqual(child.hear(), repr(list(source)))
            expected = [(str(t.dtype), t.shape, "cuda" if t.numel() else "cpu", t.array.reshape(-1)[:4].tolist())
                        for t in source.values()]
            self.assertEqual(child.hear(), repr(expected))
            self.assertEqual(child.hear(), f"True {MANY - 1}")
            self.assertEqual([child.hear(), child.hear()], ["read-only"] * 2)
            self.assertEqual(child.hear(), "float32 (2,) layers.0.norm 0000c03f00002040")
            self.assertEqual(self.attachers("llama"), 1)
            shared.close()
            self.assertEqual(self.names(), [])
            child.say()
            self.assertEqual(child.hear(), "[1.5, 2.5]")
            self.assertEqual(child.end()[0], 0)

    def test_a_state_dict_is_one_allocation(self):
        """293 tensors, as of a small model: at most 1 % more than their bytes, and one descriptor for all names."""
        source = {f"layers.{i}.w": torch.tensor(numpy.full(80000 if i % 9 else 500, i)) for i in range(293)}
        shared = share(source, "many")
        infos = gpushare.ls()
        self.assertEqual([i.name for i in infos], ["many", *sorted(f"many/layers.{i}.w" for i in range(293))])
        self.assertEqual(len({i.base_size for i in infos}), 1)
        self.assertEqual(len({i.base_offset for i in infos}), 294)  # each is a part of it
        total = sum(4 * t.numel() for t in source.values())
        self.assertLess(infos[0].base_size, 1.01 * total + (2 << 20))
        self.assertEqual(gpushare.registry().descriptors, 1)
        self.assertEqual(gpushare.stat("many/layers.7.w").tags,
                         {"dtype": "float32", "shape": "80000", "key": "layers.7.w"})
        self.assertEqual(gpushare.attach("many/layers.9.w").read()[:4], gpushare.attach("many/layers.9.w").read(1996))
        shared.close()
        self.assertEqual((self.names(), gpushare.registry().descriptors), ([], 0))

    def test_a_name_that_is_removed_frees_no_other(self):
        shared = share({"a": torch.tensor([1.0]), "b": torch.tensor([2.0])}, "s")
        with Child("b = gpushare.attach('s/b'); print('has'); input(); print(b.read().hex())") as child:
            self.assertEqual(child.hear(), "has")
            gpushare.unlink("s/a")
            self.assertEqual(self.names(), ["s", "s/b"])
            self.assertEqual(attach("s")["a"].array.tolist(), [1.0])
            gpushare.unlink("s")
            self.assertEqual(gpushare.attach("s/b").read(), bytes.fromhex("00000040"))
            shared.close()
            self.assertEqual(self.names(), [])
            child.say()
            self.assertEqual(child.hear(), "00000040")  # the memory stays as long as an attacher of a part

    def test_odd_names_are_told_apart(self):
        shared = share(states(), "s")
        names = [n for n in self.names() if n.startswith("s/odd")]
        self.assertEqual(len(names), 2)
        self.assertIn("s/odd_name__", names)
        self.assertEqual({gpushare.stat(n).tags["key"] for n in names}, {"odd name:\u00e9", "odd name_\u00e9"})
        long = gpushare.torch.buffer_name("s", "x" * 300, set())
        self.assertEqual(len(long), 255)
        self.assertNotEqual(long, gpushare.torch.buffer_name("s", "x" * 301, set()))
        shared.close()

    def test_a_type_without_a_name_travels_as_bytes(self):
        shared = share({"q": torch.tensor([1, 2, 3], torch.quint4)}, "q")
        self.assertEqual((gpushare.stat("q/q").size, attach("q")["q"].dtype), (3, torch.quint4))
        shared.close()

    def test_assign_takes_the_shared_copy(self):
        module = torch.Module(weight=torch.tensor([1.0, 2.0]))
        shared = share(module, "m", assign=True)
        self.assertTrue(module.states["weight"].is_cuda)
        other = torch.Module(weight=torch.empty((2,)))
        loaded = attach("m", other)
        module.states["weight"].array[0] = 5
        self.assertEqual(other.states["weight"].array.tolist(), [5, 2])
        with self.assertRaises(RuntimeError):
            attach("m", torch.Module(bias=torch.empty((2,))))
        del loaded
        shared.close()

    def test_what_is_none_is_refused(self):
        with self.assertRaisesRegex(TypeError, "module or a state dict, not int"):
            share(3, "x")
        with self.assertRaisesRegex(TypeError, "'a' is not a tensor but str"):
            share({"a": "b"}, "x")
        with self.assertRaises(gpushare.NotFoundError):
            attach("x")
        with gpushare.alloc("x", 4096):
            with self.assertRaisesRegex(ValueError, "not a state dict"):
                gpushare.attach("x").write(b"x" * 4096)
                attach("x")

    def test_no_name_is_seen_before_its_contents(self):
        with Onlooker() as onlooker:
            seen = []
            copy = torch.Tensor.copy_

            def copy_and_look(*arguments):
                copy(*arguments)
                seen.append(onlooker.sees())

            with unittest.mock.patch.object(torch.Tensor, "copy_", copy_and_look):
                shared = share({"a": torch.tensor([1.0]), "b": torch.tensor(numpy.arange(MANY))}, "s", keep=True)
            self.assertEqual(seen, [[], []])
            self.assertEqual([name for name, _ in onlooker.sees()], ["s", "s/a", "s/b"])
            self.assertEqual(attach("s")["a"].array.tolist(), [1.0])
            shared.close()
        gpushare.torch.remove_state_dict("s")

    def test_a_set_whose_owner_is_there_is_not_replaced_by_chance(self):
        first = share({"a": torch.tensor([1.0])}, "t")
        with self.assertRaisesRegex(gpushare.ExistsError, "taken by pid .*; replace=True replaces it"):
            share({"a": torch.tensor([2.0])}, "t")
        self.assertEqual(attach("t")["a"].array.tolist(), [1.0])
        second = share({"a": torch.tensor([2.0])}, "t", replace=True)
        first.close()
        self.assertEqual(attach("t")["a"].array.tolist(), [2.0])
        second.close()

    def test_the_driver_fails_on_the_way(self):
        """Nothing is left of the share or attach that failed, and the next attempt succeeds."""
        code = """
            import os, numpy, torch
            os.environ["GPUSHARE_SIM_FAIL"] = sys.argv[2]
            act, many, keep = sys.argv[1], int(sys.argv[3]), sys.argv[4] == "True"
            def do():
                if act == "attach":
                    return gpushare.torch.attach_state_dict("d")
                return gpushare.torch.share_state_dict(
                    {"a": torch.tensor([1.0]), "b": torch.tensor(numpy.arange(many))}, "d", keep=keep)
            status = "no fault"
            try:
                do()
            except gpushare.GpushareError as error:
                status = error.status
            print(status)  # what it has of the buffers has gone with it
            input()
            print(float(do()["a"].array[0]))
            input()
        """
        for keep in (False, True):
            for fault in ("cuMemCreate:1:1:2", "cuMemExportToShareableHandle:1:1", "cuMemcpyHtoD:1:1",
                          "cuMemcpyHtoD:2:1"):
                with self.subTest(fault, keep=keep), Child(code, "share", fault, MANY, keep, path=[FAKE]) as child:
                    self.assertRegex(child.hear(), "^E_(CUDA|NO_MEMORY|DEVICE)$")
                    self.assertEqual(self.names(), [])
                    child.say()
                    self.assertEqual(child.hear(), "1.0")
                    gpushare.torch.remove_state_dict("d")
        shared = share({"a": torch.tensor([1.0]), "b": torch.tensor(numpy.arange(MANY))}, "d")
        for fault in ("cuMemImportFromShareableHandle:1:1", "cuMemMap:1:1:2", "cuMemcpyDtoH:1:1"):
            with self.subTest(fault), Child(code, "attach", fault, MANY, False, path=[FAKE]) as child:
                self.assertRegex(child.hear(), "^E_")
                self.assertEqual([i.attachers for i in gpushare.ls()], [0] * 3)
                child.say()
                self.assertEqual(child.hear(), "1.0")
        shared.close()

    def test_nothing_but_a_list(self):
        shared = share({}, "nothing")
        self.assertEqual((attach("nothing"), self.names()), ({}, ["nothing"]))
        shared.close()

    def test_what_fails_leaves_nothing(self):
        with gpushare.alloc("t/b", 16):
            with self.assertRaises(gpushare.ExistsError):
                share({"a": torch.tensor([1.0]), "b": torch.tensor([2.0])}, "t", keep=True)
            self.assertEqual(self.names(), ["t/b"])

    def test_kept_outlives_its_process_and_is_replaced(self):
        code = """
            import torch
            gpushare.torch.share_state_dict({"w": torch.tensor([float(sys.argv[1])])}, "k", keep=True)
            print("there")
        """
        for value in (1.0, 2.0):
            with Child(code, value, path=[FAKE]) as child:
                self.assertEqual(child.hear(), "there")
                self.assertEqual(child.end()[0], 0)
            self.until(lambda: not gpushare.stat("k").owner_alive)
            self.assertEqual(attach("k")["w"].array.tolist(), [value])
        gpushare.torch.remove_state_dict("k")

    def test_two_generations_are_never_mixed(self):
        stop, seen, wrong = threading.Event(), set(), []
        shared = [share({f"p{i}": torch.tensor([0.0]) for i in range(8)}, "g")]

        def look():
            while not stop.is_set():
                try:
                    found = attach("g", wait=10)
                except gpushare.GpushareError as error:
                    wrong.append(error)
                    return
                values = {float(t.array[0]) for t in found.values()}
                if len(values) != 1:
                    wrong.append(values)
                seen.update(values)

        with Child("""
            import torch
            for value in range(1, 16):
                while input() != "go": pass
                shared = gpushare.torch.share_state_dict(
                    {f"p{i}": torch.tensor([float(value)]) for i in range(8)}, "g", replace=True)
                print(value)
            input()
        """, path=[FAKE]) as child:
            looker = threading.Thread(target=look)
            looker.start()
            for value in range(1, 16):
                child.say("go")
                self.assertEqual(child.hear(), str(value))
                shared.clear()
                self.until(lambda: wrong or value in seen, "each one is seen")
            stop.set()
            looker.join()
            child.say()
            child.end()
        self.assertEqual(wrong, [])
        self.until(lambda: not self.names(), "all gone")

    def test_kept_sets_that_are_replaced_are_never_mixed(self):
        """Each state dict replaces the one before, name by name. An attacher always gets exactly one of them."""
        writer = """
            import numpy, torch
            def state(value):
                many = 1 << 18
                made = {f"big{i}": torch.tensor(numpy.full(many, value)) for i in range(3)}
                made.update({f"small{i}": torch.tensor([float(value)] * 3) for i in range(4)})
                made.update({f"only{value % 3}": torch.tensor([float(value)])})
                made.update({f"only-big{value % 3}": torch.tensor(numpy.full(many, value))})
                return made
            value = 0
            while True:
                gpushare.torch.share_state_dict(state(value), "k", keep=True).close()
                value += 1
                print(value)
                if input() == "end": break
        """
        seen, rounds = [], 12
        with Child(writer, path=[FAKE]) as child:
            child.hear()
            done, wrong = threading.Event(), []

            def look():
                try:
                    while not done.is_set():
                        found = attach("k", wait=20)
                        values = {(int(t.array.min()), int(t.array.max())) for t in found.values()}
                        ((low, high),) = values
                        self.assertEqual(low, high)
                        self.assertEqual(sorted(k for k in found if k.startswith("only")),
                                         [f"only-big{low % 3}", f"only{low % 3}"])
                        seen.append(low)
                except BaseException as error:  # to the thread that judges
                    wrong.append(error)

            looker = threading.Thread(target=look)
            looker.start()
            for value in range(1, rounds):
                child.say()
                self.assertEqual(child.hear(), str(value + 1))
                # the looker goes on looking while the next one is made
                self.until(lambda: wrong or (seen and seen[-1] == value), "each one is seen")
            done.set()
            looker.join()
            child.say("end")
            self.assertEqual(child.end()[0], 0)
        self.assertEqual(wrong, [])
        self.assertEqual(seen, sorted(seen))
        last = (rounds - 1) % 3
        self.assertEqual(self.names(), ["k", *(f"k/big{i}" for i in range(3)), f"k/only-big{last}", f"k/only{last}",
                                        *(f"k/small{i}" for i in range(4))])
        gpushare.torch.remove_state_dict("k")

    def test_a_replacing_that_breaks_off_is_told_and_mended(self):
        big = {key: torch.tensor(numpy.full(MANY, 1)) for key in "ab"}
        share(big, "k", keep=True).close()
        with Child("""
            import numpy, torch
            copy = torch.Tensor.copy_
            def copy_and_stop(*arguments):
                copy(*arguments)
                print("half")
                input()
            torch.Tensor.copy_ = copy_and_stop
            big = {key: torch.tensor(numpy.full(int(sys.argv[1]), 2)) for key in "ab"}
            gpushare.torch.share_state_dict(big, "k", keep=True)
        """, MANY, path=[FAKE]) as child:
            self.assertEqual(child.hear(), "half")
            with self.assertRaisesRegex(gpushare.OwnerGoneError, "'k' is incomplete: its list is not written"):
                attach("k")
            child.kill()
        self.until(lambda: not gpushare.stat("k").owner_alive)
        with self.assertRaisesRegex(gpushare.OwnerGoneError, "incomplete.*share it again"):
            attach("k")
        share({"b": torch.tensor(numpy.full(MANY, 3))}, "k", keep=True).close()
        self.assertEqual((self.names(), int(attach("k")["b"].array[7])), (["k", "k/b"], 3))
        gpushare.torch.remove_state_dict("k")

    def test_a_set_below_another_is_left_alone(self):
        odd = {"w" * 200: torch.tensor([1.0]), "v" * 300: torch.tensor(numpy.arange(MANY)), "x": torch.tensor([2.0])}
        lora = share({"w": torch.tensor([5.0])}, "llama/lora")
        mine = gpushare.alloc("llama/notes", 16)
        for replace in (True, False):
            shared = share(odd, "llama", replace=replace)
            self.assertEqual(len(self.names()), 4 + 3)
            gpushare.torch.remove_state_dict("llama")
            self.assertEqual(self.names(), ["llama/lora", "llama/lora/w", "llama/notes"])
            self.assertEqual(attach("llama/lora")["w"].array.tolist(), [5.0])
            shared.close()
        mine.close()
        lora.close()

    def test_a_list_that_is_being_written_is_none_so_far(self):
        with gpushare.alloc("w", 4096, tags={"kind": "state-dict"}) as begun:
            begun.write(b"\xff" * 4096)  # of whoever had the memory before
            with self.assertRaisesRegex(gpushare.OwnerGoneError, "incomplete: its list is not written"):
                attach("w")

    def test_a_gpu_without_room_for_both_gives_the_older_set_up(self):
        share({"a": torch.tensor([1.0])}, "k", keep=True).close()
        alloc, tries = gpushare.Session.alloc, []

        def full(session, name, *arguments, staged=False, **named):
            tries.append((staged, self.names()))
            if not staged:
                raise gpushare.NoMemoryError("full")
            return alloc(session, name, *arguments, staged=staged, **named)

        with unittest.mock.patch.object(gpushare.Session, "alloc", full):
            share({"b": torch.tensor([2.0])}, "k", keep=True).close()
        self.assertEqual(tries, [(False, ["k", "k/a"]), (True, [])])
        self.assertEqual((list(attach("k")), self.names()), (["b"], ["k", "k/b"]))
        gpushare.torch.remove_state_dict("k")


if __name__ == "__main__":
    unittest.main()
