# SPDX-License-Identifier: MIT
"""Records of the registry as Python objects: a buffer, a process that holds one, the registry's load."""
import ctypes
import time
import uuid
from typing import Any, Dict, Tuple

from . import _abi

_BACKINGS = {number: text for number, text in _abi.BACKINGS.values()}
_TAGS_AFTER_NS = 50_000_000
_STATES = {number: text for number, text in _abi.STATES.values()}


def _rows(array: Any) -> Dict[str, Any]:
    """An array of small structs as a dict, keyed by each struct's first field, up to the first empty key."""
    rows: Dict[str, Any] = {}
    for struct in array:
        (key, *_), *more = struct._fields_
        name = getattr(struct, key).decode("utf-8", "replace")
        if not name:
            break
        values = [getattr(struct, field) for field, *_ in more]
        values = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values]
        rows[name] = values[0] if len(values) == 1 else tuple(values)
    return rows


class Record:
    """The fields of a library struct as attributes of the same names: numbers, words, truth values."""

    _TRUTHS: Tuple[str, ...] = ()
    _OMITTED: Tuple[str, ...] = ()

    def __init__(self, struct: ctypes.Structure):
        for name, *_ in struct._fields_:
            if name not in self._OMITTED:
                setattr(self, name, self._convert(name, getattr(struct, name)))

    def _convert(self, name: str, value: Any) -> Any:
        if name in self._TRUTHS:
            return bool(value)
        if isinstance(value, ctypes.Array):
            return _rows(value)
        if isinstance(value, _abi.Info):
            return Info(value)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def as_dict(self) -> Dict[str, Any]:
        """All fields as a dict, for example for json."""
        return dict(self.__dict__)

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({said})"


class Info(Record, _abi.InfoRecord):
    """struct gpushare_info: a buffer; sizes and offsets in bytes, times in seconds or nanoseconds.

    `device_uuid` is a text as in nvidia-smi; `backing` is "ipc", "vmm" or "host", and "event" for a named event;
    `flags` are words: "keep", "readonly", ...
    """

    _TRUTHS = ("owner_alive", "deferred", "missing", "isolated")
    _OMITTED = ("tag_count",)

    @property
    def is_new(self) -> bool:
        """True if the buffer is so new that it may have no tags yet: a name that was never staged gets them later."""
        return abs(time.time_ns() - self.created_unix_ns) < _TAGS_AFTER_NS

    def _convert(self, name: str, value: Any) -> Any:
        if name == "device_uuid":
            return f"GPU-{uuid.UUID(bytes=bytes(value))}"
        if name == "backing":
            return _BACKINGS.get(value, str(value))
        if name == "flags":
            return tuple(text for bit, text in _abi.FLAGS.values() if value & bit)
        return super()._convert(name, value)


class Holder(Record, _abi.HolderRecord):
    """struct gpushare_holder: a process that has a buffer attached."""

    _TRUTHS = ("own",)


class RegistryInfo(Record, _abi.RegistryInfoRecord):
    """struct gpushare_registry_info: the load of a registry. The by_* counts are (number, bytes) by kind."""


def state_text(number: int) -> str:
    """The word for a value of enum gpushare_state."""
    return _STATES.get(number, str(number))
