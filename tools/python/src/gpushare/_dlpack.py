# SPDX-License-Identifier: MIT
"""DLPack capsules: make our own, whose tensors the library makes and frees; read those of other libraries.

Our capsules have no destructor. A destructor would be Python code: if an exception makes a consumer drop the capsule,
the destructor would run during that exception and lose it. Instead this module keeps a reference to each capsule until
the consumer has renamed the capsule, or nobody else refers to it. In the second case the module frees the tensor.
"""
import ctypes
import gc
import os
import sys
import threading
from typing import Any, List, NamedTuple, Optional, Tuple

from ._dtypes import DType, Shape, dtype_from_dlpack

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
READ_ONLY = 1
PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"  # global, because capsules keep pointers to these bytes


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Plain(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi))
_get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))
_lock = threading.Lock()
_pending: List[Tuple[Any, bytes]] = []
_pid = os.getpid()


def _quiet_count() -> int:
    """What getrefcount() says in sweep() if nobody else refers to a capsule. From Python 3.14 on it is 2, before 3."""
    pending = [(object(), b"")]
    capsule, _ = pending[0]
    return sys.getrefcount(capsule)


_QUIET = _quiet_count()


def _end(capsule: Any, name: bytes) -> None:
    address = _get(capsule, name)
    kind = _Versioned if name == VERSIONED else _Plain
    deleter = kind.from_address(address).deleter
    if deleter:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(address)


def sweep() -> None:
    """Forget capsules that were consumed. Free the tensors of capsules to which nobody else refers."""
    global _pid
    if not _pending or not _lock.acquire(blocking=False):
        return
    dropped = []
    try:
        if _pid != os.getpid():
            _pid = os.getpid()  # forked: the capsules belong to the parent
            _pending.clear()
        for index in range(len(_pending) - 1, -1, -1):
            capsule, name = _pending[index]
            if not _is_valid(capsule, name):
                del _pending[index]
            elif sys.getrefcount(capsule) <= _QUIET:
                del _pending[index]
                dropped.append((capsule, name))
            del capsule
    finally:
        _lock.release()
    for capsule, name in dropped:
        _end(capsule, name)


def _on_gc(phase: str, _: Any) -> None:
    if phase == "stop" and _pending:
        sweep()


gc.callbacks.append(_on_gc)


def capsule(address: int, versioned: bool) -> Any:
    """A new capsule for a tensor that gpushare_dlpack() made."""
    name = VERSIONED if versioned else PLAIN
    sweep()
    made = _new(address, name, None)
    with _lock:
        _pending.append((made, name))
    return made


class Foreign(NamedTuple):
    """Memory of another library's array. A reference to `keep` keeps the memory."""

    pointer: int
    shape: Shape
    strides: Optional[Tuple[int, ...]]  # in elements; None: compact
    dtype: Optional[DType]
    itemsize: int
    device_type: int
    device: int
    read_only: bool
    keep: Any


def read(made: Any) -> Foreign:
    """The tensor that a capsule describes. This doesn't consume the capsule; a reference to it keeps the memory."""
    if _is_valid(made, VERSIONED):
        versioned = _Versioned.from_address(_get(made, VERSIONED))
        if versioned.major != 1:
            raise BufferError(f"the DLPack tensor has version {versioned.major}.{versioned.minor}; only 1 is supported")
        tensor, read_only = versioned.tensor, bool(versioned.flags & READ_ONLY)
    elif _is_valid(made, PLAIN):
        tensor, read_only = _Plain.from_address(_get(made, PLAIN)).tensor, False
    else:
        raise BufferError(f"{made!r} is not a DLPack capsule, or was consumed")
    bits = tensor.bits * tensor.lanes
    return Foreign((tensor.data or 0) + tensor.byte_offset, tuple(tensor.shape[:tensor.ndim]),
                   tuple(tensor.strides[:tensor.ndim]) if tensor.strides else None,
                   dtype_from_dlpack(tensor.code, tensor.bits, tensor.lanes), (bits + 7) // 8,
                   tensor.device_type, tensor.device_id, read_only, made)
