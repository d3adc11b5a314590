# SPDX-License-Identifier: MIT
"""Buffers under one framework: attached, stored into, shared, released. The other process has no framework.

py_frameworks.py FRAMEWORK: torch, cupy, jax, numba or numpy. Exit code 77: the framework is not installed.
"""
import array
import gc
import importlib
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "python" / "src"))
import gpushare

COUNT = 1 << 20
checked = 0


def check(truth, what):
    global checked
    if not truth:
        sys.exit(f"not so: {what}")
    checked += 1


class Torch:
    def __init__(self):
        self.torch = importlib.import_module("torch")
        if not self.torch.cuda.is_available():
            raise ImportError("PyTorch sees no GPU")
        self.version = self.torch.__version__
        self.takes = [self.torch.from_dlpack, lambda b: self.torch.as_tensor(b, device="cuda"), gpushare.torch.tensor]

    def sum(self, values):
        return float(values.double().sum())

    def add(self, values, number):
        values += number
        self.torch.cuda.synchronize()

    def make(self):
        return self.torch.arange(COUNT, dtype=self.torch.float32, device="cuda").reshape(-1, 4) * 3

    def more(self):
        torch = self.torch
        grad = torch.ones(8, device="cuda", requires_grad=True)
        with gpushare.share("py/grad", grad) as shared:
            check(shared.dtype == "float32", "a tensor that needs gradients is shared")
        half = torch.full((5, 7), 1.5, dtype=torch.bfloat16, device="cuda")
        with gpushare.share("py/half", half) as shared:
            check((shared.dtype, shared.shape) == ("bfloat16", (5, 7)), "bfloat16 is told")
            check(bool((torch.from_dlpack(shared) == half).all()), "bfloat16 comes back")
        try:
            gpushare.share("py/turned", torch.zeros(4, 6, device="cuda").t())
            check(False, "what is not contiguous is refused")
        except ValueError as error:
            check("not contiguous" in str(error), "what is not contiguous is refused")
        self.streams()

    def streams(self):
        """One stream still writes; a consumer on another stream sees the result."""
        torch = self.torch
        for told in (False, True):
            with gpushare.alloc("py/late", (COUNT,), "float32") as buffer:
                writer, reader = torch.cuda.Stream(), torch.cuda.Stream()
                values = torch.from_dlpack(buffer)
                with torch.cuda.stream(writer):
                    values.zero_()
                    torch.cuda._sleep(200_000_000)  # a tenth of a second
                    values.fill_(7)
                if told:
                    buffer.written_on(writer)
                with torch.cuda.stream(reader):
                    seen = torch.from_dlpack(buffer).double().sum()
                reader.synchronize()
                check(float(seen) == 7 * COUNT, f"a stream's work is waited for ({'told' if told else 'not told'})")
                del values, seen


class Cupy:
    def __init__(self):
        self.cupy = importlib.import_module("cupy")
        self.cupy.cuda.Device(0).compute_capability
        self.version = self.cupy.__version__
        self.takes = [self.cupy.asarray, self.cupy.from_dlpack]

    def sum(self, values):
        return float(values.sum(dtype="float64"))

    def add(self, values, number):
        values += number
        self.cupy.cuda.Device().synchronize()

    def make(self):
        return self.cupy.arange(COUNT, dtype="float32").reshape(-1, 4) * 3

    def more(self):
        self.cupy.get_default_memory_pool().free_all_blocks()


class Jax:
    mutable = False

    def __init__(self):
        import os
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        self.jax = importlib.import_module("jax")
        if not any(d.platform == "gpu" for d in self.jax.devices()):
            raise ImportError("JAX sees no GPU")
        self.version = self.jax.__version__
        self.takes = [self.jax.dlpack.from_dlpack]

    def sum(self, values):
        return sum(values.reshape(-1, 1024).sum(axis=1).tolist())

    def add(self, values, number):
        raise NotImplementedError

    def make(self):
        made = self.jax.numpy.arange(COUNT, dtype="float32").reshape(-1, 4) * 3
        return made.block_until_ready()

    def more(self):
        self.jax.clear_caches()


