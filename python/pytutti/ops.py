"""How reductions combine elements."""

import threading
import weakref
from typing import Any, Callable, Dict, Optional, Tuple, Union

import numpy

from . import types
from ._core import ffi, lib
from ._library import Callback, check
from .errors import Error, InvalidArgument

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

    It changes `accumulated`, or returns what is to be there instead. `dtype` is that of the elements: numpy.int64,
    "int64", or tutti's name "i64", but not "i8" and "u8", which have 8 bits for tutti and 64 for NumPy.
    The function must be associative and commutative (commutative not in scans), and must not call tutti; any thread may
    call it. What it raises ends the call of this rank and the communicator. Another rank that has what it waits for may
    get a wrong result of this call before it learns that; its next call fails.
    """

    kind = lib.TUTTI_USER

    def __init__(self, function: Callable[[Any, Any], Any], dtype: Any) -> None:
        self.function = function
        self.type = types.named(dtype)
        self._dtype = types.dtype_of(self.type)

    def of_call(self, comm: Any) -> "OpOfCall":
        return OpOfCall(_Running(self.function, self._dtype, comm), self.type)


class _Running:
    """The function of an Op in one call, and what it has raised there."""

    def __init__(self, function: Callable[[Any, Any], Any], dtype: Any, comm: Any) -> None:
        self.raised: Optional[BaseException] = None
        self._function, self._dtype = function, dtype
        self._comm = weakref.ref(comm)
        self._lock = threading.Lock()

    def combine(self, accumulated: Any, operand: Any, count: int) -> None:
        if self.raised:
            return  # the result is lost anyway
        here, there = (
            numpy.frombuffer(ffi.buffer(address, count * self._dtype.itemsize), self._dtype)
            for address in (accumulated, operand)
        )
        there.flags.writeable = False
        result = self._function(here, there)
        if result is not None:
            here[...] = result

    def note(self, raised: BaseException) -> None:
        """The communicator has to end, though perhaps nobody waits for the call. This thread must not end it."""
        with self._lock:
            if self.raised is not None:
                return
            self.raised = raised
        comm = self._comm()
        if comm is not None:
            try:
                threading.Thread(target=self.abort, args=(comm,), name="abort").start()
            except RuntimeError:
                pass  # the process ends, and the communicator with it

    def abort(self, comm: Any) -> None:
        try:
            comm.abort(f"its op raised {type(self.raised).__name__}: {self.raised}")
        except Error:
            pass  # it was closed


class OpOfCall:
    """What C knows of an Op in one call. It lives as long as the call."""

    def __init__(self, running: _Running, number: int) -> None:
        self.running = running
        self._context = ffi.new_handle(running)
        made = ffi.new("tutti_op**")
        check(lib.tutti_op_create(number, lib.pytutti_combine, self._context, made))
        self.handle = ffi.gc(made[0], lib.tutti_op_free)

    def check(self, comm: Any) -> None:
        """Raises what the function has raised, each time, once the other ranks know it."""
        if self.running.raised is not None:
            self.running.abort(comm)
            raise self.running.raised


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
    """By a signal handler, before or after the function."""
    with Callback():
        ffi.from_handle(trace.tb_frame.f_locals["context"]).note(raised)


@ffi.def_extern(onerror=_note)  # type: ignore[untyped-decorator]
def pytutti_combine(accumulated: Any, operand: Any, count: int, context: Any) -> None:
    with Callback():
        running = ffi.from_handle(context)
        try:
            running.combine(accumulated, operand, count)
        except BaseException as raised:
            running.note(raised)


def kind_of(op: AnyOp) -> Tuple[int, Any]:
    """Its number, and its handle if it has one."""
    if isinstance(op, (Op, PremulSum)):
        return op.kind, op
    kind = KINDS.get(op) if isinstance(op, str) else None
    if kind is None:
        raise InvalidArgument(
            f"there is no op {op!r}: there are {', '.join(KINDS)}, and pytutti.Op and pytutti.PremulSum"
        )
    return kind, None
