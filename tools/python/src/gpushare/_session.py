# SPDX-License-Identifier: MIT
"""Sessions: connections to the registry. What a session shares and attaches lasts as long as its connection."""
import ctypes
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, TypeVar, Union

from . import _abi, _driver, _errors, _foreign, _native
from ._buffer import Buffer, all_tags, check_layout, info_of, is_layout, layout_tags, set_tags, tagged_layout, tags_of
from ._dtypes import BYTES, DType, DTypeLike, Shape, count, dtype_of, shape_of
from ._info import Holder, Info, RegistryInfo
from ._order import Event
from ._watch import Watch

if TYPE_CHECKING:  # checkers have this module; nothing has to be installed
    from typing_extensions import Concatenate, ParamSpec
    P = ParamSpec("P")
    R = TypeVar("R")

_FLAG = {text: bit for bit, text in _abi.FLAGS.values()}
_WAIT_MOST = (1 << 32) - 1


def _visited(name: str, *arguments: Any) -> List[Any]:
    """The records that a listing call visits."""
    found: List[Any] = []
    kind = {"gpushare_holders": Holder}.get(name, Info)

    _native.call_visiting(name, lambda struct: found.append(kind(struct[0])), *arguments)
    return found


def _await_tags(handle: int, info: Info) -> None:
    """Wait for the tags of a new name. A name that was never staged gets its tags a moment after it appears."""
    while "dtype" not in info.tags and info.is_new:
        time.sleep(0.002)
        try:
            info.tags = tags_of(handle)
        except _errors.GpushareError:
            return


def _group(group: Union[None, int, str]) -> Optional[bytes]:
    return None if group is None else str(group).encode()


