# SPDX-License-Identifier: MIT
"""Buffers: named memory of this process or of another one."""
import ctypes
import warnings
from types import MappingProxyType
from typing import Any, Dict, Mapping, Optional, Tuple

from . import _abi, _dlpack, _errors, _native
from ._array import Array
from ._dtypes import BYTES, DTYPES, DType, Shape, count, dtype_from_tag, shape_from_text, shape_text
from ._info import Info, state_text
from ._order import Ordered


def layout_tags(dtype: DType, shape: Shape) -> Dict[str, str]:
    """The tags for a buffer's element type and shape."""
    return {"dtype": dtype.name, "shape": shape_text(shape)}


def all_tags(dtype: DType, shape: Shape, tags: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """`tags`, and the tags dtype and shape. Plain bytes don't need these two. Omits both if the shape is too long."""
    layout = {} if dtype == BYTES and len(shape) == 1 else layout_tags(dtype, shape)
    if len(layout.get("shape", "")) > _abi.TAG_VALUE_MAX:
        layout = {}
    return {**layout, **(tags or {})}


def _tag_rows(name: str, tags: Mapping[str, Optional[str]]) -> Any:
    rows = (_abi.Tag * max(len(tags), 1))()
    for row, (key, value) in zip(rows, tags.items()):
        named, data = _native.text(key), _native.text(str(value if value is not None else ""))
        if len(named) > _abi.TAG_KEY_MAX or len(data) > _abi.TAG_VALUE_MAX:
            raise _errors.of("E_INVALID", f"tag {key!r} of '{name}' is longer than {_abi.TAG_KEY_MAX} bytes, or its "
                                          f"value than {_abi.TAG_VALUE_MAX}")
        row.key, row.value = named, data
    return rows


def info_of(handle: int) -> Info:
    """The record of a buffer from the time when it was shared or attached."""
    struct = _native.make(_abi.Info)
    _native.call("gpushare_buffer_info", handle, ctypes.byref(struct))
    return Info(struct)


def tags_of(handle: int) -> Dict[str, str]:
    """The present tags of a buffer."""
    rows, out = (_abi.Tag * _abi.TAGS_MAX)(), ctypes.c_size_t()
    _native.call("gpushare_tags", handle, rows, ctypes.byref(out))
    return {row.key.decode(): row.value.decode("utf-8", "replace") for row in rows[:out.value]}


def set_tags(session: int, name: str, tags: Mapping[str, Optional[str]]) -> None:
    """Set tags of a name; None or "" removes a tag."""
    _native.call("gpushare_tag", session, _native.text(name), _tag_rows(name, tags), len(tags))


def _layout(name: str, size: int, dtype: DType, text: Optional[str]) -> Shape:
    """The shape of `size` bytes with these tags; InvalidError if they don't fit. A scalar's shape text is empty."""
    if text or size == dtype.itemsize:
        shape = shape_from_text(text or "")
    else:
        shape = (size // dtype.itemsize,)
    needed = count(shape) * dtype.itemsize
    if needed > size or not needed:
        raise _errors.of("E_INVALID", f"'{name}': dtype {dtype.name} and shape {shape} are {needed} bytes, but the "
                                      f"buffer has {size}; to change both tags, set them in one call")
    return shape


def is_layout(tags: Mapping[str, Any]) -> bool:
    """True if the tags include an element type or a shape."""
    return not tags.keys().isdisjoint({"dtype", "shape"})


def check_layout(info: Info, tags: Mapping[str, Any]) -> None:
    """Raise InvalidError if the layout with these tags set doesn't fit the buffer's size.

    Accepts an element type that this package doesn't know, because its size is unknown.
    """
    dtype, shape = ({**info.tags, **tags}.get(key) for key in ("dtype", "shape"))
    try:
        shape_from_text(str(shape or ""))
    except ValueError as error:
        raise _errors.of("E_INVALID", f"'{info.name}': {error}") from None
    try:
        known = dtype_from_tag(str(dtype or ""))
    except ValueError:
        return
    _layout(info.name, info.size, known, str(shape or ""))


def tagged_layout(info: Info) -> Tuple[DType, Shape]:
    """The element type and shape that a buffer's tags give; without them, bytes."""
    tags = info.tags
    if "dtype" not in tags:
        return BYTES, (info.size,)
    try:
        dtype = dtype_from_tag(tags["dtype"])
        return dtype, _layout(info.name, info.size, dtype, tags.get("shape"))
    except ValueError as error:
        warnings.warn(f"'{info.name}' has {info.size} bytes and is tagged dtype={tags['dtype']}, "
                      f"shape={tags.get('shape')}: {error}; using it as bytes", stacklevel=3)
        return BYTES, (info.size,)


class Buffer(Array, Ordered):
    """A named buffer, made by attach(), share() or alloc(). As an Array it is the whole buffer.

    A name made by alloc() or share() exists while the Buffer or a view() of it lives, or longer with keep. The memory
    stays while the Buffer, a view(), or any object that a consumer made from them lives. close() and the end of a with
    block release the Buffer earlier; objects that consumers have made from it stay valid.

    The Buffer takes its dtype and shape from the tags when it is made. They change when its session sets the tags
    dtype or shape. They don't change if attach() was given a dtype or shape, nor in view()s, tensors and arrays of the
    Buffer. If another session or process sets tags, `tags` has them at once, but dtype and shape follow only in the
    Buffer of the next attach().
    """

    def __init__(self, hold: _native.Hold, session: Any, info: Info, dtype: DType, shape: Shape, *,
                 tagged: bool = True):
        super().__init__(hold, info, dtype, shape)
        self.session = session
        self.closed = False
        self._lent: Any = None
        if tagged:
            session._follow(self)

    def _take_layout(self, info: Info) -> None:
        if info.generation == self._info.generation and not self.closed:
            self._dtype, self.shape = tagged_layout(info)

    def _open(self) -> _native.Hold:
        if self.closed:
            raise ValueError(f"the buffer '{self.name}' is closed")
        return self._hold

    @property
    def generation(self) -> int:
        """Together with the name, this number identifies the buffer. The pair is never used again."""
        return self._info.generation

    @property
    def info(self) -> Info:
        """The buffer's record from the time when it was shared or attached."""
        return info_of(self.handle)

    @property
    def state(self) -> str:
        """The state, as the registry says now: "shared", "kept", "withdrawn" or "replaced"."""
        out = ctypes.c_int()
        _native.call("gpushare_state", self.handle, ctypes.byref(out))
        return state_text(out.value)

    @property
    def was_adopted(self) -> bool:
        """True if alloc(adopt=True) took over a kept buffer, with its contents."""
        return bool(_native.library().gpushare_was_adopted(self.handle))

    @property
    def tags(self) -> Dict[str, str]:
        """The present tags.

        An assignment sets only the given tags: buffer.tags = {"step": "3"}. A dtype and shape that need more bytes
        than the buffer has are refused.
        """
        return tags_of(self.handle)

    @tags.setter
    def tags(self, tags: Mapping[str, Optional[str]]) -> None:
        self.session._tag(self.name, tags)

    def commit(self) -> None:
        """Make a staged buffer's name visible to other processes. Call this when its contents and tags are complete.

        This does not wait for GPU work: wait for your own before, if other processes must see its results.
        Errors: NotFoundError.
        """
        _native.call("gpushare_commit", self.handle)
        self._info = self.info  # if the registry was restarted, the buffer may have another generation

    def share_parts(self, parts: Mapping[str, Array],
                    tags: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> None:
        """Give names to parts of this buffer: {"llama/norm": llama.view("float16", 4096, offset=512)}.

        The buffer must be vmm memory that this session owns. Each part is tagged with its element type and shape, and
        with the `tags` for its name. Other processes see the names at once, one after the other, even if this Buffer is
        staged: write the contents first. The names end with this Buffer, but stay with a kept buffer. See
        gpushare_share_parts().

        Shapes: each view's, contiguous. Units: bytes.
        Errors: ExistsError, RangeError, InvalidError, NotSupportedError (other memory), LimitError; ValueError for a
        view of another buffer. After an error, no part has a name.
        """
        rows, kept = (_abi.Part * max(len(parts), 1))(), []
        for row, (name, part) in zip(rows, parts.items()):
            if part._hold is not self._open():
                raise ValueError(f"'{name}' is a view of '{part.name}', not a part of '{self.name}'")
            told = all_tags(part._dtype, part.shape, tags.get(name))
            kept.append(_tag_rows(name, told))
            row.name, row.offset, row.size = _native.text(name), part.offset, part.nbytes
            row.tags, row.tag_count = kept[-1], len(told)
        _native.call("gpushare_share_parts", self.handle, rows, len(parts))

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        interface = super().__cuda_array_interface__
        if self._lent is None:  # consumers refer to this Buffer alone: after close() it must keep the memory for them
            self._lent = self._capsule(_dlpack.CUDA, True), self._hold.keep
        return interface

    def unlink(self) -> None:
        """Remove the name. The memory and attachments stay as they are."""
        _native.call("gpushare_unlink", self.session.handle, _native.text(self.name))

    def close(self) -> None:
        """Release the Buffer. Its views, tensors and arrays stay valid, and keep the memory while they live.

        If another thread is in a call with the Buffer, its end releases the Buffer.
        """
        if not self.closed:
            self.closed = True
            self._hold, self._source = _GONE, None

    def __enter__(self) -> "Buffer":
        self._open()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self._lent = None
        if not _native._exiting:
            _dlpack.sweep()

    def __reduce__(self) -> Any:
        """Pickle support: the process that unpickles the Buffer attaches it again."""
        self._open()
        return _attach_again, (self.session.directory, self.name, self.generation, self.dtype, self.shape)


_GONE = _native.Hold(0, "gpushare_detach")


def _attach_again(directory: Optional[str], name: str, generation: int, dtype: str, shape: Shape) -> Buffer:
    from ._session import session_of
    buffer = session_of(directory).attach(name, dtype=DTYPES[dtype], shape=shape)
    if buffer.generation != generation:
        raise _errors.of("E_OWNER_GONE", f"'{name}' is now the name of another buffer: generation {buffer.generation}, "
                                         f"not {generation}")
    return buffer
