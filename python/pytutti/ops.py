"""How reductions combine elements."""

import threading
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import numpy

from . import types
from ._core import ffi, lib
from ._library import Callback, check
from .errors import InvalidArgument

KINDS: Dict[Any, int] = {
    "sum": lib.TUTTI_SUM,
    "product": lib.TUTTI_PRODUCT,
    "min": lib.TUTTI_MIN,
    "max": lib.TUTTI_MAX,
    "band": lib.TUTTI_BAND,
    "bor": lib.TUTTI_BOR,
    "bxor": lib.TUTTI_BXOR,
    "avg": lib.TUTTI_AVG,
}


class Op:
    """A function of two arrays, as an op: `function(accumulated, operand)`.

    It changes `accumulated`, or returns what is to be there instead. `dtype` is that of the elements. The function must
    be associative and commutative (commutative not in scans), and must not call tutti; any thread may call it. What it
    raises ends the call of this rank and the communicator.
    """

    kind = lib.TUTTI_USER

    def __init__(self, function: Callable[[Any, Any], Any], dtype: Any) -> None:
        self.function = function
        self.type = types.named(dtype)
        self._dtype = types.dtype_of(self.type)
        self._itemsize = self._dtype.itemsize
        self._lock = threading.Lock()
        self._raised: List[BaseException] = []
        self._context = ffi.new_handle(self)
        made = ffi.new("tutti_op**")
        check(lib.tutti_op_create(self.type, lib.pytutti_combine, self._context, made))
        self.handle = ffi.gc(made[0], lib.tutti_op_free)

    def combine(self, accumulated: Any, operand: Any, count: int) -> None:
        if self._raised:
            return  # the result is lost anyway
        here, there = (
            numpy.frombuffer(ffi.buffer(address, count * self._itemsize), self._dtype)
            for address in (accumulated, operand)
        )
        there.flags.writeable = False
        result = self.function(here, there)
        if result is not None:
            here[...] = result

    def note(self, raised: BaseException) -> None:
        with self._lock:
            self._raised.append(raised)

    def take_raised(self) -> Optional[BaseException]:
        """What the function has raised since the last time, first."""
        with self._lock:
            raised = self._raised[0] if self._raised else None
            self._raised.clear()
        return raised


class PremulSum:
    """The sum of factor * x, of floating and complex types."""

    kind = lib.TUTTI_PREMUL_SUM

    def __init__(self, factor: float) -> None:
        self.factor = factor
        made = ffi.new("tutti_op**")
        check(lib.tutti_op_create_premul_sum(factor, made))
        self.handle = ffi.gc(made[0], lib.tutti_op_free)


AnyOp = Union[str, Op, PremulSum]


def _note(kind: Any, raised: BaseException, trace: Any) -> None:
    op = ffi.from_handle(trace.tb_frame.f_locals["context"])
    op.note(raised)


@ffi.def_extern(onerror=_note)  # type: ignore[untyped-decorator]
def pytutti_combine(accumulated: Any, operand: Any, count: int, context: Any) -> None:
    with Callback():
        ffi.from_handle(context).combine(accumulated, operand, count)


def kind_of(op: AnyOp) -> Tuple[int, Any]:
    """Its number, and its handle if it has one."""
    if isinstance(op, (Op, PremulSum)):
        return op.kind, op
    kind = KINDS.get(op)
    if kind is None:
        raise InvalidArgument(
            f"there is no op {op!r}: there are {', '.join(KINDS)}, and pytutti.Op and pytutti.PremulSum"
        )
    return kind, None
