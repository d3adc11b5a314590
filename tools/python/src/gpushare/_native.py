# SPDX-License-Identifier: MIT
"""Find and load libgpushare.so.0 at the first call; call its functions; own its handles."""
import atexit
import ctypes
import glob
import os
import sys
import threading
from typing import Any, Callable, List, Optional, Tuple, Type, TypeVar

from . import _abi, _errors

SONAME = "libgpushare.so.0"
SPARE = 4096  # zeros after each struct, because the structs of a newer library may be longer
_library: Optional[ctypes.CDLL] = None
_lock = threading.Lock()
_exiting = False


@atexit.register
def _at_exit() -> None:
    """From now on, don't release handles one by one: the end of the process releases them all."""
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
            raise _errors.LibraryError(f"{path} is not the gpushare library: it has no gpushare_version()")
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
    """The library's function of that name; NotSupportedError if the library lacks it."""
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


def call_visiting(name: str, body: Callable[..., Any], *arguments: Any) -> None:
    """Make a call whose last two arguments are a callback and its user data. Raises what body() raises.

    If a signal handler raises on entry to the callback, ctypes drops the exception, body() does not run, and the
    library gets a random answer. If that is 0, the library goes on: then only the caller can know that something is
    missing.
    """
    raised = []

    def visit(*told: Any) -> int:
        try:
            body(*told[:-1])
            return 0
        except BaseException as error:  # can't pass through C: stop the call, and raise it below
            raised.append(error)
            return 1

    visiting = function(name)
    code = visiting(*arguments, visiting.argtypes[-2](visit), None)
    if raised:
        raise raised.pop()
    if code == _abi.STATUSES["E_CANCELLED"][0]:
        raise KeyboardInterrupt(f"a signal interrupted {name}()")
    check(code)


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
    """A name or a pattern as bytes for the library. The library itself checks the name."""
    if isinstance(value, bytes):
        data = value
    elif isinstance(value, str):
        data = value.encode("utf-8", "surrogateescape")
    else:
        raise TypeError(f"a name is a str, not {type(value).__name__}")
    if b"\0" in data:
        raise _errors.of("E_NAME", f"{value!r} contains a NUL, which no name may contain")
    return data


def milliseconds(seconds: Optional[float], most: int) -> int:
    """Convert seconds to milliseconds, at most `most`. None, which means no limit, gives -1."""
    if seconds is None:
        return -1
    if not 0 <= seconds < 1 << 31:
        raise ValueError(f"a time of {seconds} seconds is not possible")
    return min(int(seconds * 1000 + 0.999), most)


T = TypeVar("T")


def in_slices(left: int, wait: Callable[[int], T], *also_early: Type[BaseException]) -> T:
    """Call wait(milliseconds), for at most a second at a time, so that Ctrl-C takes effect.

    `left`: milliseconds in all; -1: no limit. Waits again after TimedOutError and `also_early`; at the end raises them.
    """
    while True:
        turn = 1000 if left < 0 else min(left, 1000)
        left -= turn if left > 0 else 0
        try:
            return wait(turn)
        except (_errors.CLASSES["TimedOutError"], *also_early):
            if not left:
                raise


# Handles to release later: a stream capture forbade waiting for their GPU work.
_later: List[Tuple[Any, str, int, Tuple[Any, ...]]] = []


def _give(before: Any, end: str, handle: int, keep: Tuple[Any, ...]) -> int:
    if before is not None and before() is False:
        _later.append((before, end, handle, keep))
        return 0
    return getattr(library(), end)(handle) or 0


class Handle(int):
    """A handle as a number that refers to its Hold. While a call has it as an argument, close() does not release it."""

    hold: "Hold"


class Hold:
    """A handle of the library, released once: when the last reference to the Hold ends."""

    __slots__ = ("handle", "_end", "keep", "_pid", "before", "__weakref__")

    def __init__(self, handle: int, end: str, keep: Tuple[Any, ...] = ()):
        self.handle = handle
        self._end = end
        self.keep = keep  # objects that must outlive the handle
        self._pid = os.getpid()
        self.before: Any = None  # called before the release, to wait for GPU work; returns False if it can't wait now

    @property
    def is_attachment(self) -> bool:
        """True if the handle is an attachment, not an owned buffer."""
        return self._end == "gpushare_detach"

    def lend(self) -> Handle:
        """The handle, for a call."""
        handle = Handle(self.handle)
        handle.hold = self
        return handle

    def give_back(self) -> int:
        """Release the handle now, even if other objects refer to this Hold. Returns the status."""
        if not self.handle or _exiting or self._pid != os.getpid():
            return 0
        handle, self.handle = self.handle, 0
        keep, self.keep = self.keep, ()
        for _ in range(len(_later)):
            try:
                waiting = _later.pop(0)  # atomic: other threads, and the garbage collector in this one, run this too
            except IndexError:
                break
            _give(*waiting)
        return _give(self.before, self._end, handle, keep)

    def __del__(self) -> None:
        self.give_back()


class Closing:
    """Base class of objects that have a handle of the library until they are closed."""

    _hold: Optional[Hold]
    _what = "object"

    def _open(self) -> Hold:
        if self._hold is None:
            raise ValueError(f"the {self._what} is closed; open another")
        return self._hold

    @property
    def handle(self) -> int:
        """The library's own handle, for library calls that this package does not wrap. Keeps the object open."""
        return self._open().lend()

    @property
    def closed(self) -> bool:
        """True after close() or after the with block."""
        return self._hold is None

    def close(self) -> None:
        """Release the object. Objects that were made from it stay valid, and calls of other threads complete."""
        self._hold = None

    def __enter__(self: "C") -> "C":
        self._open()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


C = TypeVar("C", bound=Closing)
