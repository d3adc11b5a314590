# SPDX-License-Identifier: MIT
"""libgpushare.so.0, found and loaded at the first call, and what its calls and handles need."""
import atexit
import ctypes
import glob
import os
import sys
import threading
from typing import Any, List, Optional, Tuple, Type, TypeVar

from . import _abi, _errors

SONAME = "libgpushare.so.0"
SPARE = 4096  # behind each struct: a newer library may know of more fields
_library: Optional[ctypes.CDLL] = None
_lock = threading.Lock()
_exiting = False


@atexit.register
def _at_exit() -> None:
    """Stop releasing handles one by one: the process's end releases them all."""
    global _exiting
    _exiting = True


def _candidates() -> List[str]:
    """Paths to try: the loader's own search first, then the places of `make install` and a wheel's prefix."""
    told = os.environ.get("GPUSHARE_LIBRARY")
    if told:
        return [told]
    found = [SONAME]
    for prefix in dict.fromkeys((sys.prefix, "/usr/local", "/usr")):
        found += [os.path.join(prefix, "lib", SONAME), os.path.join(prefix, "lib64", SONAME)]
        found += glob.glob(os.path.join(glob.escape(prefix), "lib", "*-linux-gnu", SONAME))
    return found


def _bind(library: ctypes.CDLL) -> None:
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is not None:
            function.restype = result
            function.argtypes = arguments


def _load() -> ctypes.CDLL:
    why = ""
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            why = why or str(error)
            continue
        if not hasattr(library, "gpushare_version"):
            raise _errors.LibraryError(f"{path} is no gpushare library: it has no gpushare_version()")
        _bind(library)
        return library
    raise _errors.LibraryError(
        f"{SONAME} can't be loaded: {why}; install gpushare, or set GPUSHARE_LIBRARY to the file")


def library() -> ctypes.CDLL:
    """The loaded library, with the types of its calls set."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _load()
    return _library


def has(*names: str) -> bool:
    """True if the library has these calls and this package knows them."""
    return all(name in _abi.FUNCTIONS and hasattr(library(), name) for name in names)


def function(name: str) -> Any:
    """The library's call of that name; NotSupportedError if it has none."""
    if not has(name):
        raise _errors.of("E_NOT_SUPPORTED", f"this {SONAME} ({version()}) has no {name}()")
    return getattr(library(), name)


def explain() -> str:
    """The library's message for this thread's last failure."""
    return str(library().gpushare_explain().decode("utf-8", "replace"))


def check(code: int) -> None:
    """Raise the exception of a negative status."""
    if code < 0:
        sentence = explain()
        if not sentence:
            sentence = library().gpushare_status_text(code).decode()
        raise _errors.from_code(code, sentence)


def call(name: str, *arguments: Any) -> None:
    """Make a call that returns a status, and check the status."""
    check(function(name)(*arguments))


def call_out(name: str, *arguments: Any) -> int:
    """Like call(), for a call whose last argument receives a handle. Returns the handle."""
    out = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(out))
    return out.value or 0


def version() -> str:
    """The version of the loaded library."""
    return str(library().gpushare_version().decode())


S = TypeVar("S", bound=ctypes.Structure)


def make(kind: Type[S], **values: Any) -> S:
    """A zeroed struct with these values set, and SPARE bytes behind it."""
    block = (ctypes.c_char * (ctypes.sizeof(kind) + SPARE))()
    struct = kind.from_buffer(block)
    for name, value in values.items():
        setattr(struct, name, value)
    return struct


def text(value: Any) -> bytes:
    """A name or a pattern as bytes for the library, which itself refuses most invalid names, with a message."""
    if isinstance(value, bytes):
        data = value
    elif isinstance(value, str):
        data = value.encode("utf-8", "surrogateescape")
    else:
        raise TypeError(f"a name is a str, not {type(value).__name__}")
    if b"\0" in data:
        raise _errors.of("E_NAME", f"{value!r} holds a NUL, and no name does")
    return data


def milliseconds(seconds: Optional[float], most: int) -> int:
    """Milliseconds for a time in seconds; None, without a limit, gives -1."""
    if seconds is None:
        return -1
    if not 0 <= seconds < 1 << 31:
        raise ValueError(f"a time of {seconds} seconds")
    return min(int(seconds * 1000 + 0.999), most)


_later: List[Tuple[Any, str, int, Tuple[Any, ...]]] = []  # what a capture forbade to wait for


def _give(before: Any, end: str, handle: int, keep: Tuple[Any, ...]) -> int:
    if before is not None and before() is False:
        _later.append((before, end, handle, keep))
        return 0
    return getattr(library(), end)(handle) or 0


class Hold:
    """A handle of the library, released once: when the last reference to the Hold ends."""

    __slots__ = ("handle", "_end", "keep", "_pid", "before", "__weakref__")

    def __init__(self, handle: int, end: str, keep: Tuple[Any, ...] = ()):
        self.handle = handle
        self._end = end
        self.keep = keep  # what must be there as long; goes afterwards
        self._pid = os.getpid()
        self.before: Any = None  # called first, to wait; False: that can't be now

    @property
    def is_attachment(self) -> bool:
        """True for an attachment: of another process's buffer, or of this process's own by its name."""
        return self._end == "gpushare_detach"

    def give_back(self) -> int:
        """Release the handle now, even if others refer to it. Returns the status."""
        if not self.handle or _exiting or self._pid != os.getpid():
            return 0
        handle, self.handle = self.handle, 0
        keep, self.keep = self.keep, ()
        retry, _later[:] = _later[:], []
        for waiting in retry:
            _give(*waiting)
        return _give(self.before, self._end, handle, keep)

    def __del__(self) -> None:
        self.give_back()


class Closing:
    """The base of what has a handle of the library until it is closed."""

    _hold: Optional[Hold]
    _what = "object"

    def _open(self) -> Hold:
        if self._hold is None:
            raise ValueError(f"the {self._what} is closed; open another")
        return self._hold

    @property
    def handle(self) -> int:
        """The library's own handle, for library calls that this package does not wrap."""
        return self._open().handle

    @property
    def closed(self) -> bool:
        """True after close() or after the with block."""
        return self._hold is None

    def close(self) -> None:
        """Release it; what was made of it stays valid."""
        self._hold = None

    def __enter__(self: "C") -> "C":
        self._open()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


C = TypeVar("C", bound=Closing)
