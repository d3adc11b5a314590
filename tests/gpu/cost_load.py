# SPDX-License-Identifier: MIT
"""The same bytes as a PyTorch tensor on the GPU, in a new process.

save FILE BYTES: write that many bytes of value 90 with torch.save. load FILE: read them with torch.load.
attach NAME LIBRARY: take them from the buffer of that name. The last two print the ms until PyTorch had a context,
the ms until the tensor was on the GPU, and the tensor's sum.
"""
import ctypes
import sys
import time

began = time.perf_counter()
from matrix_check import need, skip

torch = need("torch")


class Attached:
    """The C library's mapping of a buffer, described by the CUDA array interface."""

    def __init__(self, name, library):
        lib = ctypes.CDLL(library)
        lib.gpushare_explain.restype = ctypes.c_char_p
        lib.gpushare_pointer.restype = ctypes.c_uint64
        lib.gpushare_size.restype = ctypes.c_size_t
        session, buffer = ctypes.c_void_p(), ctypes.c_void_p()
        if (lib.gpushare_open(None, ctypes.byref(session))
                or lib.gpushare_attach(session, name.encode(), None, ctypes.byref(buffer))):
            sys.exit(lib.gpushare_explain().decode())
        self.__cuda_array_interface__ = {
            "shape": (lib.gpushare_size(buffer),), "typestr": "|u1", "version": 3,
            "data": (lib.gpushare_pointer(buffer), False)}


def get(how, *arguments):
    if how == "load":
        return torch.load(arguments[0], map_location="cuda", weights_only=True)
    return torch.as_tensor(Attached(*arguments), device="cuda")


if not torch.cuda.is_available():
    skip("PyTorch sees no GPU")
if sys.argv[1] == "save":
    torch.save(torch.full((int(sys.argv[3]),), 90, dtype=torch.uint8), sys.argv[2])
    sys.exit(0)
torch.zeros(1, device="cuda")
torch.cuda.synchronize()
ready = time.perf_counter()
tensor = get(*sys.argv[1:])
torch.cuda.synchronize()
there = time.perf_counter()
total = sum(int(piece.sum(dtype=torch.int64)) for piece in tensor.split(1 << 28))  # summing converts a whole piece
print(f"{(ready - began) * 1e3:.3f} {(there - ready) * 1e3:.3f} {total}")
