# SPDX-License-Identifier: MIT
"""Files in the safetensors format. The header is checked, because the file may be untrusted."""
import json
import os
import struct
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Tuple

from ._array import Array
from ._dtypes import count

HEADER_MAX = 100_000_000
"""Bytes of JSON: the limit of the format's own library."""
_LENGTH = struct.Struct("<Q")
_DIMENSIONS_MAX = 64
_PIECE = 2 << 20  # bytes of one read: a quarter of the library's chunks
_DTYPES = {  # name in the file: (name in torch, bytes per element)
    "BOOL": ("bool", 1), "U8": ("uint8", 1), "I8": ("int8", 1), "U16": ("uint16", 2), "I16": ("int16", 2),
    "U32": ("uint32", 4), "I32": ("int32", 4), "U64": ("uint64", 8), "I64": ("int64", 8), "F16": ("float16", 2),
    "BF16": ("bfloat16", 2), "F32": ("float32", 4), "F64": ("float64", 8), "C64": ("complex64", 8),
    "F8_E4M3": ("float8_e4m3fn", 1), "F8_E5M2": ("float8_e5m2", 1), "F8_E8M0": ("float8_e8m0fnu", 1),
}


class Row(NamedTuple):
    """A tensor of the file."""

    key: str
    dtype: str  # name in torch
    shape: Tuple[int, ...]
    begin: int  # bytes from the file's start
    size: int


def _unique(pairs: Iterable[Tuple[str, Any]]) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r} is there twice")
        found[key] = value
    return found


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in value)


class File:
    """An open file. As a context manager, it closes the file at the end."""

    def __init__(self, path: Any):
        self.path = os.fsdecode(path)
        self._file = open(path, "rb", buffering=0)
        self._was = os.fstat(self._file.fileno())

    def __enter__(self) -> "File":
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()

    @property
    def identity(self) -> str:
        """A text that changes with the file, for a tag: the file's size and the time of its last change."""
        return f"{self._was.st_size}-{self._was.st_mtime_ns}"

    def _wrong(self, why: str) -> ValueError:
        return ValueError(f"'{self.path}' is not a valid .safetensors file: {why}; get the file again")

    def rows(self) -> List[Row]:
        """Check the header. Returns the tensors that it describes, in the order of their bytes."""
        size = self._was.st_size
        length = _LENGTH.unpack(self._read(0, _LENGTH.size))[0] if size >= _LENGTH.size else 0
        if not 2 <= length <= min(HEADER_MAX, size - _LENGTH.size):
            raise self._wrong(f"its header would have {length} bytes, but the file has {size}")
        end = _LENGTH.size + length
        found = [self._row(key, told, end) for key, told in self._header(length).items() if key != "__metadata__"]
        found.sort(key=lambda row: (row.begin, row.size))
        for row in found:
            if row.begin != end:
                raise self._wrong(f"{row.key!r} begins at byte {row.begin}, but the tensor before it ends at {end}")
            end += row.size
        if end != size:
            raise self._wrong(f"its tensors end at byte {end}, but the file has {size} bytes")
        return found

    def _header(self, length: int) -> Dict[str, Any]:
        try:
            header = json.loads(self._read(_LENGTH.size, length), object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise self._wrong(f"its header is not JSON: {error}") from None
        if not isinstance(header, dict):
            raise self._wrong("its header is not a JSON object")
        return header

    def _read(self, at: int, length: int) -> bytes:
        data = bytearray(length)
        self._fill(memoryview(data), at)
        return bytes(data)

    def _row(self, key: str, told: Any, begin: int) -> Row:
        if not (isinstance(told, dict) and _is_numbers(told.get("shape")) and _is_numbers(told.get("data_offsets"))
                and len(told["data_offsets"]) == 2 and len(told["shape"]) <= _DIMENSIONS_MAX):
            raise self._wrong(f"{key!r} has no dtype, shape and data_offsets")
        if not isinstance(told.get("dtype"), str) or told["dtype"] not in _DTYPES:
            raise ValueError(f"'{self.path}': the dtype {told.get('dtype')!r} of {key!r} is not supported; "
                             "convert the tensor, or load the file with the safetensors package")
        dtype, itemsize = _DTYPES[told["dtype"]]
        first, last = told["data_offsets"]
        shape = tuple(told["shape"])
        if last - first != count(shape) * itemsize:
            raise self._wrong(f"{key!r} has {last - first} bytes, not the {count(shape) * itemsize} of {dtype} {shape}")
        return Row(key, dtype, shape, begin + first, last - first)

    def _fill(self, view: memoryview, at: int) -> None:
        """Fill the view with bytes of the file, from byte `at` on."""
        while view:
            got = os.preadv(self._file.fileno(), [view], at)
            if not got:
                raise self._wrong(f"it ends at byte {at}: it became shorter while it was read")
            at, view = at + got, view[got:]

    def read_into(self, array: Array, rows: Iterable[Row], places: Mapping[str, int]) -> None:
        """Read all tensors to their places in the array, in one stream through pinned memory.

        `places`: offsets in the array by key; they must ascend in the order of `rows`. A few threads read, because one
        thread does not keep a fast disk busy.
        """
        rows = [row for row in rows if row.size]
        if not rows:
            return
        os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        start, left = places[rows[0].key], iter(rows)
        row, at = next(left), start

        def parts(chunk: memoryview) -> Iterator[Tuple[memoryview, int]]:
            """What to read into the chunk, with the place in the file. Fills the gaps between tensors."""
            nonlocal row, at
            while chunk:
                done = at - places[row.key]
                if done < 0:  # between two tensors
                    part = chunk[:-done]
                    part[:] = bytes(len(part))
                else:
                    part = chunk[:row.size - done]
                    for i in range(0, len(part), _PIECE):
                        yield part[i:i + _PIECE], row.begin + done + i
                    if done + len(part) == row.size:
                        row = next(left, row)
                at, chunk = at + len(part), chunk[len(part):]

        def fill(chunk: memoryview) -> None:
            jobs = [threads.submit(self._fill, *part) for part in parts(chunk)]
            try:
                for job in jobs:
                    job.result()
            finally:  # after an exception, the session may use the chunk for another transfer
                wait(jobs)

        with ThreadPoolExecutor(4) as threads:
            array.feed(fill, start, places[rows[-1].key] + rows[-1].size - start)
        now = os.fstat(self._file.fileno())
        if (now.st_size, now.st_mtime_ns) != (self._was.st_size, self._was.st_mtime_ns):
            raise ValueError(f"'{self.path}' was changed while it was read; load it again")
