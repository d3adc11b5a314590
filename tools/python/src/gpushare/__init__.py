# SPDX-License-Identifier: MIT
"""gpushare: GPU buffers with names, across processes, without a copy.

    weights = gpushare.attach("weights")        # another process's buffer
    tensor = torch.from_dlpack(weights)         # or cupy.asarray, jax.dlpack, numba.cuda
    gpushare.share("activations", tensor)       # this process's tensor, under a name
    gpushare.alloc("frame", (480, 640), "float32", unified=True)

The package calls the installed libgpushare.so.0 through ctypes. The environment variable GPUSHARE_LIBRARY names
another file. A failed call raises an exception for its status, with the library's message.
"""
from typing import Any, List

from . import _errors
from ._array import Array
from ._buffer import Buffer
from ._errors import GpushareError, LibraryError
from ._host import Map, Mirror
from ._info import Holder, Info, RegistryInfo
from ._native import version as library_version
from ._order import Event
from ._pull import pull
from ._session import (Session, alloc, attach, attach_many, event_create, event_open, holders, list_ as list, ls,
                       registry, share, share_pointer, stat, tag, unlink, watch)
from ._watch import Notice, Watch

__version__ = "0.1.0"
__all__ = [
    "Array", "Buffer", "Event", "GpushareError", "Holder", "Info", "LibraryError", "Map", "Mirror", "Notice",
    "RegistryInfo", "Session", "Watch", "alloc", "attach", "attach_many", "event_create", "event_open",
    "holders", "library_version", "list", "ls", "pull", "registry", "share", "share_pointer", "stat", "tag", "unlink", "watch",
    *_errors.CLASSES,
]


def __getattr__(name: str) -> Any:
    """The exception class of a status, or gpushare.torch, which is imported at its first use."""
    if name == "torch":
        import importlib
        return importlib.import_module(".torch", __name__)
    if name in _errors.CLASSES:
        return _errors.CLASSES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted([*globals(), *_errors.CLASSES])
