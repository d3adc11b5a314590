# SPDX-License-Identifier: MIT
"""PyTorch: one copy of a model's weights for any number of processes.

    shared = gpushare.torch.share_state_dict(model, "llama")       # one process, which keeps `shared`
    gpushare.torch.attach_state_dict("llama", model, wait=60)      # the others

Each parameter has a name, "llama/layers.0.weight", that any other way to attach finds too, tagged with
its element type, shape and key, and is read-only for all but who shared it. A parameter of PACK_BELOW bytes
or more is a buffer of its own. Smaller ones would take a granule of the GPU (2 MiB) each: they lie in one
buffer, "llama/_packed", and their names are of parts of that. Tied weights are there once.

The name itself, "llama", is the list of all that, written last. Who attaches reads it first, and takes
nothing that is not of the generation it names: never a part of one state dict and a part of another. No
other process sees any of the names before what they stand for is there, but for those that take the place
of an earlier kept one: these come one by one, each in the room of the one before, and the list of them
last. attach_state_dict() waits for that; who attaches single names of it may have old and new ones.
"""
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

import torch

from . import _abi, _driver, _errors, _list
from ._array import Array
from ._buffer import Buffer
from ._dtypes import DTYPES
from ._info import Info
from ._list import buffer_name
from ._session import Session, session_of

PACK_BELOW = 1 << 20
"""Bytes: half a granule, so that no buffer of its own wastes more than it holds."""

_ALIGN = 256


class StateDict(Dict[str, Any]):
    """Keys and tensors, and the buffers they lie in. The tensors keep the memory; the names of what
    share_state_dict() made stay as long as this, and kept ones longer."""

    name: str = ""
    generation: int = 0
    buffers: List[Buffer]

    def close(self) -> None:
        """Let go of the buffers, and so of the names. Tensors that somebody has stay valid."""
        for buffer in self.buffers:
            buffer.close()
        self.clear()


def tensor(array: Array, stream: Any = None) -> Any:
    """A torch tensor of a buffer. Of a read-only one too: a kernel that stores into it would end this
    process's CUDA context."""
    if stream is None and array.device >= 0:
        stream = torch.cuda.current_stream(array.device).cuda_stream or _driver.LEGACY
    trusted = array.view(promise_read_only=True)
    return torch.utils.dlpack.from_dlpack(trusted.__dlpack__(stream=stream))


def _bytes(array: Array) -> Any:
    return tensor(array.view("uint8"))


def _part(raw: Any, offset: int, dtype: str, shape: Tuple[int, ...]) -> Any:
    kind = getattr(torch, dtype)
    count = torch.empty(0, dtype=kind).element_size()
    for size in shape:
        count *= size
    return raw[offset:offset + count].view(kind).view(shape)


def _states(source: Any) -> Dict[str, Any]:
    states = source.state_dict() if hasattr(source, "state_dict") else source
    if not isinstance(states, Mapping):
        raise TypeError(f"share_state_dict() takes a module or a state dict, not {type(source).__name__}")
    for key, value in states.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"the state {key!r} is no tensor but {type(value).__name__}; leave it out")
    return {key: value.detach() for key, value in states.items()}


def _size(value: Any) -> int:
    return value.numel() * value.element_size()


def _device(states: Mapping[str, Any], device: Optional[int]) -> Optional[int]:
    if device is not None:
        return device
    return next((value.device.index for value in states.values() if value.is_cuda), None)


def _staged(session: Session, make: Callable[..., Buffer], name: str, *arguments: Any, **named: Any) -> Buffer:
    """For no other process to see; but what takes the place of something that is kept can't be staged."""
    if not session.is_there(name):
        try:
            return make(name, *arguments, staged=True, **named)
        except _errors.CLASSES["ExistsError"]:
            pass
    return make(name, *arguments, **named)


