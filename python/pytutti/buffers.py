"""Arrays as C sees them: an address, a number of elements and a type, and who owns the memory. Nothing is copied.

    numpy.ndarray            by the buffer protocol
    other tensors            by DLPack, if they are in the memory of the CPU (PyTorch, JAX)
    other objects            by the buffer protocol (array.array, bytearray, memoryview, mmap)
"""

from typing import Any, Callable, NamedTuple, NoReturn, Optional, Sequence, Tuple

import numpy

from . import types
from ._core import ffi, lib
from .errors import InvalidArgument

_chars = ffi.typeof("char[]")
_from_buffer = ffi.from_buffer
_type_of = types.OF_NUMPY

_ON_CPU = (1, 3)  # kDLCPU, kDLCUDAHost

#: the remedy for what is no array of numbers
_BYTES = "text and objects are not pickled: give bytes of your own format, such as bytearray(json.dumps(x).encode())"


class View(NamedTuple):
    """The memory lives as long as this object."""

    address: Any
    count: int  # type: ignore[assignment]
    type: int
    owner: Any


# The usual case has to be fast: these save half of the time of a View.
_ndarray = numpy.ndarray
_new: Callable[..., View] = tuple.__new__

EMPTY = View(ffi.NULL, 0, 0, None)


def reading(x: Any, name: str) -> View:
    if type(x) is _ndarray:
        try:
            return _new(View, (_from_buffer(_chars, x), x.size, _type_of[x.dtype], None))
        except (KeyError, ValueError, TypeError, BufferError):
            pass  # the usual way does not serve it; below is another, or the reason
    return _view(x, name, False)


def writing(x: Any, name: str) -> View:
    if type(x) is _ndarray:
        try:
            return _new(View, (_from_buffer(_chars, x, True), x.size, _type_of[x.dtype], None))
        except (KeyError, ValueError, TypeError, BufferError):
            pass
    return _view(x, name, True)


def _refuse(x: Any, name: str, why: str) -> NoReturn:
    kind = type(x)
    raise InvalidArgument(f"{name} is a {kind.__module__}.{kind.__qualname__} {why}")


def _view(x: Any, name: str, writes: bool) -> View:
    if isinstance(x, numpy.ndarray):
        return _view_of_array(x, name, writes)
    if hasattr(x, "__dlpack_device__"):
        return _view_of_tensor(x, name, writes)
    try:
        memory = memoryview(x)
    except TypeError:
        arrays = "give a numpy.ndarray, a tensor with __dlpack__, or an object with the buffer protocol"
        is_number = isinstance(x, (int, float, complex, list, tuple))
        _refuse(x, name, f"and no array: {arrays}; {'numpy.asarray(x) makes an array of it' if is_number else _BYTES}")
    if not memory.c_contiguous:
        _refuse(x, name, "whose elements do not lie one after the other: give a contiguous copy")
    if writes and memory.readonly:
        _refuse(x, name, "which cannot be written to: give a bytearray or a numpy.ndarray")
    try:
        dtype = numpy.dtype(memory.format)
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if dtype is not None and dtype.itemsize != memory.itemsize:
        dtype = None  # letters may differ: "<l" has 8 bytes in NumPy, and 4 in the module struct
    number = None if dtype is None else types.type_of(dtype)
    if number is None:
        _refuse(
            x,
            name,
            f"of format {memory.format!r} with {memory.itemsize} bytes per element, and tutti has "
            f"{', '.join(types.NAMES)} in the byte order of this machine: memoryview(x).cast('B') gives its bytes",
        )
    # By an array, since the collector of Python crashes where cffi itself holds a memoryview.
    flat = numpy.frombuffer(memory, numpy.uint8) if memory.nbytes else numpy.empty(0, numpy.uint8)
    return View(_from_buffer(_chars, flat, writes), memory.nbytes // memory.itemsize, number, None)


def _view_of_array(x: Any, name: str, writes: bool) -> View:
    if isinstance(x, numpy.ma.MaskedArray):
        _refuse(x, name, "and its mask would be ignored: give x.filled(...) or x.data")
    number = types.type_of(x.dtype)
    if number is None and x.dtype.kind in "OU":
        _refuse(x, name, f"of dtype {x.dtype.str}: x.astype() converts numbers; {_BYTES}")
    if number is None:
        _refuse(
            x,
            name,
            f"of dtype {x.dtype.str if x.dtype.fields is None else x.dtype}, and tutti has "
            f"{', '.join(types.NAMES)} in the byte order of this machine: x.astype() converts it"
            + ("" if x.dtype.hasobject else ", and x.view(numpy.uint8) gives its bytes"),
        )
    if not x.flags.c_contiguous:
        _refuse(
            x,
            name,
            "whose elements do not lie one after the other in memory (C order): give "
            "numpy.ascontiguousarray(x)" + (", and copy it back afterwards" if writes else ""),
        )
    if writes and not x.flags.writeable:
        _refuse(x, name, "which is read-only: give x.copy()")
    plain = x.view(numpy.uint16) if number == lib.TUTTI_BF16 else x.view(numpy.ndarray)
    return View(_from_buffer(_chars, plain, writes), x.size, number, None)


def _view_of_tensor(x: Any, name: str, writes: bool) -> View:
    try:
        on_cpu = x.__dlpack_device__()[0] in _ON_CPU
        capsule = _capsule_of(x) if on_cpu else None
    except (BufferError, RuntimeError, ValueError) as error:
        _refuse(x, name, f"that cannot be read: {error}")
    if not on_cpu:
        _refuse(x, name, "in the memory of a device, and tutti reads the CPU's: give a copy there (x.cpu() of PyTorch)")
    tensor = ffi.new("pytutti_tensor*")
    if lib.pytutti_read_capsule(id(capsule), tensor):
        _refuse(x, name, "whose __dlpack__ gives something other than a tensor of version 1")
    number = types.OF_DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if number is None:
        _refuse(
            x,
            name,
            f"with elements of DLPack's type {tensor.code}, {tensor.bits} bits, and tutti has "
            f"{', '.join(types.NAMES)}: convert it, or give its bytes, such as x.view(torch.uint8) of PyTorch",
        )
    if not tensor.contiguous:
        _refuse(x, name, "whose elements do not lie one after the other: give x.contiguous()")
    if writes and tensor.read_only:
        _refuse(x, name, "which is read-only: give a copy")
    return View(tensor.data, tensor.count, number, capsule)


def _capsule_of(x: Any) -> Any:
    try:
        return x.__dlpack__(max_version=(1, 0))
    except TypeError:  # an older one, which does not know versions
        return x.__dlpack__()


# ---- Results


def shape_of(x: Any) -> Tuple[int, ...]:
    shape = getattr(x, "shape", None)
    return tuple(shape) if shape is not None else tuple(memoryview(x).shape or ())


def empty(x: Any, number: int, shape: Sequence[int]) -> Any:
    """A new array of the kind of `x`: a NumPy array, or a tensor if `x` can make one."""
    new_empty = getattr(x, "new_empty", None)
    if new_empty is not None:
        return new_empty(shape)
    return numpy.empty(shape, types.dtype_of(number))


def require(view: View, name: str, count: int, number: int, why: str, beside: Optional[str] = None) -> None:
    """C trusts the counts, so they are compared here."""
    if view.type != number and count:
        raise InvalidArgument(
            f"{name} has elements of {types.NAMES[view.type]}, but {beside or 'x'} of "
            f"{types.NAMES[number]}: give both the same type"
        )
    if view.count != count:
        raise InvalidArgument(f"{name} has {view.count} elements, but {why} {count}")
