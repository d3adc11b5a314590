# SPDX-License-Identifier: MIT
"""The few CUDA driver calls that are needed to wait for GPU work. libgpushare has loaded the driver before."""
import ctypes
import os
import threading
from typing import Any, Dict, Optional, Tuple

_CAPTURE_UNSUPPORTED = 900  # CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
_CAPTURE_IMPLICIT = 906  # CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: the legacy stream, while another is captured
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
LEGACY, PER_THREAD = 1, 2  # CU_STREAM_LEGACY, CU_STREAM_PER_THREAD; DLPack has the same numbers
_lock = threading.Lock()
_driver: Any = None
_contexts: Dict[Tuple[int, int], ctypes.c_void_p] = {}


def _open() -> Any:
    global _driver
    if _driver is None:
        _driver = ctypes.CDLL("libcuda.so.1")
    return _driver


def _call(name: str, *arguments: Any) -> int:
    function = getattr(_open(), name, None)
    return int(function(*arguments)) if function is not None else -1


def _context(device: int) -> Optional[ctypes.c_void_p]:
    """The device's primary context, which frameworks use too. It is retained once per process."""
    key = os.getpid(), device
    with _lock:
        if key not in _contexts:
            number, context = ctypes.c_int(), ctypes.c_void_p()
            if _call("cuInit", 0) or _call("cuDeviceGet", ctypes.byref(number), device):
                return None
            if _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number):
                return None
            _contexts[key] = context
        return _contexts[key]


class _Current:
    """Context manager: makes a device's primary context current, and at the end restores the previous one."""

    def __init__(self, device: int):
        self.context = _context(device)
        self.entered = False

    def __enter__(self) -> bool:
        self.entered = bool(self.context) and not _call("cuCtxPushCurrent_v2", self.context)
        self.mode = ctypes.c_int(_RELAXED)
        if self.entered:
            _call("cuThreadExchangeStreamCaptureMode", ctypes.byref(self.mode))
        return self.entered

    def __exit__(self, *_: Any) -> None:
        if self.entered:
            _call("cuThreadExchangeStreamCaptureMode", ctypes.byref(self.mode))
            _call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def is_capturing(stream: int) -> bool:
    """True if the stream is being captured. Its work then runs later, so it can't be waited for."""
    status = ctypes.c_int()
    code = _call("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(status))
    return code == _CAPTURE_IMPLICIT or (code == 0 and bool(status.value))


def settle(device: int) -> bool:
    """Wait until this process's work on the GPU has ended. False if a stream capture forbids waiting."""
    if device < 0:
        return True
    with _Current(device) as entered:
        return not entered or _call("cuCtxSynchronize") != _CAPTURE_UNSUPPORTED


def order(device: int, before: int, after: int) -> None:
    """Make stream `after` wait for the work that is queued on stream `before`. If that fails, the CPU waits."""
    with _Current(device) as entered:
        if not entered:
            return
        event = ctypes.c_void_p()
        if (hasattr(_open(), "cuStreamWaitEvent")
                and not _call("cuEventCreate", ctypes.byref(event), _NO_TIMING)):
            failed = (_call("cuEventRecord", event, ctypes.c_void_p(before))
                      or _call("cuStreamWaitEvent", ctypes.c_void_p(after), event, 0))
            _call("cuEventDestroy_v2", event)
            if not failed:
                return
        if _call("cuStreamSynchronize", ctypes.c_void_p(before)):
            _call("cuCtxSynchronize")


def stream_handle(stream: Any) -> int:
    """The CUstream of a number, or of a stream of torch, CuPy or Numba. None means the legacy default stream."""
    if stream is None:
        return 0
    if hasattr(stream, "__cuda_stream__"):
        told = stream.__cuda_stream__() if callable(stream.__cuda_stream__) else stream.__cuda_stream__
        return int(told[1])
    for name in ("cuda_stream", "ptr", "handle"):
        value = getattr(stream, name, None)
        if value is not None:
            return int(getattr(value, "value", value) or 0)
    return int(stream)
