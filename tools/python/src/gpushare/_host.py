# SPDX-License-Identifier: MIT
"""Host memory from the library, as memoryviews and arrays. They keep the memory mapped as long as they live."""
import ctypes
from typing import Any, Dict, Optional

from . import _native
from ._dtypes import BYTES, DType, Shape, count


def memory(hold: _native.Hold, address: int, size: int, read_only: bool) -> memoryview:
    """Bytes at an address. The view, and every object made from it, holds a reference to `hold`."""
    block = (ctypes.c_ubyte * size).from_address(address)
    block._gpushare_hold = hold  # type: ignore[attr-defined]  # the memoryview refers to the ctypes array
    view = memoryview(block).cast("B")
    return view.toreadonly() if read_only else view


def shaped(view: memoryview, dtype: DType, shape: Shape) -> memoryview:
    """The same memory as elements of that type and shape; BufferError if a memoryview can't have them."""
    if dtype.format is None:
        raise BufferError(f"a memoryview can't have elements of {dtype.name}; use `memory`, the bytes")
    if not count(shape):
        raise BufferError("a memoryview can't have a dimension of 0; use `memory`, the bytes")
    plain: Any = view  # the type annotations of memoryview.cast() have a fixed set of formats
    made: memoryview = view if (dtype, shape) == (BYTES, view.shape) else plain.cast(dtype.format, shape)
    return made


def array_interface(view: memoryview, dtype: DType, shape: Shape) -> Dict[str, Any]:
    """The array interface of numpy. The array's base is the view, so the array keeps only the memory."""
    return {"version": 3, "shape": shape, "typestr": dtype.typestr or f"|V{dtype.itemsize}", "data": view}


class Shaped:
    """Base class of objects with an element type and a shape."""

    _dtype: DType
    shape: Shape

    @property
    def dtype(self) -> str:
        """The element type's name: "float16", "bfloat16", "uint8", ..."""
        return self._dtype.name

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._dtype.itemsize

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return count(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in all."""
        return count(self.shape) * self._dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]


class HostMemory(_native.Closing, Shaped):
    """Base class of Map and Mirror: bytes on the host. The bytes stay while the object is open, or a view of it
    lives."""

    def __init__(self, hold: _native.Hold, address: int, dtype: DType, shape: Shape, read_only: bool):
        self._hold = hold
        self._address, self._dtype, self.shape = address, dtype, shape
        self.read_only = read_only

    @property
    def memory(self) -> memoryview:
        """The bytes. The memoryview stays valid after close()."""
        return memory(self._open(), self._address, self.nbytes, self.read_only)

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        return array_interface(self.memory, self._dtype, self.shape)

    def __buffer__(self, flags: int) -> memoryview:
        return shaped(self.memory, self._dtype, self.shape)


class Map(HostMemory):
    """A buffer's memory at a CPU address, without a copy. See gpushare_map().

    `with buffer.map() as m:` flushes a writable map at the block's end. Arrays and memoryviews of the map stay valid
    after that: the mapping ends with the last of them, even if the buffer ended earlier.
    """

    _what = "map"

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        from . import _abi
        info = _native.make(_abi.MapInfo)
        _native.call("gpushare_map_info", self.handle, ctypes.byref(info))
        self.backend = info.backend.decode()
        """"dma-buf", "vulkan" or "host"."""
        self.caching = {v: t for v, t in _abi.CACHINGS.values()}.get(info.caching, "")
        """"write-combined" (loads are slow) or "cached"."""
        self.coherent = bool(info.coherent)
        """Always True."""
        self.atom_size = info.atom_size

    def flush(self, offset: int = 0, length: Optional[int] = None) -> None:
        """Send the CPU's stores in that range to the GPU."""
        _native.call("gpushare_map_flush", self.handle, offset, self.nbytes - offset if length is None else length)

    def invalidate(self, offset: int = 0, length: Optional[int] = None) -> None:
        """Make the CPU's next loads from that range see what the GPU has written."""
        _native.call("gpushare_map_invalidate", self.handle, offset,
                     self.nbytes - offset if length is None else length)

    def __exit__(self, kind: Any = None, *_: Any) -> None:
        if self._hold is not None and not self.read_only:
            self.flush()
        self.close()


class Mirror(HostMemory):
    """A pinned host copy of a part of a buffer. See gpushare_mirror_open().

    `with buffer.mirror(write=True) as m:` writes the copy back at the block's end. If an exception ends the
    block, the copy is not written back, so no incomplete data is published. After the block, views of the mirror stay
    readable; stores into them are lost.
    """

    _what = "mirror"
    _write = False

    def sync(self) -> None:
        """Write the copy back now; the mirror stays open."""
        _native.call("gpushare_mirror_sync", self.handle)

    def close(self) -> None:
        """Write the copy back if it is for writing, and release it. If writing fails, the mirror stays open."""
        if self._hold is not None and self._write:
            self.sync()
        self._hold = None

    def drop(self) -> None:
        """Release the mirror without writing back."""
        self._hold = None

    def __exit__(self, kind: Any = None, *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.drop()
