# SPDX-License-Identifier: MIT
"""A state dict of 293 tensors: GPU memory, time to share and to attach; a .safetensors file beside a plain read.

state_dict.py PACKAGE...   each PACKAGE is a folder with a version of the Python package; they take turns. Prints
                           the best of GPUSHARE_BENCH_ROUNDS (5): GPU memory by bytes of the tensors; ms for alloc and
                           copy, share, the difference, attach; MB/s of the file read, read and copied, loaded.
The environment is that of the tests: build/sim in LD_LIBRARY_PATH for the simulated driver, whose tensors are those of
tests/python/fake. With GPUSHARE_BENCH_WITH=torch they are PyTorch's.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = int(os.environ.get("GPUSHARE_BENCH_ROUNDS", 5))
RATES = ("read", "and copied", "load")


def shapes():
    """Of a small model: 32 layers of 7 matrices and 2 norms, and five tensors around them; float32."""
    found = {"embed": (1024, 4096), "head": (1024, 4096), "norm": (4096,), "rope.a": (64,), "rope.b": (64,)}
    for layer in range(32):
        found.update({f"layers.{layer}.{what}_proj.weight": (288, 1024) for what in "qkvogud"})
        found.update({f"layers.{layer}.norm_{what}.weight": (4096,) for what in "ab"})
    return found


def ms(since):
    return (time.perf_counter() - since) * 1e3


def used(gpushare):
    import ctypes
    from gpushare import _driver
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with _driver._Current(0):
        _driver._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return total.value - free.value


def attach(name):
    import gpushare
    gpushare.torch
    if os.environ.get("GPUSHARE_BENCH_WITH") == "torch":
        import torch
        torch.zeros(1, device="cuda")
    with gpushare.alloc("here", 1 << 21, vmm=True):  # CUDA is there
        began = time.perf_counter()
        found = gpushare.torch.attach_state_dict(name)
        print(ms(began))
        found.close()


def forget(path):
    """Drop a file from the page cache."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def share(file):
    """Print what sharing took beside a copy into one buffer, and, if the package can, what loading a file took."""
    import gpushare
    import numpy
    import torch
    from gpushare import _driver
    states = {key: torch.tensor(numpy.ones(shape)) for key, shape in shapes().items()}
    size = sum(value.numel() * value.element_size() for value in states.values())
    said = {}
    for _ in range(2):
        began, at = time.perf_counter(), 0
        with gpushare.alloc("copy", size, vmm=True) as copy:
            raw = gpushare.torch.tensor(copy.view("uint8"))
            for value in states.values():
                end = at + value.numel() * value.element_size()
                raw[at:end].view(value.dtype).view(value.shape).copy_(value)
                at = end
            _driver.settle(copy.device)
            said["copy"] = ms(began)
            del raw
    for _ in range(2):
        before = used(gpushare)
        began = time.perf_counter()
        shared = gpushare.torch.share_state_dict(states, "llama")
        said["share"] = ms(began)
        said["bytes"] = (used(gpushare) - before) / size
        said["attach"] = float(child(["attach", "llama"]))
        shared.close()
        del shared
    if hasattr(gpushare.torch, "load_safetensors"):
        for _ in range(2):  # both from the disk, into memory that is new
            forget(file)
            began = time.perf_counter()
            with open(file, "rb", buffering=0) as plain:
                data = plain.read()
            said["read"] = len(data) / ms(began) / 1e3
            with gpushare.alloc("read", len(data), vmm=True) as buffer:
                buffer.write(data)
                said["and copied"] = len(data) / ms(began) / 1e3
            del data
            forget(file)
            began = time.perf_counter()
            loaded = gpushare.torch.load_safetensors(file, "file")
            said["load"] = os.path.getsize(file) / ms(began) / 1e3
            loaded.close()
            del loaded
    print(json.dumps(said))


def child(arguments, package=None):
    path = [package, *([] if "torch" in os.environ.get("GPUSHARE_BENCH_WITH", "") else [
        str(HERE.parent / "python" / "fake")])] if package else [os.environ["PYTHONPATH"]]
    return subprocess.run([sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(path)}).stdout


def write_file(path):
    head, end = {}, 0
    for key, shape in shapes().items():
        count = 4
        for n in shape:
            count *= n
        head[key] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + count]}
        end += count
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(end >> 12):
            file.write(b"\x01" * 4096)
        file.write(bytes(end & 4095))


def best(rows, key):
    """The rate or time that other programs on the machine disturbed least."""
    return (max if key in RATES else min)(row[key] for row in rows)


def main(packages):
    said = {package: [] for package in packages}
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "model.safetensors")
        write_file(file)
        for _ in range(ROUNDS):
            for package in packages:
                said[package].append(json.loads(child(["share", file], package)))
    for package, rows in said.items():
        found = {key: best(rows, key) for key in rows[0]}
        print(f"| {package} | {found['bytes']:.3f} | {found['copy']:.0f} | {found['share']:.0f} | {found['share'] - found['copy']:.0f} "
              f"| {found['attach']:.1f} |")
        if "load" in found:
            print(f"| MB/s | {found['read']:.0f} | {found['and copied']:.0f} | {found['load']:.0f} |")


if __name__ == "__main__":
    {"attach": attach, "share": share}.get(sys.argv[1], lambda *_: main(sys.argv[1:]))(*sys.argv[2:3])