class Session(_native.Closing):
    """A connection to the registry. Starts a registry if none runs. See gpushare_open().

    `directory`: the registry's directory, by default as gpushare(7) says. `timeout`: seconds to wait for each
    answer of the registry. The session ends with close(), at the end of a with block, or with the last reference to
    it. Buffers and other objects that it made stay valid after close(): the connection lasts until the last of them
    ends.
    """

    _what = "session"

    def __init__(self, directory: Optional[str] = None, timeout: Optional[float] = None, *,
                 autostart: bool = True):
        self.directory = None if directory is None else os.fspath(directory)
        options = _native.make(
            _abi.OpenOptions, directory=None if directory is None else os.fsencode(directory),
            timeout_ms=0 if timeout is None else _native.milliseconds(timeout, (1 << 31) - 1),
            no_autostart=not autostart)
        self._hold = _native.Hold(_native.call_out("gpushare_open", ctypes.byref(options)), "gpushare_close")
        self._lock = threading.Lock()
        self._tagged: "weakref.WeakSet[Buffer]" = weakref.WeakSet()  # Buffers whose dtype and shape follow the tags

    # Buffers.

    def _own(self, handle: int, kind: DType, shape: Shape, tags: Optional[Mapping[str, str]], staged: bool,
             keep: Any = None) -> Buffer:
        """Make the Buffer of an owned buffer: set its tags, then commit it, unless `staged`."""
        hold = _native.Hold(handle, "gpushare_free", (self._hold, keep))
        info = info_of(handle)
        if tags and is_layout(tags):
            check_layout(info, {**layout_tags(kind, shape), **tags})
        buffer = Buffer(hold, self, info, kind, shape)
        told = all_tags(kind, shape, tags)
        if told:
            set_tags(self.handle, buffer.name, told)
        if not staged:
            buffer.commit()
        return buffer

    def attach(self, name: str, *, wait: float = 0, device: Optional[int] = None, same_address: bool = False,
               prefer_same_address: bool = False, host_only: bool = False, passive: bool = False,
               read_only: bool = False,
               dtype: Optional[DTypeLike] = None,
               shape: Union[None, int, Sequence[int]] = None) -> Buffer:
        """Map a named buffer of another process into this one. See gpushare_attach().

        `wait`: how many seconds to wait for the name to appear; `device`: map the buffer for that GPU; `read_only`:
        attach for reading, which needs only the right to read. `dtype` and `shape`: the element type and shape; by
        default, those of the buffer's present tags.

        Shapes: a sequence of sizes, one size, or () for a scalar. Units: seconds.
        Errors: NotFoundError, TimedOutError, DeniedError, DeviceError, OwnerGoneError, ReadOnlyError, NoDriverError;
        RangeError if dtype and shape need more bytes than the buffer has.
        """
        options = _native.make(
            _abi.AttachOptions, wait_ms=_native.milliseconds(wait, _WAIT_MOST), same_address=same_address,
            prefer_same_address=prefer_same_address, on_device=device is not None,
            device=-1 if device is None else device, host_only=host_only, passive=passive,
            read_only=read_only)
        told = None if dtype is None else dtype_of(dtype)
        asked = None if shape is None else shape_of(shape)
        text = _native.text(name)
        return self._attached(self._wait_interruptibly(text, options), wait > 0, told, asked)

    def attach_many(self, names: Iterable[str], *, wait: float = 0, device: Optional[int] = None,
                    host_only: bool = False, passive: bool = False, read_only: bool = False) -> List[Buffer]:
        """Attach all of these names, or none. Faster than several attach(). See gpushare_attach_many().

        `wait`: how many seconds to wait for all names. Each Buffer has the element type and shape of its tags.

        Errors: as attach(), for the first name that fails.
        """
        options = _native.make(
            _abi.AttachOptions, on_device=device is not None, device=-1 if device is None else device,
            host_only=host_only, passive=passive, read_only=read_only)
        wait_ms = _native.milliseconds(wait, _WAIT_MOST)
        deadline = time.monotonic() + wait_ms / 1000
        texts = [_native.text(name) for name in names]
        array = (ctypes.c_char_p * len(texts))(*texts)
        handles = (ctypes.c_void_p * len(texts))()
        there: List[_native.Hold] = []  # attachments of single names, released when all are attached together
        try:
            while True:
                options.wait_ms = 0
                try:
                    _native.call("gpushare_attach_many", self.handle, array, len(texts), ctypes.byref(options), handles)
                    break
                except (_errors.CLASSES["NotFoundError"], _errors.CLASSES["TimedOutError"]):
                    if not wait_ms:
                        raise
                there.clear()
                for text in texts:
                    options.wait_ms = max(1, int((deadline - time.monotonic()) * 1000))
                    there.append(self._wait_interruptibly(text, options))
        finally:
            for hold in there:
                hold.give_back()
        holds = [self._holding(handle or 0) for handle in handles]
        return [self._attached(hold, wait > 0, None, None) for hold in holds]

    def _wait_interruptibly(self, text: bytes, options: Any) -> _native.Hold:
        def wait(turn: int) -> _native.Hold:
            options.wait_ms = turn
            return self._holding(_native.call_out("gpushare_attach", self.handle, text, ctypes.byref(options)))
        return _native.in_slices(options.wait_ms, wait, _errors.CLASSES["NotFoundError"])

    def _holding(self, handle: int) -> _native.Hold:
        return _native.Hold(handle, "gpushare_detach", (self._hold,))

    def _attached(self, hold: _native.Hold, waited: bool, told: Optional[DType], asked: Optional[Shape]) -> Buffer:
        info = info_of(hold.handle)
        if told is None:
            self._refresh_tags(info)
        if waited and told is None:
            _await_tags(hold.handle, info)
        kind, wanted = (told, None) if told else tagged_layout(info)
        if asked is not None or wanted is None:
            wanted = asked if asked is not None else (info.size // kind.itemsize,)
        return Buffer(hold, self, info, kind, wanted, tagged=told is None and asked is None)

    def _refresh_tags(self, info: Info) -> None:
        """Get the current tags: if the buffer was attached here before, `info` is from that time."""
        try:
            now = self.stat(info.name)
        except _errors.GpushareError:
            return
        if now.generation == info.generation:
            info.tags = now.tags

    def alloc(self, name: str, shape: Union[int, Sequence[int]], dtype: DTypeLike = "uint8", *,
              device: Optional[int] = None, keep: bool = False, ttl: int = 0, adopt: bool = False,
              read_only: bool = False, vmm: bool = False, unified: bool = False, mode: int = 0,
              group: Union[None, int, str] = None,
              tags: Optional[Mapping[str, str]] = None, staged: bool = False) -> Buffer:
        """Allocate memory and give it a name, tagged with its element type and shape, and with `tags`.

        Other processes see the name once it has its tags. `staged`: they see it only after commit(), and the buffer
        can't replace a kept one. `keep`: the buffer stays when this process frees it, exits or is killed, for `ttl`
        seconds (0: until removed). `adopt`, with `keep`: take over a kept buffer of that name, size and GPU.
        `read_only`: other processes can only read it. `vmm`: memory that the CPU can map(), too. `unified`: host memory
        with one address for the CPU and the GPU. `mode`, for example 0o640, and `group`: which other users may access
        it, if the registry serves other users. See gpushare_alloc_with().

        Shapes: a sequence of sizes, one size, or () for a scalar; no size is 0. Units: ttl in seconds; `mode` as of a
        file.
        Errors: ExistsError, NoMemoryError, InvalidError, LimitError, NotSupportedError, NoDriverError.
        """
        kind, wanted = dtype_of(dtype), shape_of(shape)
        chosen = {"keep": keep, "readonly": read_only, "vmm": vmm, "unified": unified}

        def make(stage: bool) -> int:
            options = _native.make(_abi.AllocOptions, device=-1 if device is None else device,
                                   flags=sum(_FLAG[flag] for flag, on in {**chosen, "staged": stage}.items() if on),
                                   ttl_s=ttl, adopt=adopt and (staged or not stage), mode=mode, group=_group(group))
            return _native.call_out("gpushare_alloc_with", self.handle, _native.text(name),
                                    count(wanted) * kind.itemsize, ctypes.byref(options))

        # adopt without keep is an error: call without staging, so that the library's message is about adopt
        handle = make(staged) if staged or (adopt and not keep) else self._staging(name, make)
        return self._own(handle, kind, wanted, tags, staged)

    def share(self, name: str, array: Any, *, tags: Optional[Mapping[str, str]] = None, mode: int = 0,
              group: Union[None, int, str] = None, staged: bool = False) -> Buffer:
        """Give a device array's memory a name.

        The array must be contiguous, and of PyTorch, CuPy, JAX, Numba or another library with DLPack or the CUDA array
        interface. The Buffer holds a reference to the array. `staged`: as in alloc().

        Shapes: the array's. Errors: TypeError and ValueError for another object or array; NotShareableError (managed
        and stream-ordered memory), ExistsError, LimitError.
        """
        found = _foreign.locate(array)
        kind = found.dtype or BYTES
        wanted = found.shape if found.dtype else (count(found.shape) * found.itemsize,)
        return self.share_pointer(name, found.pointer, count(wanted) * kind.itemsize, dtype=kind, shape=wanted,
                                  tags=tags, keep=(found.keep, array), source=array, mode=mode, group=group,
                                  staged=staged)

    def share_pointer(self, name: str, pointer: int, size: int, *, dtype: DTypeLike = "uint8",
                      shape: Union[None, int, Sequence[int]] = None, tags: Optional[Mapping[str, str]] = None,
                      keep: Any = None, source: Any = None, mode: int = 0,
                      group: Union[None, int, str] = None, staged: bool = False) -> Buffer:
        """Give `size` bytes of device memory at `pointer` a name.

        The Buffer holds a reference to the object `keep`. The call waits for this process's GPU work, so that
        attachers see its results. `staged`: as in alloc().

        Units: bytes. Errors: NotShareableError, RangeError, ExistsError, LimitError.
        """
        kind = dtype_of(dtype)
        wanted = shape_of(shape) if shape is not None else (size // kind.itemsize,)

        def make(stage: bool) -> int:
            options = _native.make(_abi.ShareOptions, mode=mode, group=_group(group), staged=stage)
            return _native.call_out("gpushare_share_with", self.handle, _native.text(name), pointer, size,
                                    ctypes.byref(options))

        handle = make(staged) if staged else self._staging(name, make)
        _driver.settle(_native.library().gpushare_device(handle))
        buffer = self._own(handle, kind, wanted, tags, staged, keep)
        buffer._source = source
        return buffer

    def is_there(self, name: str) -> bool:
        """True if the name exists and this process may see it."""
        try:
            self.stat(name)
        except _errors.CLASSES["NotFoundError"]:
            return False
        return True

    def _staging(self, name: str, make: Callable[[bool], int]) -> int:
        """Call make(True) to make a staged buffer, which other processes don't see. Returns the buffer's handle.

        A buffer that replaces a kept one can't be staged. If the name exists, call make(False) at once, because an
        attempt to stage would first allocate more memory.
        """
        if self.is_there(name):
            return make(False)
        try:
            return make(True)
        except _errors.CLASSES["ExistsError"]:
            return make(False)

    def unlink(self, name: str) -> None:
        """Remove a name; the memory and attachments stay as they are. Errors: NotFoundError, DeniedError."""
        _native.call("gpushare_unlink", self.handle, _native.text(name))

    def tag(self, /, name: str, **tags: Optional[str]) -> Dict[str, str]:
        """Set tags of a name; None removes a tag. Returns all tags of the name, so tag(name) only reads them.

        This session's Buffers of that name get the new dtype and shape; see Buffer for those of other sessions.

        Errors: InvalidError (a ValueError) if dtype and shape would need more bytes than the buffer has.
        """
        if tags:
            self._tag(name, tags)
        return self.stat(name).tags

    def _tag(self, name: str, tags: Mapping[str, Optional[str]]) -> None:
        if not is_layout(tags):
            set_tags(self.handle, name, tags)
            return
        check_layout(self.stat(name), tags)
        set_tags(self.handle, name, tags)
        info = self.stat(name)
        with self._lock:
            buffers = list(self._tagged)
        for buffer in buffers:
            buffer._take_layout(info)

    def _follow(self, buffer: Buffer) -> None:
        with self._lock:
            self._tagged.add(buffer)

    # Queries.

    def ls(self, glob: Optional[str] = None, *, deferred: bool = False) -> List[Info]:
        """The buffers whose names match `glob` (None: all), sorted by name. '*' matches '/' too.

        `deferred`: instead list the buffers that their owners have freed and hold for attachers, sorted by generation.
        """
        return _visited("gpushare_list_deferred" if deferred else "gpushare_list", self.handle,
                        None if glob is None else _native.text(glob))

    list = ls

    def stat(self, name: str) -> Info:
        """The registry's record of one name. Units: bytes, seconds, nanoseconds. Errors: NotFoundError."""
        struct = _native.make(_abi.Info)
        _native.call("gpushare_stat", self.handle, _native.text(name), ctypes.byref(struct))
        return Info(struct)

    def holders(self, name: str, generation: int = 0) -> List[Holder]:
        """The processes that have a buffer attached.

        `generation`: the buffer's, also that of a deferred free; 0: the buffer that has the name now.
        Errors: NotFoundError.
        """
        return _visited("gpushare_holders", self.handle, _native.text(name), generation)

    def registry(self) -> RegistryInfo:
        """The registry's load, in counts."""
        struct = _native.make(_abi.RegistryInfo)
        _native.call("gpushare_stat_registry", self.handle, ctypes.byref(struct))
        return RegistryInfo(struct)

    def watch(self, glob: Optional[str] = None) -> Watch:
        """Watch what happens to buffers whose names match `glob` (None: all) from now on. Errors: LimitError."""
        return Watch(self, glob)

    def event_create(self, name: str, *, device: Optional[int] = None, mode: int = 0,
                     group: Union[None, int, str] = None) -> Event:
        """Make a CUDA event that other processes can open by its name. `mode` and `group`: which users may open it.

        Errors: ExistsError, NoMemoryError, NotSupportedError.
        """
        options = _native.make(_abi.ShareOptions, mode=mode, group=_group(group))
        handle = _native.call_out("gpushare_event_create_with", self.handle, _native.text(name),
                                  -1 if device is None else device, 0, ctypes.byref(options))
        return Event(handle, name, self._hold)

    def event_open(self, name: str, *, wait: float = 0) -> Event:
        """Open another process's event. `wait`: seconds for the name to appear.

        Errors: NotFoundError, TimedOutError, InvalidError (a buffer's name), DeniedError, OwnerGoneError.
        """
        def open_in(turn: int) -> Event:
            options = _native.make(_abi.EventOptions, wait_ms=turn, device=-1)
            handle = _native.call_out("gpushare_event_open", self.handle, _native.text(name), ctypes.byref(options))
            return Event(handle, name, self._hold)
        return _native.in_slices(_native.milliseconds(wait, _WAIT_MOST), open_in, _errors.CLASSES["NotFoundError"])


_lock = threading.Lock()
_sessions: Dict[Optional[str], Session] = {}


def session_of(directory: Optional[str] = None) -> Session:
    """This process's session with the registry in `directory`; None: the directory that the environment names."""
    with _lock:
        session = _sessions.get(directory)
        if session is None or session.closed:
            session = _sessions[directory] = Session(directory)
        return session


def _forget() -> None:
    """Drop the sessions in a forked child: they belong to the parent."""
    global _lock
    _lock = threading.Lock()
    _sessions.clear()


os.register_at_fork(after_in_child=_forget)


def _of_default(method: "Callable[Concatenate[Session, P], R]") -> "Callable[P, R]":
    """A Session method as a function that uses this process's default session."""
    def function(*arguments: "P.args", **named: "P.kwargs") -> "R":
        return method(session_of(), *arguments, **named)
    function.__name__ = function.__qualname__ = method.__name__
    function.__doc__ = method.__doc__
    function.__wrapped__ = method  # type: ignore[attr-defined]
    return function


attach = _of_default(Session.attach)
attach_many = _of_default(Session.attach_many)
alloc = _of_default(Session.alloc)
share = _of_default(Session.share)
share_pointer = _of_default(Session.share_pointer)
unlink = _of_default(Session.unlink)
tag = _of_default(Session.tag)
ls = list_ = _of_default(Session.ls)
stat = _of_default(Session.stat)
holders = _of_default(Session.holders)
registry = _of_default(Session.registry)
watch = _of_default(Session.watch)
event_create = _of_default(Session.event_create)
event_open = _of_default(Session.event_open)
