# SPDX-License-Identifier: MIT
"""PyTorch: one copy of a model's weights for any number of processes.

    shared = gpushare.torch.share_state_dict(model, "llama")       # one process, which keeps `shared`
    gpushare.torch.attach_state_dict("llama", model, wait=60)      # the others

    gpushare.torch.load_safetensors("model.safetensors", "llama", model)   # each; one of them reads the file

A state dict is one buffer, "llama": a list of its tensors, then the tensors. Each tensor also has a name of its own,
such as "llama/layers.0.weight", so that it can be attached alone. That name stands for a part of the buffer and is
tagged with the tensor's element type, shape and key. Tied weights are stored once. All processes except the one that
made the buffer can only read it.

Other processes see a name only when its contents are complete. There is one exception: if a kept set is replaced,
"llama" is the new buffer while it is being filled. attach_state_dict() then waits for the list, which is written last.
"""
import time
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

import torch

from . import _driver, _errors, _list, _safetensors
from ._array import Array
from ._buffer import Buffer
from ._dtypes import DTYPES
from ._list import buffer_name
from ._session import Session, session_of


class StateDict(Dict[str, Any]):
    """A dict of keys and tensors, with the buffer that holds the tensors. The tensors keep the memory.

    Names that share_state_dict() made exist as long as the StateDict. Names of kept buffers stay longer.
    """

    name: str = ""
    generation: int = 0
    buffers: List[Buffer]

    def close(self) -> None:
        """Release the buffer, and with it the names. Tensors to which the program still refers stay valid."""
        for buffer in self.buffers:
            buffer.close()
        self.clear()


def tensor(array: Array, stream: Any = None) -> Any:
    """A torch tensor of an array, with the array's element type and shape. The buffer may be read-only.

    `stream`: the consumer's stream, as in Array.__dlpack__(); by default torch's current stream of the device. If the
    buffer is read-only, no kernel may store into the tensor: a store into vmm or unified memory ends this process's
    CUDA context.
    """
    if stream is None and array.device >= 0:
        stream = torch.cuda.current_stream(array.device).cuda_stream or _driver.LEGACY
    trusted = array.view(promise_read_only=True)
    return torch.utils.dlpack.from_dlpack(trusted.__dlpack__(stream=stream))


def _states(source: Any) -> Dict[str, Any]:
    states = source.state_dict() if hasattr(source, "state_dict") else source
    if not isinstance(states, Mapping):
        raise TypeError(f"share_state_dict() takes a module or a state dict, not {type(source).__name__}")
    for key, value in states.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"the state {key!r} is not a tensor but {type(value).__name__}; omit it")
    return {key: value.detach() for key, value in states.items()}


def _row(key: str, value: Any) -> _list.Row:
    """The row of a tensor for the list. Tied weights are the same memory with the same type, shape and strides."""
    dtype, shape = str(value.dtype).rsplit(".", 1)[-1], tuple(value.shape)
    size = value.numel() * value.element_size()
    place = value.data_ptr() if size else id(value)
    return _list.Row(key, dtype, shape, size, (str(value.device), place, dtype, shape, tuple(value.stride())))


def _strides(shape: Sequence[int]) -> List[int]:
    """In elements, of a contiguous tensor."""
    strides = [1] * len(shape)
    for at in range(len(shape) - 1, 0, -1):
        strides[at - 1] = strides[at] * shape[at]
    return strides


