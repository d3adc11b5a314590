# SPDX-License-Identifier: MIT
"""Notices of what happens to buffers."""
import ctypes
from typing import Any, Iterator, Optional

from . import _abi, _errors, _native
from ._info import Info, Record

_KINDS = {number: text for number, text in _abi.NOTICES.values()}


class Notice(Record):
    """struct gpushare_notice: one event of a buffer. `kind` is a word ("share", "publish", ...)."""

    kind: str
    pid: int
    serial: int
    unix_ns: int
    lost: int
    published: int
    rate: int
    info: Optional[Info]  # None: the notice is about no buffer

    def _convert(self, name: str, value: Any) -> Any:
        if name == "kind":
            return _KINDS.get(value, str(value))
        if name == "info":
            return Info(value) if value.name else None
        return super()._convert(name, value)


class Watch(_native.Closing):
    """An iterator of notices: for notice in session.watch("frames/*"). See gpushare_watch()."""

    _what = "watch"

    def __init__(self, session: Any, glob: Optional[str]):
        handle = _native.call_out("gpushare_watch", session.handle, None if glob is None else _native.text(glob))
        self._hold = _native.Hold(handle, "gpushare_watch_close")

    def next(self, timeout: Optional[float] = None) -> Optional[Notice]:
        """The next notice; None if none arrives within `timeout` seconds (None: wait without a limit)."""
        struct = _native.make(_abi.Notice)
        try:
            _native.in_slices(_native.milliseconds(timeout, (1 << 31) - 1), lambda turn: _native.call(
                "gpushare_watch_next", self.handle, turn, ctypes.byref(struct)))
        except _errors.CLASSES["TimedOutError"]:
            return None
        return Notice(struct)

    def fileno(self) -> int:
        """A file descriptor for select and asyncio. It is readable when next(0) may return a notice."""
        return int(_native.library().gpushare_watch_fd(self.handle))

    def __iter__(self) -> Iterator[Notice]:
        while self._hold is not None:
            notice = self.next()
            if notice is not None:
                yield notice