class _Sharing:
    """A state dict on its way into buffers."""

    def __init__(self, session: Session, name: str, options: Dict[str, Any]):
        self.session, self.name, self.options = session, name, options
        self.buffers: List[Buffer] = []
        self.taken = {name, f"{name}/{_list.PACKED}"}
        self.entries: Dict[str, _list.Entry] = {}
        self.tensors: Dict[str, Any] = {}

    def place(self, states: Mapping[str, Any]) -> None:
        """All of it, each piece of memory once."""
        first: Dict[Any, str] = {}
        small: Dict[str, Any] = {}
        for key, value in states.items():
            if first.setdefault(_identity(value), key) != key:
                continue
            if not _size(value):
                self._note(_list.Entry(key, "", 0, 0, _dtype(value), tuple(value.shape)), value)
            elif _size(value) >= PACK_BELOW:
                self.own(key, value)
            else:
                small[key] = value
        if small:
            self.pack(small)
        for key, value in states.items():
            same = first[_identity(value)]
            if same != key:
                self._note(self.entries[same]._replace(key=key), self.tensors[same])

    def _tags(self, key: str) -> Dict[str, str]:
        fits = key.isprintable() and 0 < len(key.encode()) <= _abi.TAG_VALUE_MAX
        return {"key": key} if fits else {}

    def _layout(self, value: Any) -> Tuple[Tuple[int, ...], str]:
        """How the buffer is tagged: as bytes where its type has no name."""
        dtype = _dtype(value)
        return (tuple(value.shape), dtype) if dtype in DTYPES else ((_size(value),), "uint8")

    def add(self, key: str, value: Any, buffer: Buffer, raw: Any, offset: int) -> None:
        """Copy it in."""
        shape = tuple(value.shape)
        made = _part(raw, offset, _dtype(value), shape)
        made.copy_(value)
        self._note(_list.Entry(key, buffer.name, 0, offset, _dtype(value), shape), made)

    def _note(self, entry: _list.Entry, made: Any) -> None:
        self.entries[entry.key] = entry
        self.tensors[entry.key] = made

    def own(self, key: str, value: Any) -> None:
        """A buffer of its own."""
        shape, dtype = self._layout(value)
        buffer = _staged(self.session, self.session.alloc, buffer_name(self.name, key, self.taken), shape, dtype, read_only=True,
                         tags=self._tags(key), **self.options)
        self.buffers.append(buffer)
        self.add(key, value, buffer, _bytes(buffer), 0)

    def pack(self, small: Mapping[str, Any]) -> None:
        """Those that are small, in one buffer; each has a name for its part."""
        places, end = {}, 0
        for key, value in small.items():
            places[key], end = end, -(-(end + _size(value)) // _ALIGN) * _ALIGN
        packed = _staged(self.session, self.session.alloc, f"{self.name}/{_list.PACKED}", end, read_only=True, **self.options)
        self.buffers.append(packed)
        raw = _bytes(packed)
        for key, value in small.items():
            self.add(key, value, packed, raw, places[key])
            shape, dtype = self._layout(value)
            self.buffers.append(_staged(
                self.session, self.session.share_pointer, buffer_name(self.name, key, self.taken), packed.pointer + places[key],
                _size(value), dtype=dtype, shape=shape, tags=self._tags(key), keep=packed))

    def remove(self, old: Iterable[Info]) -> None:
        """What of them has not been replaced."""
        for info in old:
            now = self.session.ls(_list.glob_of(info.name))
            if info.name != self.name and now and now[0].generation == info.generation:
                _unlink(self.session, info.name)

    def publish(self, keys: Iterable[str], old: Iterable[Info] = ()) -> None:
        """All of them, without those of an older set, and then the list: until its first bytes are there
        nobody takes it for one."""
        for device in {buffer.device for buffer in self.buffers}:
            _driver.settle(device)
        for buffer in self.buffers:
            buffer.commit()
        self.remove(old)
        generations = {buffer.name: buffer.generation for buffer in self.buffers}
        body = _list.body(entry._replace(generation=generations.get(entry.name, 0))
                          for entry in (self.entries[key] for key in keys))
        made = _staged(self.session, self.session.alloc, self.name, _list.HEADER.size + len(body), read_only=True,
                       tags={"kind": _list.KIND, "keys": str(len(self.entries))}, **self.options)
        self.buffers.insert(0, made)
        _list.write_list(made, body)
        _driver.settle(made.device)
        made.commit()


def _dtype(value: Any) -> str:
    return str(value.dtype).rsplit(".", 1)[-1]


def _identity(value: Any) -> Any:
    """Equal for tied weights: the same memory, looked at in the same way."""
    place = value.data_ptr() if _size(value) else id(value)
    return str(value.device), place, _dtype(value), tuple(value.shape), tuple(value.stride())


def share_state_dict(source: Any, name: str, *, session: Optional[Session] = None, device: Optional[int] = None,
                     keep: bool = False, ttl: int = 0, replace: bool = False,
                     assign: bool = False) -> StateDict:
    """Copy a module's state dict, or any mapping of names to tensors, into named buffers.

    What is not on the GPU goes there: to `device`, default that of the first tensor that is on one.
    `keep`: the buffers stay when this process ends, for `ttl` seconds (0: until removed by `gpushare rm`);
    the names of packed parameters go. What is kept of an earlier set whose process has ended is replaced,
    one buffer after the other, so that the GPU need not have room for both; where that breaks off, neither
    is whole, and attach_state_dict() says so. `replace`: take the name away from what has it, which those
    who have it attached keep. `assign`: let the module use the shared copy, so that its own is freed.

    Keep the result: the names go with it. Nothing of it is left where this fails.
    """
    states = _states(source)
    session = session or session_of()
    if replace:
        remove_state_dict(name, session=session)
    old = [info for info in _list.infos_of(session, name) if not info.owner_alive]
    sharing = _Sharing(session, name, {"device": _device(states, device), "keep": keep, "ttl": ttl})
    try:
        sharing.place(states)
        sharing.publish(states, old)
    except BaseException as error:
        _withdraw(session, sharing.buffers, keep)
        if isinstance(error, _errors.CLASSES["ExistsError"]) and session.is_there(name):
            raise _errors.of("E_EXISTS", f"{error}; replace=True takes its place") from None
        raise
    result = StateDict((key, sharing.tensors[key]) for key in states)
    result.name, result.generation, result.buffers = name, sharing.buffers[0].generation, sharing.buffers
    if assign:
        _assign(source, result)
    return result


def _withdraw(session: Session, buffers: List[Buffer], keep: bool) -> None:
    for buffer in buffers:
        if keep:
            _unlink(session, buffer.name)
        buffer.close()


def _unlink(session: Session, name: str) -> None:
    """If it can be."""
    try:
        session.unlink(name)
    except _errors.GpushareError:
        pass


def remove_state_dict(name: str, *, session: Optional[Session] = None) -> None:
    """Take the names of a state dict away, and no other below it. Those who have it attached keep it."""
    session = session or session_of()
    for info in _list.infos_of(session, name):
        try:
            session.unlink(info.name)
        except _errors.CLASSES["NotFoundError"]:
            pass


def _assign(module: Any, states: Mapping[str, Any]) -> None:
    module.load_state_dict(dict(states), strict=True, assign=True)
    for parameter in module.parameters():
        parameter.requires_grad_(False)


class _Changed(Exception):
    """What the list names is not there, or of another generation."""


def _attach_all(session: Session, entries: List[_list.Entry], options: Dict[str, Any]) -> Dict[str, Buffer]:
    found: Dict[str, Buffer] = {}
    for entry in entries:
        if not entry.name or entry.name in found:
            continue
        try:
            buffer = session.attach(entry.name, **options)
        except (_errors.CLASSES["NotFoundError"], _errors.CLASSES["OwnerGoneError"]) as error:
            raise _Changed(str(error)) from None
        if buffer.generation != entry.generation:
            raise _Changed(f"'{entry.name}' is of generation {buffer.generation}, and the list names "
                           f"{entry.generation}")
        found[entry.name] = buffer
    return found


def _tensors(entries: List[_list.Entry], found: Mapping[str, Buffer]) -> Iterator[Tuple[str, Any]]:
    raw = {name: _bytes(buffer) for name, buffer in found.items()}
    made: Dict[Any, Any] = {}
    for entry in entries:
        place = entry[1:]
        if place not in made or not entry.name:
            made[place] = (_part(raw[entry.name], entry.offset, entry.dtype, entry.shape) if entry.name
                           else torch.empty(entry.shape, dtype=getattr(torch, entry.dtype)))
        yield entry.key, made[place]


def attach_state_dict(name: str, module: Any = None, *, session: Optional[Session] = None, wait: float = 0,
                      device: Optional[int] = None) -> StateDict:
    """The state dict that another process shared: tensors of its memory, without a copy, read-only.

    `wait`: seconds for it to appear, whole. `module`: load it, by assignment, with requires_grad off; one
    that was built on the "meta" device takes no memory before. A state dict that is replaced meanwhile is
    begun again with; it is never mixed.
    """
    session = session or session_of()
    deadline = time.monotonic() + max(wait, 1.0)
    options = {"device": device}
    list_, entries, found = _attach_whole(session, name, wait, deadline, options)
    result = StateDict(_tensors(entries, found))
    result.name, result.generation = name, list_.generation
    result.buffers = [list_, *found.values()]
    if module is not None:
        _assign(module, result)
    return result


def _attach_whole(session: Session, name: str, wait: float, deadline: float,
                  options: Dict[str, Any]) -> Tuple[Buffer, List[_list.Entry], Dict[str, Buffer]]:
    while True:
        left = max(deadline - time.monotonic(), 0)
        buffer = session.attach(name, wait=min(wait, left), dtype="uint8", **options)
        why = "its list is not written"
        try:
            entries = _list.read_list(buffer)
            if entries is not None:
                return buffer, entries, _attach_all(session, entries, options)
        except _Changed as error:
            why = str(error)
        if time.monotonic() >= deadline:
            raise _errors.of("E_OWNER_GONE", f"the state dict '{name}' is not whole: {why}; "
                             "it is being replaced, which wait= waits for, or that broke off: share it again then")
        del buffer
        time.sleep(0.01)


__all__ = ["PACK_BELOW", "StateDict", "attach_state_dict", "remove_state_dict", "share_state_dict", "tensor"]
