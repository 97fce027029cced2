"""Element types: tutti's numbers for those of NumPy, of the buffer protocol and of DLPack."""

import importlib
from typing import Any, Dict, Optional

import numpy

from ._core import lib

NAMES = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "bool", "f16", "bf16", "f32", "f64", "c64", "c128")

SIZES = (1, 1, 2, 2, 4, 4, 8, 8, 1, 2, 2, 4, 8, 8, 16)  # bytes

_NUMPY = {
    "int8": lib.TUTTI_I8,
    "uint8": lib.TUTTI_U8,
    "int16": lib.TUTTI_I16,
    "uint16": lib.TUTTI_U16,
    "int32": lib.TUTTI_I32,
    "uint32": lib.TUTTI_U32,
    "int64": lib.TUTTI_I64,
    "uint64": lib.TUTTI_U64,
    "bool": lib.TUTTI_BOOL,
    "float16": lib.TUTTI_F16,
    "float32": lib.TUTTI_F32,
    "float64": lib.TUTTI_F64,
    "complex64": lib.TUTTI_C64,
    "complex128": lib.TUTTI_C128,
}

#: by numpy.dtype, in the byte order of this machine
OF_NUMPY: Dict[Any, int] = {numpy.dtype(name): number for name, number in _NUMPY.items()}
# "longlong" is int64, too, but another object, which compares equal to it.
_DTYPES: Dict[int, Any] = {number: dtype for dtype, number in OF_NUMPY.items()}

#: by code and bits of DLPack
OF_DLPACK = {
    (0, 8): lib.TUTTI_I8,
    (0, 16): lib.TUTTI_I16,
    (0, 32): lib.TUTTI_I32,
    (0, 64): lib.TUTTI_I64,
    (1, 8): lib.TUTTI_U8,
    (1, 16): lib.TUTTI_U16,
    (1, 32): lib.TUTTI_U32,
    (1, 64): lib.TUTTI_U64,
    (2, 16): lib.TUTTI_F16,
    (2, 32): lib.TUTTI_F32,
    (2, 64): lib.TUTTI_F64,
    (4, 16): lib.TUTTI_BF16,
    (5, 64): lib.TUTTI_C64,
    (5, 128): lib.TUTTI_C128,
    (6, 8): lib.TUTTI_BOOL,
}


def type_of(dtype: Any) -> Optional[int]:
    """The number of a numpy.dtype; None: there is none."""
    number = OF_NUMPY.get(dtype)
    if number is None and dtype.name == "bfloat16":  # of ml_dtypes, which NumPy does not know by itself
        number = OF_NUMPY[dtype] = lib.TUTTI_BF16
        _DTYPES[lib.TUTTI_BF16] = dtype
    return number


def dtype_of(number: int) -> Any:
    """The numpy.dtype of a number."""
    if number == lib.TUTTI_BF16 and number not in _DTYPES:
        _DTYPES[number] = numpy.dtype(importlib.import_module("ml_dtypes").bfloat16)
    return _DTYPES[number]


def named(name: Any) -> int:
    """The number of "f32", "float32", numpy.float32 or numpy.dtype("f4"), but not of a name that means two types."""
    if isinstance(name, str) and name in ("i8", "u8"):
        word = {"i": "int", "u": "uint"}[name[0]]
        raise TypeError(f"{name!r} is {word}8 for tutti and {word}64 for NumPy: write '{word}8' or '{word}64'")
    if isinstance(name, str) and name in NAMES:
        return NAMES.index(name)
    if isinstance(name, str) and name == "bfloat16":
        return int(lib.TUTTI_BF16)
    number = type_of(numpy.dtype(name))
    if number is None:
        raise TypeError(f"{name!r} is no element type of tutti: there are {', '.join(NAMES)}")
    return number
