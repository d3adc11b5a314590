# SPDX-License-Identifier: MIT
"""Element types: their names in tags, and how DLPack, numpy and struct write them."""
import math
import re
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple, Union


class DType(NamedTuple):
    """An element type. `name`: in numpy and torch; `code`, `bits`: in DLPack; `typestr`: in numpy, or None if numpy has
    no such type; `format`: in a memoryview, or None."""

    name: str
    code: int
    bits: int
    typestr: Optional[str]
    format: Optional[str]

    @property
    def itemsize(self) -> int:
        return self.bits // 8


DTYPES: Dict[str, DType] = {row[0]: DType(*row) for row in (
    ("bool", 6, 8, "|b1", "?"),
    ("int8", 0, 8, "|i1", "b"), ("int16", 0, 16, "<i2", "h"),
    ("int32", 0, 32, "<i4", "i"), ("int64", 0, 64, "<i8", "q"),
    ("uint8", 1, 8, "|u1", "B"), ("uint16", 1, 16, "<u2", "H"),
    ("uint32", 1, 32, "<u4", "I"), ("uint64", 1, 64, "<u8", "Q"),
    ("float16", 2, 16, "<f2", "e"), ("float32", 2, 32, "<f4", "f"), ("float64", 2, 64, "<f8", "d"),
    ("complex64", 5, 64, "<c8", None), ("complex128", 5, 128, "<c16", None),
    ("bfloat16", 4, 16, None, None),
    ("float8_e3m4", 7, 8, None, None), ("float8_e4m3", 8, 8, None, None),
    ("float8_e4m3b11fnuz", 9, 8, None, None), ("float8_e4m3fn", 10, 8, None, None),
    ("float8_e4m3fnuz", 11, 8, None, None), ("float8_e5m2", 12, 8, None, None),
    ("float8_e5m2fnuz", 13, 8, None, None), ("float8_e8m0fnu", 14, 8, None, None),
)}
BYTES = DTYPES["uint8"]
_BY_TYPESTR = {d.typestr: d for d in DTYPES.values() if d.typestr}
_BY_CODE = {(d.code, d.bits): d for d in DTYPES.values()}
_ALIASES = {"half": "float16", "float": "float32", "double": "float64", "bool_": "bool"}
# Short names of gpushare-attach, which tags may use. Not for dtype_of(): in NumPy "i8" is another type.
_SHORT = {kind + str(bits): name + str(bits) for kind, name, sizes in (
    ("f", "float", (16, 32, 64)), ("bf", "bfloat", (16,)), ("i", "int", (8, 16, 32, 64)), ("u", "uint", (8, 16, 32, 64)))
    for bits in sizes}
DTypeLike = Union[str, DType, Any]


def dtype_of(what: DTypeLike) -> DType:
    """The element type of a name ("float16"), of a type of numpy or torch, or of a typestr ("<f4")."""
    if isinstance(what, DType):
        return what
    name = what if isinstance(what, str) else getattr(what, "name", None) or getattr(
        what, "__name__", None) or str(what)
    name = str(name).rsplit(".", 1)[-1]
    name = _ALIASES.get(name, name) if not isinstance(what, type) else {
        "int": "int64", "float": "float64"}.get(name, _ALIASES.get(name, name))
    found = DTYPES.get(name) or _BY_TYPESTR.get(name) or _BY_TYPESTR.get(
        "|" + name) or _BY_TYPESTR.get("<" + name) or (
        _BY_TYPESTR.get("<" + name[1:]) if name[:1] in "=|" else None)
    if not found:
        raise ValueError(f"{what!r} is not an element type of buffers; these are: {', '.join(DTYPES)}")
    return found


def dtype_from_tag(text: str) -> DType:
    """The element type of a tag's text: a short name of gpushare-attach, or a name that dtype_of() accepts."""
    return dtype_of(_SHORT.get(text, text))


def dtype_from_dlpack(code: int, bits: int, lanes: int) -> Optional[DType]:
    """The element type for DLPack's numbers; None if this package has no name for it."""
    return _BY_CODE.get((code, bits)) if lanes == 1 else None


Shape = Tuple[int, ...]
_SIZES = "(?:[0-9]+(?: *, *[0-9]+)*{}|[0-9]+(?: *x *[0-9]+)*)?"
_SHAPE = re.compile(r" *(?:\( *{0} *\)|\[ *{0} *\]|{1}) *".format(_SIZES.format("(?: *,)?"), _SIZES.format("")))


def shape_of(what: Union[int, Sequence[int]]) -> Shape:
    """A tuple of sizes, none negative."""
    sizes: Any = (what,) if hasattr(what, "__index__") else what
    shape = tuple(int(s.__index__()) for s in sizes)
    if any(s < 0 for s in shape):
        raise ValueError(f"the shape {shape} has a negative size")
    return shape


def count(shape: Shape) -> int:
    """The number of elements."""
    return math.prod(shape)


def shape_text(shape: Shape) -> str:
    """The text of the shape for a tag: "2,3"; for a scalar, ""."""
    return ",".join(map(str, shape))


def shape_from_text(text: str) -> Shape:
    """The shape for a tag's text, in the forms that gpushare-attach reads: "2,3", "2x3", "(2, 3)", "[2, 3]".

    Any other text raises ValueError.
    """
    found = _SHAPE.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a shape")
    sizes = re.findall("[0-9]+", text)
    if len(sizes) > 64 or any(len(size) > 20 for size in sizes):
        raise ValueError(f"{text!r} is not a shape")
    return tuple(map(int, sizes))


def strides_are_compact(shape: Shape, strides: Optional[Sequence[int]]) -> bool:
    """True if the strides are those of C order without gaps. They count elements; None means compact."""
    if strides is None:
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(tuple(strides))):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
