# SPDX-License-Identifier: MIT
"""A part of a buffer as an array: element type, shape, and the protocols by which other libraries use it."""
import ctypes
from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Union

from . import _abi, _dlpack, _driver, _errors, _host, _native
from ._dtypes import DType, DTypeLike, Shape, count, dtype_of, shape_of
from ._info import Info

_READ, _WRITE = _abi.ACCESSES["READ"][0], _abi.ACCESSES["WRITE"][0]


class Array(_host.Shaped):
    """A C-contiguous part of a buffer, without a copy. The Array keeps the buffer's memory."""

    _hold: _native.Hold
    _info: Info
    _source: Any = None  # the array that share() was called with
    _on_cpu = False
    _may_read = False
    _written_on: Optional[int] = None

    def __init__(self, hold: _native.Hold, info: Info, dtype: DType, shape: Shape, offset: int = 0):
        self._hold, self._info, self._dtype = hold, info, dtype
        self.shape: Shape = shape
        self.offset = offset
        """Bytes from the buffer's start."""
        if self.nbytes + offset > info.size:
            raise _errors.of("E_RANGE", f"{shape} of {dtype.name} from offset {offset} run past the end of "
                                        f"'{info.name}', which has {info.size} bytes")

    # Properties.

    @property
    def name(self) -> str:
        """The buffer's name."""
        return self._info.name

    @property
    def handle(self) -> int:
        """The library's struct gpushare_buffer, for library calls that this package does not wrap. Keeps the buffer."""
        return self._open().lend()

    @property
    def device(self) -> int:
        """The device's CUDA ordinal in this process; -1 if the buffer is attached without CUDA."""
        return int(_native.library().gpushare_device(self.handle))

    @property
    def pointer(self) -> int:
        """The device address of the array's first byte; 0 if the buffer is attached without CUDA."""
        base = int(_native.library().gpushare_pointer(self.handle))
        return base + self.offset if base else 0

    @property
    def read_only(self) -> bool:
        """True if this process may only read. If a kernel stores into vmm or unified memory, its CUDA context ends."""
        return bool(_native.library().gpushare_is_read_only(self.handle))

    @property
    def unified(self) -> bool:
        """True for host memory with one address for the CPU and the GPU."""
        return self._info.backing == "host"

    def _open(self) -> _native.Hold:
        return self._hold

    # Views.

    def view(self, dtype: Optional[DTypeLike] = None, shape: Union[None, int, Sequence[int]] = None,
             offset: int = 0, *, promise_read_only: bool = False) -> "Array":
        """The same memory with another element type or shape, or from `offset` bytes after this array's start.

        Without `shape`, a view with another element type or an offset has one dimension, up to this array's end.
        `promise_read_only`: export a read-only buffer also to DLPack consumers of versions before 1.0, which have no
        read-only flag. The caller promises that they don't store into it.
        """
        self._open()
        kind = self._dtype if dtype is None else dtype_of(dtype)
        if shape is None and not offset and (dtype is None or kind == self._dtype):
            wanted: Shape = self.shape
        elif shape is None:
            wanted = (max(self.nbytes - offset, 0) // kind.itemsize,)
        else:
            wanted = shape_of(shape)
        if offset < 0 or offset + count(wanted) * kind.itemsize > self.nbytes:
            raise _errors.of("E_RANGE", f"{wanted} of {kind.name} from offset {offset} are more than the "
                                        f"{self.nbytes} bytes of this part of '{self.name}'")
        return self._like(kind, wanted, self.offset + offset, may_read=promise_read_only or self._may_read)

    def _like(self, dtype: DType, shape: Shape, offset: int, may_read: bool = False) -> "Array":
        made = Array(self._hold, self._info, dtype, shape, offset)
        made._on_cpu, made._may_read, made._written_on = self._on_cpu, may_read, self._written_on
        made._source = self._source
        return made

    @property
    def cpu(self) -> "Array":
        """Unified memory as an array whose DLPack device is the CPU."""
        if not self.unified:
            raise _errors.of("E_NOT_SUPPORTED", f"'{self.name}' lies in the GPU's memory; the CPU reaches it by map(), "
                                                f"mirror() and read()")
        made = self._like(self._dtype, self.shape, self.offset, self._may_read)
        made._on_cpu = True
        return made

    def written_on(self, stream: Any) -> "Array":
        """Declare the stream on which this process writes the memory, so that consumers wait only for that stream."""
        self._written_on = _driver.stream_handle(stream)
        return self

    # DLPack and the CUDA array interface.

    def __dlpack_device__(self) -> Tuple[int, int]:
        if self._on_cpu or (self.unified and self.device < 0):
            return _dlpack.CPU, 0
        return _dlpack.CUDA, self.device

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Optional[Tuple[int, int]] = None, copy: Optional[bool] = None) -> Any:
        """A DLPack capsule.

        `stream`: -1 waits for nothing. Other values name the consumer's stream: None and 1 mean the legacy default
        stream, 2 the thread's. Work on that stream then sees what this process has written: the call waits for this
        process's GPU work, or orders the stream of written_on() before the consumer's. For other processes' work, call
        acquire().
        """
        place = self._place(dl_device)
        if copy:
            raise BufferError(f"'{self.name}' is exported without a copy: let the consumer copy it")
        if self._source is not None and self._is_source(place):
            return self._source.__dlpack__(**({} if stream is None else {"stream": stream}))
        versioned = max_version is not None and max_version[0] >= 1
        if self.read_only and not versioned and not self._may_read:
            raise BufferError(f"'{self.name}' is read-only here, DLPack before 1.0 has no read-only flag, and a store "
                              f"may end this process's CUDA context; if the consumer does not store into it, use "
                              f".view(promise_read_only=True)")
        if place[0] == _dlpack.CUDA:
            self._ready(stream)
        elif stream is not None and stream != -1:
            raise BufferError("a stream was given, but the memory is the CPU's, which has no streams")
        else:
            _driver.settle(self.device)
        return self._capsule(place[0], versioned)

    def _capsule(self, device_type: int, versioned: bool) -> Any:
        options = _native.make(
            _abi.DlpackOptions, device_type=device_type, code=self._dtype.code, bits=self._dtype.bits,
            versioned=versioned, ndim=len(self.shape), shape=(ctypes.c_int64 * len(self.shape))(*self.shape),
            offset=self.offset)
        address = _native.call_out("gpushare_dlpack", self._exported(), ctypes.byref(options))
        return _dlpack.capsule(address, versioned)

    def _is_source(self, place: Tuple[int, int]) -> bool:
        if place[0] != _dlpack.CUDA or self.offset or self.nbytes != self._info.size or not hasattr(
                self._source, "__dlpack__"):
            raise BufferError(f"'{self.name}' is memory of an array of this process: use that array")
        return True

    def _place(self, wanted: Optional[Tuple[int, int]]) -> Tuple[int, int]:
        own = self.__dlpack_device__()
        if self.device < 0:
            raise BufferError(f"'{self.name}' is attached without CUDA: map() it, and use the map")
        if wanted is None or tuple(wanted) == own:
            return own
        if self.unified and wanted[0] in (_dlpack.CPU, _dlpack.CUDA_HOST):
            return wanted[0], 0
        if self.unified and tuple(wanted) == (_dlpack.CUDA, self.device):
            return _dlpack.CUDA, self.device
        raise BufferError(f"'{self.name}' can be exported to DLPack's device {own} here, not to {tuple(wanted)}"
                          + ("" if self.unified else "; read() and mirror() copy it to the host"))

    def _exported(self) -> int:
        """The handle, for a consumer that may queue GPU work on the memory. The release waits for that work."""
        hold = self._open()
        device = _native.library().gpushare_device(hold.handle)
        if hold.before is None and device >= 0:
            hold.before = lambda: _driver.settle(device)
        return hold.lend()

    def _ready(self, stream: Any) -> None:
        if stream == -1:
            return
        if stream == 0:
            raise BufferError("stream 0 is ambiguous in DLPack: 1 is the legacy default stream, 2 the thread's")
        consumer = _driver.LEGACY if stream is None else _driver.stream_handle(stream)
        if _driver.is_capturing(consumer):
            return
        if self._written_on is None:
            _driver.settle(self.device)
        elif self._written_on != consumer:
            _driver.order(self.device, self._written_on, consumer)

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        if self._on_cpu or self.device < 0:
            raise AttributeError(f"'{self.name}' is an array in CPU memory here")
        if self._dtype.typestr is None:
            raise AttributeError(f"the CUDA array interface has no {self._dtype.name}; use DLPack, which has it")
        self._exported()
        if self._written_on is None:
            _driver.settle(self.device)
        return {"version": 3, "shape": self.shape, "typestr": self._dtype.typestr, "strides": None,
                "data": (self.pointer, self.read_only),
                "stream": None if self._written_on is None else self._written_on or _driver.LEGACY}

    # The CPU's array protocols, for unified memory.

    def _memory(self) -> memoryview:
        if not self.unified:
            raise AttributeError(f"'{self.name}' lies in the GPU's memory: map() or mirror() it")
        _driver.settle(self.device)
        return self.map(write=not self.read_only).memory

    @property
    def memory(self) -> memoryview:
        """The bytes of unified memory. The memoryview keeps them mapped."""
        return self._memory()

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        return _host.array_interface(self._memory(), self._dtype, self.shape)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """NumPy uses this if all else fails. Without this method, it would make an array of one object."""
        try:
            self._memory()
        except AttributeError as error:
            raise TypeError(str(error)) from None
        import numpy
        return numpy.asarray(self, dtype)

    def __buffer__(self, flags: int) -> memoryview:
        try:
            view = self._memory()
        except AttributeError as error:
            raise BufferError(str(error)) from None
        return _host.shaped(view, self._dtype, self.shape)

    # Copies.

    def _range(self, offset: int, length: Optional[int]) -> Tuple[int, int]:
        if length is None:
            length = max(self.nbytes - offset, 0)
        if offset < 0 or length < 0 or offset + length > self.nbytes:
            raise _errors.of("E_RANGE", f"{length} bytes from offset {offset} run past the end of this part of "
                                        f"'{self.name}', which has {self.nbytes} bytes")
        return self.offset + offset, length

    def read(self, offset: int = 0, length: Optional[int] = None) -> bytearray:
        """A copy of these bytes. Units: bytes. Errors: RangeError."""
        data = bytearray(self._range(offset, length)[1])
        self.readinto(data, offset)
        return data

    def readinto(self, target: Any, offset: int = 0) -> int:
        """Fill a writable, contiguous object of the buffer protocol. Returns the number of bytes. Errors: RangeError."""
        with memoryview(target) as view, view.cast("B") as flat:
            at, length = self._range(offset, flat.nbytes)
            if length:
                block = (ctypes.c_char * length).from_buffer(flat)
                _native.call("gpushare_copy_from", self.handle, at, block, length)
                del block
            return length

    def write(self, data: Any, offset: int = 0) -> int:
        """Copy a contiguous object of the buffer protocol, such as a numpy array, into the buffer.

        Returns the number of bytes. `offset`: in bytes. Errors: RangeError, ReadOnlyError.
        """
        with memoryview(data) as view, view.cast("B") as flat:
            at, length = self._range(offset, flat.nbytes)
            if length:
                with _Borrowed(flat) as address:
                    _native.call("gpushare_copy_to", self.handle, at, address, length)
            return length

    def stream(self, sink: Callable[[memoryview], Any], offset: int = 0, length: Optional[int] = None) -> None:
        """Call sink(chunk) for each chunk, in order, while the library copies the next chunk.

        The chunk is valid only during the call. `sink` can be a file's write method. An exception in sink() ends the
        transfer, and stream() raises it. Units: bytes. Errors: RangeError.
        """
        at, length = self._range(offset, length)
        _stream("gpushare_read", self.handle, at, length, sink, read_only=True)

    def feed(self, source: Callable[[memoryview], Any], offset: int = 0, length: Optional[int] = None) -> None:
        """Fill the buffer: call source(chunk) for each chunk, in order. source() must fill the whole chunk.

        Units: bytes. Errors: RangeError, ReadOnlyError.
        """
        at, length = self._range(offset, length)
        _stream("gpushare_write", self.handle, at, length, source, read_only=False)

    # Maps and mirrors.

    def map(self, *, write: bool = False, read: bool = True, need_coherent: bool = False) -> _host.Map:
        """Map the memory of a vmm or unified buffer for the CPU, without a copy.

        `need_coherent` has no effect, because every map is coherent. Shapes: the array's.
        Errors: NotSupportedError (other memory; no way to map it here), ReadOnlyError.
        """
        options = _native.make(_abi.MapOptions, need_coherent=need_coherent)
        map_ = _native.call_out("gpushare_map_with", self.handle, self.offset, self.nbytes,
                                _READ * read | _WRITE * write, ctypes.byref(options))
        # A map keeps an attachment. It doesn't keep an owned buffer, because that would keep the name, too.
        hold = _native.Hold(map_, "gpushare_unmap", (self._hold,) if self._hold.is_attachment else ())
        address = _native.library().gpushare_map_data(map_)
        return _host.Map(hold, address, self._dtype, self.shape, not write)

    def mirror(self, *, write: bool = False, read: bool = True) -> _host.Mirror:
        """A pinned host copy: filled now if `read`, written back when it is closed if `write`.

        Shapes: the array's. Errors: ReadOnlyError, NoMemoryError.
        """
        opened = _native.call_out("gpushare_mirror_open", self.handle, self.offset, self.nbytes,
                                  _READ * read | _WRITE * write)
        hold = _native.Hold(opened, "gpushare_mirror_drop", self._hold.keep)
        address = _native.library().gpushare_mirror_data(opened)
        mirror = _host.Mirror(hold, address, self._dtype, self.shape, not write)
        mirror._write = write
        return mirror

    def __repr__(self) -> str:
        return f"<gpushare.{type(self).__name__} '{self.name}' {self.dtype}{list(self.shape)}>"


class _Borrowed:
    """Context manager: gives the address of a memoryview's bytes, which is valid in the with block."""

    def __init__(self, flat: memoryview):
        self.flat = flat
        self.block = (ctypes.c_char * 128)()  # a Py_buffer, of 80 bytes

    def __enter__(self) -> int:
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(self.flat), self.block, 0)
        return ctypes.c_void_p.from_buffer(self.block).value or 0  # its first field

    def __exit__(self, *_: Any) -> None:
        ctypes.pythonapi.PyBuffer_Release(self.block)


def _stream(name: str, handle: int, at: int, length: int, user: Callable[[memoryview], Any],
            read_only: bool) -> None:
    done = 0

    def take(data: int, size: int) -> None:
        nonlocal done
        view = memoryview((ctypes.c_ubyte * size).from_address(data)).cast("B")
        with view.toreadonly() if read_only else view as chunk:
            user(chunk)
        done += size

    _native.call_visiting(name, take, handle, at, length)
    if done != length:  # see call_visiting()
        raise KeyboardInterrupt(f"a signal interrupted the transfer of {length} bytes")