class Numba:
    def __init__(self):
        numpy = importlib.import_module("numpy")
        if not hasattr(numpy, "row_stack"):  # numba-cuda 0.68 asks for what NumPy 2.4 no longer has
            numpy.row_stack = numpy.vstack
        self.numpy = numpy
        self.cuda = importlib.import_module("numba.cuda")
        if not self.cuda.is_available():
            raise ImportError("Numba sees no GPU")
        self.version = importlib.import_module("numba").__version__
        self.takes = [self.cuda.as_cuda_array]
        cuda = self.cuda

        @cuda.jit
        def add(values, number):
            at = cuda.grid(1)
            if at < values.size:
                values[at] += number
        self.kernel = add

    def sum(self, values):
        return float(values.copy_to_host().sum(dtype="float64"))

    def add(self, values, number):
        self.kernel[(COUNT + 255) // 256, 256](values.reshape(COUNT), self.numpy.float32(number))
        self.cuda.synchronize()

    def make(self):
        return self.cuda.to_device((self.numpy.arange(COUNT, dtype="float32") * 3).reshape(-1, 4))

    def more(self):
        pass


class Numpy:
    """The CPU, of unified memory, while the other process's copies go through the GPU."""

    def __init__(self):
        self.numpy = importlib.import_module("numpy")
        self.version = self.numpy.__version__
        self.takes = [self.numpy.asarray, lambda b: self.numpy.from_dlpack(b.cpu)]

    def sum(self, values):
        return float(values.sum(dtype="float64"))

    def add(self, values, number):
        if not values.flags.writeable:  # older ones take DLPack so
            values = self.numpy.asarray(gpushare.attach("py/in"))
        values += number

    def more(self):
        pass


FRAMEWORKS = {"torch": Torch, "cupy": Cupy, "jax": Jax, "numba": Numba, "numpy": Numpy}


def consume(name):
    """Runs in the process that has the framework."""
    try:
        it = FRAMEWORKS[name]()
    except Exception as error:  # whatever keeps it from working
        print(f"{type(error).__name__}: {error}")
        sys.exit(77)
    expected = COUNT * (COUNT - 1) / 2
    for take in it.takes:
        values = take(gpushare.attach("py/in"))
        check(tuple(values.shape) == (COUNT // 4, 4), "the shape is told")
        check(abs(it.sum(values) - expected) <= expected * 1e-6, "the bytes are the other process's")
        check(gpushare.stat("py/in").attachers == 1, "it is attached as long as it is used")
        if getattr(it, "mutable", True):
            it.add(values, 1)
            print("changed", flush=True)
            check(input() == "seen", "the other process sees the change")
            expected += COUNT
        del values
        end = time.monotonic() + 5  # some let go on a thread of their own
        while gc.collect() >= 0 and gpushare.stat("py/in").attachers and time.monotonic() < end:
            time.sleep(0.01)
        check(gpushare.stat("py/in").attachers == 0, "it is detached when the last array has gone")
    if hasattr(it, "make"):
        with gpushare.share("py/out", it.make()) as shared:
            check((shared.dtype, shared.shape) == ("float32", (COUNT // 4, 4)), "element type and shape are told")
            print("shared", flush=True)
            check(input() == "seen", "the other process finds what was shared")
    it.more()
    print(f"{it.version}: {checked} checks", flush=True)


def produce(name):
    """Runs in the process that has only gpushare."""
    values = array.array("f", range(COUNT))
    made = gpushare.alloc("py/in", (COUNT // 4, 4), "float32", unified=name == "numpy")
    made.write(values)
    child = subprocess.Popen([sys.executable, __file__, "consume", name], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    changes = 0
    try:
        for line in child.stdout:
            if line == "changed\n":
                changes += 1
                seen = array.array("f", bytes(made.read(0, 4096)))
                check(list(seen) == [v + changes for v in range(1024)], "the change of the other process is seen")
            elif line == "shared\n":
                with gpushare.attach("py/out") as out:
                    seen = array.array("f", bytes(out.read()))
                    check(seen[:1000].tolist() == [3.0 * v for v in range(1000)] and seen[-1] == 3.0 * (COUNT - 1),
                          "what was shared is found")
            else:
                print(line, end="")
                continue
            child.stdin.write("seen\n")
            child.stdin.flush()
    finally:
        child.stdin.close()
        code = child.wait()
        made.close()
    sys.exit(code)


if __name__ == "__main__":
    consume(sys.argv[2]) if sys.argv[1] == "consume" else produce(sys.argv[1])
