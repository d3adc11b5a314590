# SPDX-License-Identifier: MIT
"""Find the memory of other libraries' device arrays, by DLPack or the CUDA array interface."""
from typing import Any

from . import _dlpack
from ._dtypes import DTYPES, count, dtype_of, strides_are_compact


def _by_dlpack(array: Any) -> _dlpack.Foreign:
    device_type = int(array.__dlpack_device__()[0])
    if device_type not in (_dlpack.CUDA, _dlpack.CUDA_MANAGED):
        raise ValueError(
            f"the {_kind(array)} is on DLPack's device type {device_type}, not in a GPU's memory: move it to a GPU, "
            f"or copy it into a buffer of gpushare.alloc() (unified=True: memory for CPU and GPU)")
    if getattr(array, "requires_grad", False):
        array = array.detach()
    if device_type == _dlpack.CUDA:
        try:
            return _dlpack.read(array.__dlpack__(stream=-1))
        except (TypeError, RuntimeError):  # some libraries accept no stream; JAX takes -1 for a stream's handle
            pass
    return _dlpack.read(array.__dlpack__())


def _by_interface(array: Any) -> _dlpack.Foreign:
    told = array.__cuda_array_interface__
    if told.get("mask") is not None:
        raise ValueError(f"the {_kind(array)} has a mask, which buffers can't have")
    try:
        dtype = dtype_of(told["typestr"])
    except ValueError:
        dtype = None
    itemsize = dtype.itemsize if dtype else int("".join(c for c in told["typestr"] if c.isdigit()) or 1)
    strides = told.get("strides")
    if strides is not None:
        if any(s % itemsize for s in strides):
            strides = tuple(s / itemsize for s in strides)
        else:
            strides = tuple(s // itemsize for s in strides)
    pointer, read_only = told["data"]
    return _dlpack.Foreign(int(pointer or 0), tuple(told["shape"]), strides, dtype, itemsize, _dlpack.CUDA, -1,
                           bool(read_only), array)


def _kind(array: Any) -> str:
    kind = type(array)
    return f"{kind.__module__}.{kind.__qualname__}"


def locate(array: Any) -> _dlpack.Foreign:
    """A device array's memory. Raises ValueError or TypeError if the array can't be shared."""
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        found = _by_dlpack(array)
    elif hasattr(array, "__cuda_array_interface__"):
        found = _by_interface(array)
    else:
        raise TypeError(f"a {_kind(array)} has neither __dlpack__ nor __cuda_array_interface__: gpushare.share() "
                        f"takes device arrays, of PyTorch, CuPy, JAX, Numba and others")
    if not strides_are_compact(found.shape, found.strides):
        raise ValueError(f"the {_kind(array)} is not contiguous: shape {found.shape}, strides {found.strides} in "
                         f"elements; share a contiguous copy (.contiguous(), ascontiguousarray())")
    if not count(found.shape):
        raise ValueError(f"the {_kind(array)} has no elements: its shape is {found.shape}")
    if "bool" in str(getattr(array, "dtype", "")) and found.itemsize == 1:
        found = found._replace(dtype=DTYPES["bool"])  # older libraries export bool as uint8
    return found