def _tensors(buffer: Buffer, entries: List[_list.Entry]) -> Dict[str, Any]:
    """The tensors of a list, by key. Tied weights are one object. Tensors without elements are on the CPU."""
    raw = tensor(buffer.view("uint8"))
    typed: Dict[str, Any] = {}  # the whole buffer, with each of the element types
    made: Dict[Any, Any] = {}
    found = {}
    for entry in entries:
        kind = getattr(torch, entry.dtype)
        if not entry.name:
            found[entry.key] = torch.empty(entry.shape, dtype=kind)
            continue
        place = entry[1:]
        if place not in made:
            if entry.dtype not in typed:
                typed[entry.dtype] = raw.view(kind)  # the list aligns all tensors, and the buffer's end
            of = typed[entry.dtype]
            made[place] = of.as_strided(entry.shape, _strides(entry.shape), entry.offset // of.element_size())
        found[entry.key] = made[place]
    return found


class _Set:
    """A state dict that is being filled. No other process can use its buffer before publish()."""

    def __init__(self, session: Session, name: str, rows: List[_list.Row], *, keep: bool, tags: Mapping[str, str] = {},
                 **options: Any):
        self.session, self.name, self.keep = session, name, keep
        self.entries, self.body, size = _list.lay_out(name, rows)
        self.old = [info for info in _list.infos_of(session, name) if not info.owner_alive]
        self.named: List[str] = []
        self.options: Dict[str, Any] = {"keep": keep, "read_only": True, **options,
                                        "tags": {"kind": _list.KIND, "keys": str(len(rows)), **tags}}
        self.buffer = self._alloc(size)

    def _alloc(self, size: int) -> Buffer:
        """Allocate the buffer, as a staged one unless it replaces an older kept buffer.

        If the GPU has no room for both buffers, remove the older set first.
        """
        if any(info.name == self.name for info in self.old):
            try:
                return self.session.alloc(self.name, size, **self.options)
            except _errors.NoMemoryError:
                _unlink(self.session, [info.name for info in self.old])
        return self.session.alloc(self.name, size, staged=True, **self.options)

    def __enter__(self) -> "_Set":
        self.buffer.write(bytes(_list.HEADER.size))  # old contents of the memory must not look like a list
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """After an exception, remove the new set."""
        if kind is None:
            return
        if self.keep:
            _unlink(self.session, [self.name, *self.named])
        hold = self.buffer._hold
        self.buffer.close()
        hold.give_back()  # release it now: the frames of the exception still refer to it

    def first(self) -> Iterator[_list.Entry]:
        """The entries that have elements, only the first one of tied weights."""
        return iter({entry.name: entry for entry in reversed(self.entries) if entry.name}.values())

    def publish(self) -> None:
        """Name the tensors, remove the rest of an older set, and write the list. Call this when the tensors are
        complete."""
        _driver.settle(self.buffer.device)
        parts, keys = {}, {}
        for entry in self.first():
            known = entry.dtype in DTYPES  # else the part is shared as bytes
            parts[entry.name] = self.buffer.view(entry.dtype if known else "uint8",
                                                 entry.shape if known else entry.size, entry.offset)
            keys[entry.name] = _list.key_tag(entry.key)
        self.buffer.share_parts(parts, keys)
        self.named = list(parts)
        _unlink(self.session, [i.name for i in self.old if i.name != self.name and i.name not in parts])
        _list.write_list(self.buffer, self.body)
        _driver.settle(self.buffer.device)
        self.buffer.commit()

    def result(self) -> StateDict:
        return _result(self.buffer, _tensors(self.buffer, self.entries))


def _result(buffer: Buffer, tensors: Dict[str, Any]) -> StateDict:
    result = StateDict(tensors)
    result.name, result.generation, result.buffers = buffer.name, buffer.generation, [buffer]
    return result


def share_state_dict(source: Any, name: str, *, session: Optional[Session] = None, device: Optional[int] = None,
                     keep: bool = False, ttl: int = 0, replace: bool = False,
                     assign: bool = False) -> StateDict:
    """Copy a module's state dict, or any mapping of names to tensors, into one named buffer.

    The buffer is on `device`, by default that of the first tensor on a GPU. `keep`: the set stays when this process
    ends, for `ttl` seconds (0: until removed by remove_state_dict()). If an earlier set was kept and its process has
    ended, the call replaces it; if the GPU has no room for both, it removes the earlier set first. If the replacement
    fails, attach_state_dict() reports that. `replace`: remove the name from the state dict that has it; its attachers
    keep the memory. `assign`: let the module use the shared copy, so that its own memory is freed.

    Keep a reference to the result: the names end with it. If the call fails, nothing of the new state dict is left.

    Shapes: those of the tensors; the copies are contiguous. Units: ttl in seconds.
    Errors: TypeError if a value is not a tensor; ExistsError, NoMemoryError, LimitError and other GpushareErrors.
    """
    states = _states(source)
    session = session or session_of()
    if device is None:
        device = next((value.device.index for value in states.values() if value.is_cuda), None)
    if replace:
        remove_state_dict(name, session=session)
    try:
        with _Set(session, name, [_row(*item) for item in states.items()], keep=keep, ttl=ttl, device=device) as made:
            result = made.result()
            for entry in made.first():
                result[entry.key].copy_(states[entry.key])
            made.publish()
    except _errors.ExistsError as error:
        if session.is_there(name):
            raise _errors.of("E_EXISTS", f"{error}; replace=True replaces it") from None
        raise
    result.generation = made.buffer.generation
    if assign:
        _assign(source, result)
    return result


def _unlink(session: Session, names: List[str]) -> None:
    """Remove names if possible; ignore failures."""
    for name in names:
        try:
            session.unlink(name)
        except _errors.GpushareError:
            pass


def remove_state_dict(name: str, *, session: Optional[Session] = None) -> None:
    """Remove the names of a state dict, but no other names below it. Attachers keep the memory."""
    session = session or session_of()
    for info in _list.infos_of(session, name):
        try:
            session.unlink(info.name)
        except _errors.NotFoundError:
            pass


def _assign(module: Any, states: Mapping[str, Any]) -> None:
    module.load_state_dict(dict(states), strict=True, assign=True)
    for parameter in module.parameters():
        parameter.requires_grad_(False)


def attach_state_dict(name: str, module: Any = None, *, session: Optional[Session] = None, wait: float = 0,
                      device: Optional[int] = None) -> StateDict:
    """Attach the state dict that another process shared: read-only tensors of its memory, without a copy.

    `wait`: how many seconds to wait for the whole state dict. `module`: load the state dict into this module, by
    assignment, with requires_grad off; a module built on the "meta" device takes no memory before that. `device`: the
    CUDA ordinal of the GPU for which to map the memory; by default the GPU that has it.

    Shapes: those of the shared tensors. Units: seconds.
    Errors: NotFoundError and TimedOutError; OwnerGoneError if the list is still incomplete after `wait` seconds (at
    least one second); ValueError if the name is that of another buffer; RuntimeError of torch if the keys are not the
    module's.
    """
    session = session or session_of()
    deadline = time.monotonic() + max(wait, 1.0)
    while True:
        left = max(deadline - time.monotonic(), 0)
        buffer = session.attach(name, wait=min(wait, left), dtype="uint8", device=device)
        entries = _list.read_list(buffer)
        if entries is not None:
            break
        if time.monotonic() >= deadline:
            raise _errors.of("E_OWNER_GONE", f"the state dict '{name}' is incomplete: its list is not written; if it "
                             "is being replaced, give wait= more seconds; if its replacement failed, share it again")
        del buffer
        time.sleep(0.01)
    result = _result(buffer, _tensors(buffer, entries))
    if module is not None:
        _assign(module, result)
    return result


def load_safetensors(path: Any, name: str, module: Any = None, *, session: Optional[Session] = None,
                     device: Optional[int] = None, keep: bool = False, ttl: int = 0,
                     wait: float = 600) -> StateDict:
    """Load the tensors of a .safetensors file into GPU memory, once for all processes of the host.

    All processes make this call. The first process reads the file through pinned memory into the buffer, and owns the
    names, as after share_state_dict(). The other processes wait and attach the buffer. If the first process ends while
    it reads, another process reads. `keep` and `ttl`: see share_state_dict(); without `keep`, a process that starts
    after the first one has ended reads the file again. `module` and `device`: see attach_state_dict(). `wait`: how
    many seconds to wait while another process reads.

    The file may be untrusted: its header is checked before anything is allocated.

    Shapes: as in the file. Units: seconds.
    Errors: OSError; ValueError if the file is not a valid .safetensors file, or if `name` holds another file;
    TimedOutError; NoMemoryError and other GpushareErrors.
    """
    session = session or session_of()
    deadline, patience = time.monotonic() + wait, 0.0
    result = None
    with _safetensors.File(path) as file:
        while result is None:
            try:
                result = attach_state_dict(name, session=session, device=device, wait=patience)
                _check_source(result, file)
                break
            except (_errors.NotFoundError, _errors.TimedOutError):
                pass
            try:  # only one process can have this name, and the name ends with the process: so one process reads
                claim = session.alloc(f"{name}/_reading", 1, device=device, staged=True)
            except _errors.ExistsError:
                if time.monotonic() >= deadline:
                    raise _errors.of("E_TIMED_OUT", f"'{file.path}': another process has been reading it into "
                                     f"'{name}' for more than {wait} s; give wait= more seconds") from None
            else:
                with claim:
                    if not session.is_there(name):
                        result = _load(file, session, name, device=device, keep=keep, ttl=ttl)
            patience = min(0.25, max(deadline - time.monotonic(), 0))
    if module is not None:
        _assign(module, result)
    return result


def _load(file: _safetensors.File, session: Session, name: str, **options: Any) -> StateDict:
    found = file.rows()
    rows = [_list.Row(row.key, row.dtype, row.shape, row.size, (row.begin, row.size)) for row in found]
    with _Set(session, name, rows, tags={"file": file.identity}, **options) as made:
        file.read_into(made.buffer, found, {entry.key: entry.offset for entry in made.entries})
        made.publish()
        return made.result()


def _check_source(found: StateDict, file: _safetensors.File) -> None:
    was = found.buffers[0].tags.get("file")
    if was != file.identity:
        raise ValueError(f"'{found.name}' does not hold '{file.path}', but "
                         f"{'an older version, or another file' if was else 'a state dict that a process shared'}; "
                         "use another name, or call remove_state_dict() first")


__all__ = ["StateDict", "attach_state_dict", "buffer_name", "load_safetensors", "remove_state_dict",
           "share_state_dict", "tensor"]
