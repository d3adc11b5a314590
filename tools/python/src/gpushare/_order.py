# SPDX-License-Identifier: MIT
"""Order between processes: publish and acquire, named events."""
import ctypes
from typing import Any, Optional

from . import _abi, _driver, _native

_WAIT_MOST = (1 << 31) - 1


def _stream(stream: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(_driver.stream_handle(stream))


class Ordered:
    """The ordering methods of buffers. They raise NotSupportedError if the library is too old for them.

    Publications are numbered 1, 2, 3, ...: their sequences. A stream is a number (CUstream) or a stream of torch, CuPy
    or Numba; None is the legacy default stream.
    """

    @property
    def handle(self) -> int:
        """The library's struct gpushare_buffer."""
        raise NotImplementedError

    def _number(self, name: str, *arguments: Any) -> int:
        out = ctypes.c_uint64()
        _native.call(name, self.handle, *arguments, ctypes.byref(out))
        return out.value

    def publish(self, stream: Any = None) -> int:
        """Publish the buffer, in stream order, as the next sequence. Returns the sequence.

        In a stream that is being captured, and after the first such call, it returns 0: each publication takes its
        sequence when the stream or the graph reaches it.
        """
        return self._number("gpushare_publish", _stream(stream))

    def publish_host(self) -> int:
        """Publish from the CPU, after this process's earlier publishes on streams. Returns the sequence."""
        return self._number("gpushare_publish_host")

    def acquire(self, stream: Any = None, at_least: int = 1) -> None:
        """Make the stream wait until a sequence of `at_least` or more is published.

        This makes the process a consumer, as join() does, unless attach() was called with passive=True.
        """
        _native.call("gpushare_acquire", self.handle, _stream(stream), at_least)

    def acquire_host(self, at_least: int = 1, timeout: Optional[float] = None) -> int:
        """Make this thread wait until a sequence of `at_least` or more is published. Returns the current sequence.

        This makes the process a consumer, as acquire() does. `timeout`: seconds; None waits without a limit.
        """
        return _native.in_slices(_native.milliseconds(timeout, _WAIT_MOST),
                                 lambda turn: self._number("gpushare_acquire_host", at_least, turn))

    def release(self, stream: Any = None, sequence: int = 0) -> None:
        """In stream order, say that this process is done with everything up to `sequence`."""
        _native.call("gpushare_release", self.handle, _stream(stream), sequence)

    def release_host(self, sequence: int) -> None:
        """Say from the CPU, now, that this process is done with everything up to `sequence`."""
        _native.call("gpushare_release_host", self.handle, sequence)

    def reclaim(self, stream: Any = None, sequence: int = 0) -> None:
        """Make the stream wait until all consumers that joined have released `sequence`."""
        _native.call("gpushare_reclaim", self.handle, _stream(stream), sequence)

    def reclaim_host(self, sequence: int, timeout: Optional[float] = None) -> None:
        """Make this thread wait until all consumers that joined have released `sequence`.

        `timeout`: seconds; None waits without a limit.
        """
        _native.in_slices(_native.milliseconds(timeout, _WAIT_MOST),
                          lambda turn: _native.call("gpushare_reclaim_host", self.handle, sequence, turn))

    def join(self) -> int:
        """Become a consumer for which producers wait. Returns the first sequence for which they wait."""
        return self._number("gpushare_join")

    def leave(self) -> None:
        """Stop being a consumer for which producers wait."""
        _native.call("gpushare_leave", self.handle)

    @property
    def sequence(self) -> int:
        """The last published sequence; 0 if nothing was published."""
        return self._number("gpushare_sequence")

    @property
    def ordering(self) -> str:
        """How the order is kept: "none" before first use, "host", "host-functions" or "stream-memory-operations"."""
        kind = _native.function("gpushare_ordering")(self.handle)
        return str(_native.function("gpushare_ordering_text")(kind).decode())

    def order_status(self) -> None:
        """Raise OwnerGoneError if nothing more will be published. Streams that waited for more then continue."""
        _native.call("gpushare_order_status", self.handle)


class Event(_native.Closing):
    """A CUDA event with a name, made by Session.event_create() or event_open()."""

    def __init__(self, handle: int, name: str, keep: Any):
        self.name, self._what = name, f"event '{name}'"
        self._hold = _native.Hold(handle, "gpushare_event_close", (keep,))

    def record(self, stream: Any = None) -> None:
        """Record the event: it now stands for the work that is queued on the stream."""
        _native.call("gpushare_event_record", self.handle, _stream(stream))

    def wait(self, stream: Any = None) -> None:
        """Make the stream wait for the latest recorded work."""
        _native.call("gpushare_event_wait", self.handle, _stream(stream))

    def query(self) -> bool:
        """True if the latest recorded work is done."""
        code = _native.function("gpushare_event_query")(self.handle)
        if code == _abi.STATUSES["E_NOT_READY"][0]:
            return False
        _native.check(code)
        return True

    def wait_host(self, timeout: Optional[float] = None) -> None:
        """Make this thread wait for the latest recorded work.

        `timeout`: seconds; None waits without a limit.
        """
        _native.in_slices(_native.milliseconds(timeout, _WAIT_MOST),
                          lambda turn: _native.call("gpushare_event_wait_host", self.handle, turn))
