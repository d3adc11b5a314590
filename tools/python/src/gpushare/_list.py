# SPDX-License-Identifier: MIT
"""The list of tensors at the beginning of a state dict's buffer, and the names of the tensors after it."""
import hashlib
import json
import re
import struct
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from . import _abi, _driver, _errors
from ._buffer import Buffer
from ._info import Info
from ._session import Session

_MAGIC = b"gpushare state 2"
HEADER = struct.Struct("<16sQ32s8x")  # magic, bytes of the list, their SHA-256
KIND = "state-dict"
_NO_NAME = re.compile(r"[^A-Za-z0-9._/-]")  # what a name can't have
_ALIGN = 256  # bytes: the alignment of cudaMalloc


class Row(NamedTuple):
    """A tensor, for lay_out()."""

    key: str
    dtype: str  # name in torch, without "torch."
    shape: Tuple[int, ...]
    size: int  # bytes
    identity: Any  # equal for tied weights


class Entry(NamedTuple):
    """One key of the list."""

    key: str
    name: str  # name of its part of the buffer; "": the tensor has no elements
    offset: int  # bytes from the buffer's start; in the JSON of the list, from the first tensor's start
    size: int
    dtype: str
    shape: Tuple[int, ...]


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def lay_out(name: str, rows: Iterable[Row]) -> Tuple[List[Entry], bytes, int]:
    """The entries for these tensors, the JSON of the list, and the size of the whole buffer."""
    taken, end, entries = {name}, 0, []
    places: Dict[Any, Tuple[str, int]] = {}
    for row in rows:
        place = places.get(row.identity)
        if place is None:
            place = places[row.identity] = (buffer_name(name, row.key, taken) if row.size else "", end)
            end = _aligned(end + row.size)
        entries.append(Entry(row.key, *place, row.size, row.dtype, row.shape))
    body = json.dumps([dict(zip(Entry._fields, entry)) for entry in entries], separators=(",", ":")).encode()
    start = _start(len(body))
    return [entry._replace(offset=start + entry.offset) for entry in entries], body, start + end


def _start(length: int) -> int:
    """Where the first tensor begins, after a list of `length` bytes."""
    return _aligned(HEADER.size + length)


def key_tag(key: str) -> Dict[str, str]:
    """The tag with a tensor's key; no tag if the key doesn't fit into one."""
    fits = key.isprintable() and 0 < len(key.encode()) <= _abi.TAG_VALUE_MAX
    return {"key": key} if fits else {}


def names_of(name: str, key: str) -> Tuple[str, str]:
    """The two names that a key may have. The second one ends in a part of the key's digest."""
    made = f"{name}/" + _NO_NAME.sub("_", key)
    return made, f"{made[:_abi.NAME_MAX - 17]}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def buffer_name(name: str, key: str, taken: Set[str]) -> str:
    """The buffer name for a key, such as "llama/layers.0.weight".

    Characters that a name can't have become "_". If the name is too long, or another key has it already, the name
    ends in a part of the key's digest.
    """
    made, other = names_of(name, key)
    if len(made) > _abi.NAME_MAX or made in taken:
        made = other
    taken.add(made)
    return made


def write_list(buffer: Buffer, written: bytes) -> None:
    """Write the header last: without it, a reader sees no list."""
    buffer.write(written, HEADER.size)
    _driver.settle(buffer.device)
    buffer.write(HEADER.pack(_MAGIC, len(written), hashlib.sha256(written).digest()))


def read_list(buffer: Buffer) -> Optional[List[Entry]]:
    """The entries of the list; None if the list is not completely written."""
    if buffer.nbytes <= HEADER.size:
        raise _no_list(buffer)
    magic, length, digest = HEADER.unpack(buffer.view("uint8").read(0, HEADER.size))
    if magic == b"\0" * len(magic):
        return None
    if magic != _MAGIC or length > buffer.nbytes - HEADER.size:
        if buffer.tags.get("kind") == KIND or buffer.info.is_new:
            return None  # the list is not written yet: these bytes were in the memory before
        raise _no_list(buffer)
    body = bytes(buffer.view("uint8").read(HEADER.size, length))
    if hashlib.sha256(body).digest() != digest:
        return None
    start = _start(length)
    return [Entry(row["key"], row["name"], start + row["offset"], row["size"], row["dtype"], tuple(row["shape"]))
            for row in json.loads(body)]


def _no_list(buffer: Buffer) -> ValueError:
    return ValueError(f"'{buffer.name}' is a buffer, but not a state dict of share_state_dict()")


def infos_of(session: Session, name: str) -> List[Info]:
    """The records of a state dict, complete or not: its buffer, then its parts, found by the keys in tags and list."""
    keys = _listed_keys(session, name)
    listed = {made for key in keys for made in names_of(name, key)}
    return [*session.ls(glob_of(name)), *(
        info for info in session.ls(f"{glob_of(name)}/*")
        if info.name in listed or info.name in names_of(name, info.tags.get("key", "")))]


def _listed_keys(session: Session, name: str) -> List[str]:
    """The keys of an existing list. Keys that are too long for a tag are only in the list."""
    try:
        if session.stat(name).tags.get("kind") != KIND:
            return []
        return [entry.key for entry in read_list(session.attach(name, dtype="uint8")) or []]
    except (_errors.GpushareError, ValueError):
        return []


def glob_of(name: str) -> str:
    return re.sub(r"([*?\[\\])", r"\\\1", name)
