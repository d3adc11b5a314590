# SPDX-License-Identifier: MIT
"""PyTorch: one copy of a model's weights for any number of processes.

    shared = gpushare.torch.share_state_dict(model, "llama")       # one process, which keeps `shared`
    gpushare.torch.attach_state_dict("llama", model, wait=60)      # the others

Each parameter has a name, such as "llama/layers.0.weight", that every other way to attach finds too. The name
is tagged with the parameter's element type, shape and key. The parameter is read-only for every process but
the one that shared it. A parameter of PACK_BELOW bytes or more is a buffer of its own. Each smaller one would
take a granule of the GPU (2 MiB), so they share one buffer, "llama/_packed", and each name stands for its part.
Tied weights are stored once.

The name itself, "llama", is the list of all these names, and is written last. attach_state_dict() reads the
list first, and accepts only buffers of the generations in it. So it never mixes parts of two state dicts.
Other processes see a name only when its contents are complete. Names that replace kept ones are the exception:
they appear one by one, each in the memory of its predecessor, and their list appears last. attach_state_dict()
waits for that list. A process that attaches single names may get old and new ones.
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
    """Keys and tensors, and the buffers that hold the tensors. The tensors keep the memory.

    The names that share_state_dict() made stay as long as the StateDict; kept ones stay longer.
    """

    name: str = ""
    generation: int = 0
    buffers: List[Buffer]

    def close(self) -> None:
        """Release the buffers, and with them the names. Tensors that are still referenced stay valid."""
        for buffer in self.buffers:
            buffer.close()
        self.clear()


def tensor(array: Array, stream: Any = None) -> Any:
    """A torch tensor of a buffer, read-only ones included.

    If the buffer is read-only, a kernel that stores into the tensor ends this process's CUDA context.
    """
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
    """Make a staged buffer, which other processes don't see; unstaged if it takes the place of a kept one."""
    if not session.is_there(name):
        try:
            return make(name, *arguments, staged=True, **named)
        except _errors.CLASSES["ExistsError"]:
            pass
    return make(name, *arguments, **named)


class _Sharing:
    """A state dict that is being copied into buffers."""

    def __init__(self, session: Session, name: str, options: Dict[str, Any]):
        self.session, self.name, self.options = session, name, options
        self.buffers: List[Buffer] = []
        self.taken = {name, f"{name}/{_list.PACKED}"}
        self.entries: Dict[str, _list.Entry] = {}
        self.tensors: Dict[str, Any] = {}

    def place(self, states: Mapping[str, Any]) -> None:
        """Copy all states into buffers, each piece of memory once."""
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
        """The shape and element type for the buffer's tags: bytes if the type has no name there."""
        dtype = _dtype(value)
        return (tuple(value.shape), dtype) if dtype in DTYPES else ((_size(value),), "uint8")

    def add(self, key: str, value: Any, buffer: Buffer, raw: Any, offset: int) -> None:
        """Copy one value into a buffer, and list it."""
        shape = tuple(value.shape)
        made = _part(raw, offset, _dtype(value), shape)
        made.copy_(value)
        self._note(_list.Entry(key, buffer.name, 0, offset, _dtype(value), shape), made)

    def _note(self, entry: _list.Entry, made: Any) -> None:
        self.entries[entry.key] = entry
        self.tensors[entry.key] = made

    def own(self, key: str, value: Any) -> None:
        """Put one value into a buffer of its own."""
        shape, dtype = self._layout(value)
        buffer = _staged(self.session, self.session.alloc, buffer_name(self.name, key, self.taken), shape, dtype, read_only=True,
                         tags=self._tags(key), **self.options)
        self.buffers.append(buffer)
        self.add(key, value, buffer, _bytes(buffer), 0)

    def pack(self, small: Mapping[str, Any]) -> None:
        """Put the small values into one buffer; each gets a name for its part."""
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
        """Remove the names of an older set that were not replaced."""
        for info in old:
            now = self.session.ls(_list.glob_of(info.name))
            if info.name != self.name and now and now[0].generation == info.generation:
                _unlink(self.session, info.name)

    def publish(self, keys: Iterable[str], old: Iterable[Info] = ()) -> None:
        """Commit all buffers, remove the rest of an older set, then write and commit the list.

        Readers take the list for one only when its header is written, and that is written last.
        """
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
    """A key that is equal for tied weights: the same memory with the same type, shape and strides."""
    place = value.data_ptr() if _size(value) else id(value)
    return str(value.device), place, _dtype(value), tuple(value.shape), tuple(value.stride())


def share_state_dict(source: Any, name: str, *, session: Optional[Session] = None, device: Optional[int] = None,
                     keep: bool = False, ttl: int = 0, replace: bool = False,
                     assign: bool = False) -> StateDict:
    """Copy a module's state dict, or any mapping of names to tensors, into named buffers.

    Tensors outside the GPU are copied to `device`, by default the device of the first tensor that is on a GPU.
    `keep`: the buffers stay when this process ends, for `ttl` seconds (0: until removed by `gpushare rm`); the
    names of packed parameters don't stay. If an earlier set was kept and its process has ended, the call replaces
    its buffers one by one, so that the GPU needs no room for both sets. If the replacement breaks off, neither set
    is whole, and attach_state_dict() says so. `replace`: remove the name from the state dict that has it; its
    attachers keep it. `assign`: let the module use the shared copy, so that its own memory is freed.

    Keep the result: the names end with it. If the call fails, nothing of the new state dict is left.
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
    """Remove a name if possible; ignore failures."""
    try:
        session.unlink(name)
    except _errors.GpushareError:
        pass


def remove_state_dict(name: str, *, session: Optional[Session] = None) -> None:
    """Remove the names of a state dict, and no other names below it. Its attachers keep it."""
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
    """A buffer that the list names does not exist, or has another generation."""


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

    `wait`: seconds for the whole state dict to appear. `module`: load the state dict into it, by assignment, with
    requires_grad off; a module built on the "meta" device takes no memory before that. If the state dict is replaced
    during the call, the call starts again; it never mixes two.
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
