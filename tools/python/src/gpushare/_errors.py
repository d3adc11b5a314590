# SPDX-License-Identifier: MIT
"""An exception for each status of the library; the text is the library's own sentence."""
from typing import Any, Dict, Tuple, Type

try:
    from ._abi import STATUSES
except ModuleNotFoundError as error:
    raise ImportError("gpushare/_abi.py is missing: to create it, run make in the source tree") from error


class GpushareError(Exception):
    """A call of the library failed. `status` is its name ("E_NOT_FOUND"), `code` its number."""

    status: str = ""
    code: int = 0


# Further base classes of the exceptions, so that for example `except TimeoutError` works.
_ALSO: Dict[str, Tuple[type, ...]] = {
    "E_INVALID": (ValueError,), "E_NAME": (ValueError,), "E_NOT_FOUND": (LookupError,),
    "E_DENIED": (PermissionError,), "E_TIMED_OUT": (TimeoutError,), "E_RANGE": (IndexError,),
    "E_NO_REGISTRY": (ConnectionError,), "E_NO_MEMORY": (MemoryError,), "E_READ_ONLY": (TypeError,),
}
_NAMED = {"E_NAME": "BadNameError", "E_IO": "ReadWriteError"}


def _class_name(status: str) -> str:
    return _NAMED.get(status) or "".join(w.capitalize() for w in status[2:].split("_")) + "Error"


BY_CODE: Dict[int, Type[GpushareError]] = {}
for _status, (_code, _text) in STATUSES.items():
    if _code < 0:
        BY_CODE[_code] = type(_class_name(_status), (GpushareError, *_ALSO.get(_status, ())), {
            "__doc__": _text + ".", "__module__": "gpushare", "status": _status, "code": _code})
CLASSES = {kind.__name__: kind for kind in BY_CODE.values()}


def __getattr__(name: str) -> Any:
    """The exception class of that name: `NotFoundError` and the others."""
    try:
        return CLASSES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def of(status: str, sentence: str) -> GpushareError:
    """The exception of the status of that name, for errors that this package itself detects."""
    return BY_CODE[STATUSES[status][0]](sentence)


# C names in the library's advice, and their Python forms.
_WORDS = {"GPUSHARE_FLAG_VMM": "gpushare.alloc(..., vmm=True)", "gpushare_mirror_open()": "mirror()"}


def from_code(code: int, sentence: str) -> GpushareError:
    """The exception for a status number; for a number that this package does not know, a plain GpushareError."""
    for theirs, ours in _WORDS.items():
        sentence = sentence.replace(theirs, ours)
    kind = BY_CODE.get(code)
    if kind:
        return kind(sentence)
    error = GpushareError(f"{sentence} (status {code})")
    error.code = code
    return error


class LibraryError(GpushareError, ImportError):
    """libgpushare.so.0 was not found, or is not the gpushare library."""
