# SPDX-License-Identifier: MIT
"""Order between processes: publish and acquire, named events. Where the library has them."""
import ctypes
from typing import Any, Optional

from . import _abi, _driver, _native

_FOREVER = (1 << 31) - 1


def _stream(stream: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(_driver.stream_handle(stream))


class Ordered:
    """What buffers have. Sequences are 1, 2, 3, ...; streams are numbers (CUstream) or those of torch,
    CuPy and Numba, None the legacy default stream. NotSupportedError where the library is older."""

    @property
    def handle(self) -> int:
        """The library's struct gpushare_buffer."""
        raise NotImplementedError

    def _number(self, name: str, *arguments: Any) -> int:
        out = ctypes.c_uint64()
        _native.call(name, self.handle, *arguments, ctypes.byref(out))
        return out.value

    def publish(self, stream: Any = None) -> int:
        """In stream order: what was written before is the next sequence, whose number this is."""
        return self._number("gpushare_publish", _stream(stream))

    def publish_host(self) -> int:
        """The same by the CPU, after this process's earlier publishes on streams."""
        return self._number("gpushare_publish_host")

    def acquire(self, stream: Any = None, at_least: int = 1) -> None:
        """The stream waits until a sequence of `at_least` or more is published."""
        _native.call("gpushare_acquire", self.handle, _stream(stream), at_least)

    def acquire_host(self, at_least: int = 1, timeout: Optional[float] = None) -> int:
        """This thread waits so; seconds, None: without an end. The sequence that is there."""
        return self._number("gpushare_acquire_host", at_least,
                            -1 if timeout is None else _native.milliseconds(timeout, _FOREVER))

    def release(self, stream: Any = None, sequence: int = 0) -> None:
        """In stream order: this process is done with everything up to `sequence`."""
        _native.call("gpushare_release", self.handle, _stream(stream), sequence)

    def release_host(self, sequence: int) -> None:
        """The same, by the CPU, now."""
        _native.call("gpushare_release_host", self.handle, sequence)

    def reclaim(self, stream: Any = None, sequence: int = 0) -> None:
        """The stream waits until all consumers that joined have released `sequence`."""
        _native.call("gpushare_reclaim", self.handle, _stream(stream), sequence)

    def reclaim_host(self, sequence: int, timeout: Optional[float] = None) -> None:
        """This thread waits so."""
        _native.call("gpushare_reclaim_host", self.handle, sequence,
                     -1 if timeout is None else _native.milliseconds(timeout, _FOREVER))

    def join(self) -> int:
        """Become a consumer whom producers wait for; the first sequence that they do so with."""
        return self._number("gpushare_join")

    def leave(self) -> None:
        """Be none any more."""
        _native.call("gpushare_leave", self.handle)

    @property
    def sequence(self) -> int:
        """What was published last; 0: nothing yet."""
        return self._number("gpushare_sequence")

    @property
    def ordering(self) -> str:
        """What carries the order: "none" so far, "host", "host-functions" or "stream-memory-operations"."""
        kind = _native.function("gpushare_ordering")(self.handle)
        return _native.function("gpushare_ordering_text")(kind).decode()

    def order_status(self) -> None:
        """OwnerGoneError where nothing more will be published, and streams that waited were let through."""
        _native.call("gpushare_order_status", self.handle)


class Event:
    """A CUDA event with a name. Made by Session.event_create() and event_open()."""

    def __init__(self, handle: int, name: str, keep: Any):
        self.name = name
        self._hold: Optional[_native.Hold] = _native.Hold(handle, "gpushare_event_close", (keep,))

    @property
    def handle(self) -> int:
        """The library's struct gpushare_event."""
        if self._hold is None:
            raise ValueError(f"the event '{self.name}' is closed")
        return self._hold.handle

    def record(self, stream: Any = None) -> None:
        """What the stream has to do by now is what the event stands for."""
        _native.call("gpushare_event_record", self.handle, _stream(stream))

    def wait(self, stream: Any = None) -> None:
        """The stream waits for what was recorded last."""
        _native.call("gpushare_event_wait", self.handle, _stream(stream))

    def query(self) -> bool:
        """Has that been done?"""
        code = _native.function("gpushare_event_query")(self.handle)
        if code == _abi.STATUSES.get("E_NOT_READY", (None,))[0]:
            return False
        _native.check(code)
        return True

    def wait_host(self, timeout: Optional[float] = None) -> None:
        """This thread waits for it; seconds, None: without an end."""
        _native.call("gpushare_event_wait_host", self.handle,
                     -1 if timeout is None else _native.milliseconds(timeout, _FOREVER))

    def close(self) -> None:
        """Give it back."""
        self._hold = None

    def __enter__(self) -> "Event":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
