# SPDX-License-Identifier: MIT
"""The part of torch that gpushare.torch uses, made with numpy over the simulated GPU's memory, for machines without
PyTorch. The tests in tests/gpu use the real torch on a GPU, for what this one can't show."""
import ctypes

import numpy

from gpushare import _dlpack

from . import utils  # noqa: F401


class dtype:
    def __init__(self, name, kind, code):
        self.name, self.numpy, self.code = name, numpy.dtype(kind), code

    def __str__(self):
        return f"torch.{self.name}"


uint8, float32, int64 = dtype("uint8", "u1", (1, 8)), dtype("float32", "<f4", (2, 32)), dtype("int64", "<i8", (0, 64))
bfloat16 = dtype("bfloat16", "<u2", (4, 16))
quint4 = dtype("quint4", "u1", (1, 8))  # one that buffers have no name for
_DTYPES = (uint8, float32, int64, bfloat16, quint4)


class device:
    def __init__(self, type_, index):
        self.type, self.index = type_, index

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"


class Tensor:
    def __init__(self, array, dtype, where=None):
        self.array, self.dtype = array, dtype
        self.device = where or device("cpu", None)
        self.requires_grad = False

    shape = property(lambda self: self.array.shape)
    is_cuda = property(lambda self: self.device.type == "cuda")

    def _like(self, array, kind=None):
        return Tensor(array, kind or self.dtype, self.device)

    def detach(self):
        return self._like(self.array)

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.dtype.numpy.itemsize

    def data_ptr(self):
        return self.array.ctypes.data

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def __getitem__(self, at):
        return self._like(self.array[at])

    def view(self, what):
        if isinstance(what, dtype):
            return self._like(self.array.view(what.numpy), what)
        return self._like(self.array.reshape(what))

    def as_strided(self, shape, stride, offset):
        end = offset + (sum((n - 1) * s for n, s in zip(shape, stride)) + 1)
        assert 0 <= offset and end <= self.array.size
        return self._like(numpy.lib.stride_tricks.as_strided(
            self.array[offset:end], shape, [s * self.array.itemsize for s in stride]))

    def copy_(self, other):
        assert self.dtype is other.dtype
        self.array[...] = other.array

    def requires_grad_(self, on):
        self.requires_grad = on

    def t(self):
        return self._like(self.array.T)


class _Managed:
    """Frees a DLPack tensor when its last array has ended."""

    def __init__(self, capsule):
        name = _dlpack.PLAIN
        self.address = _dlpack._get(capsule, name)
        ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
            ("PyCapsule_SetName", ctypes.pythonapi))(capsule, USED)
        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_dlpack._Plain.from_address(self.address).deleter)

    def __del__(self):
        self.deleter(self.address)


USED = b"used_dltensor"


def from_capsule(capsule):
    told = _dlpack.read(capsule)
    keep = _Managed(capsule)
    kind = next(d for d in _DTYPES if d.code == (told.dtype.code, told.dtype.bits))
    size = kind.numpy.itemsize * int(numpy.prod(told.shape, dtype=int))
    block = (ctypes.c_ubyte * size).from_address(told.pointer)
    block.keep = keep  # as long as any array of it
    array = numpy.frombuffer(block, kind.numpy).reshape(told.shape)
    where = device("cuda", told.device) if told.device_type == _dlpack.CUDA else device("cpu", None)
    return Tensor(array, kind, where)


def tensor(values, dtype=float32):
    return Tensor(numpy.array(values, dtype.numpy), dtype)


def empty(shape, dtype=float32):
    return Tensor(numpy.empty(shape, dtype.numpy), dtype)


class cuda:
    class _Stream:
        cuda_stream = 0

    @staticmethod
    def current_stream(index=None):
        return cuda._Stream


class Module:
    """Parameters by name: the part of nn.Module that gpushare.torch uses."""

    def __init__(self, **states):
        self.states = states

    def state_dict(self):
        return dict(self.states)

    def parameters(self):
        return self.states.values()

    def load_state_dict(self, states, strict, assign):
        assert strict and assign
        if set(states) != set(self.states):
            raise RuntimeError("missing or unexpected keys")
        self.states = states
