"""The collectives, each once: a communicator waits for them, `comm.start` starts them, `comm.prepare` prepares them."""

from typing import Any, Generic, Optional, Sequence, Tuple, TypeVar

from ._core import ffi, lib
from ._library import Seconds, call_options, integer
from .buffers import EMPTY, View, empty, reading, require, shape_of, writing
from .errors import InvalidArgument
from .ops import KINDS, AnyOp, Op, kind_of
from .types import SIZES

NULL = ffi.NULL
Result = TypeVar("Result")
Counts = Sequence[int]


class Collectives(Generic[Result]):
    """Below n is the number of ranks, r is this rank, and x_k is `x` on rank k.

    Arrays:     NumPy's, tensors with `__dlpack__` in the CPU's memory, objects with the buffer protocol; contiguous.
                Nothing is copied. Sizes count, and not shapes.
    out:        None makes a new array, of the kind of `x`, but not in scatter() and scatter_v() on ranks other than the
                root. `out` may be `x` itself where both have one size, and for all_gather, gather, scatter and
                reduce_scatter one may be this rank's part of the other.
    op:         "sum", "product", "min", "max", "band", "bor", "bxor", "avg", an Op or a PremulSum.
                With a NaN among the elements the result is NaN, also of "min" and "max".
    algorithm:  "ring", "tree:4" (`tutti plan --list`); None: plan_file, TUTTI_ALGO or the tuning table
                chooses, in this order.
    timeout:    seconds; None: the communicator's.
    Agreement:  all ranks make the same calls on a communicator, in the same order, with the same sizes, type, op and
                root; else Mismatch.
    """

    rank: int
    size: int

    def _perform(
        self, function: Any, arguments: Tuple[Any, ...], options: Any, out: Any, keep: Tuple[Any, ...]
    ) -> Result:
        raise NotImplementedError

    def _extras(self, algorithm: Optional[str], timeout: Seconds, op: Any) -> Any:
        """None, where there are none; else what tutti_call_options and its texts are made of."""
        if algorithm is None and timeout is None and op is None:
            return None
        return algorithm, timeout, op

    # ---- All ranks get a result

    def all_reduce(
        self, x: Any, out: Any = None, op: AnyOp = "sum", *, algorithm: Optional[str] = None, timeout: Seconds = None
    ) -> Result:
        """out[i] = x_0[i] op ... op x_{n-1}[i], on every rank, with the same bits everywhere."""
        return self._combine(lib.tutti_all_reduce, x, out, op, algorithm, timeout)

    def scan(
        self, x: Any, out: Any = None, op: AnyOp = "sum", *, algorithm: Optional[str] = None, timeout: Seconds = None
    ) -> Result:
        """out[i] = x_0[i] op ... op x_r[i]. Lower ranks stand on the left. There is no "avg"."""
        return self._combine(lib.tutti_scan, x, out, op, algorithm, timeout)

    def exclusive_scan(
        self, x: Any, out: Any = None, op: AnyOp = "sum", *, algorithm: Optional[str] = None, timeout: Seconds = None
    ) -> Result:
        """Like scan(), but without x_r. On rank 0 `out` stays as it is, and a new one has the values of `x`."""
        if out is None:
            out = _copy_if(x, self.rank == 0)
        return self._combine(lib.tutti_exclusive_scan, x, out, op, algorithm, timeout)

    def all_gather(
        self, x: Any, out: Any = None, *, algorithm: Optional[str] = None, timeout: Seconds = None
    ) -> Result:
        """The parts of all ranks one after the other, along the first axis. `out` has n times the elements of `x`."""
        source = reading(x, "x")
        if out is None:
            out = empty(x, source.type, _gathered(shape_of(x), self.size))
        target = writing(out, "out")
        require(target, "out", source.count * self.size, source.type, f"the x of {self.size} ranks have")
        return self._move(
            lib.tutti_all_gather, source, target, source.count, source.type, (), out, x, algorithm, timeout
        )

    def reduce_scatter(
        self, x: Any, out: Any = None, op: AnyOp = "sum", *, algorithm: Optional[str] = None, timeout: Seconds = None
    ) -> Result:
        """Part r of the reduction: `x` has n parts along its first axis, and `out` is one of them."""
        source = reading(x, "x")
        count = self._part(source, "x")
        if out is None:
            out = empty(x, source.type, _divided(shape_of(x), self.size, "x"))
        target = writing(out, "out")
        require(target, "out", count, source.type, f"one of {self.size} parts of x has")
        kind, special = kind_of(op)
        return self._move(
            lib.tutti_reduce_scatter, source, target, count, source.type, (kind,), out, x, algorithm, timeout, special
        )

    def all_to_all(
        self, x: Any, out: Any = None, *, algorithm: Optional[str] = None, timeout: Seconds = None
    ) -> Result:
        """Part k of `x` goes to rank k, and part k of `out` comes from it. Both have n parts along their first axis."""
        source = reading(x, "x")
        count = self._part(source, "x")
        if out is None:
            out = empty(x, source.type, shape_of(x))
        target = writing(out, "out")
        require(target, "out", source.count, source.type, "x has")
        return self._move(lib.tutti_all_to_all, source, target, count, source.type, (), out, x, algorithm, timeout)

    def barrier(self, *, algorithm: Optional[str] = None, timeout: Seconds = None) -> Result:
        """No rank is done before every rank has called."""
        return self._perform(lib.tutti_barrier, (), self._extras(algorithm, timeout, None), None, ())

    # ---- One rank, the root, gives or gets

    def broadcast(self, x: Any, root: int = 0, *, algorithm: Optional[str] = None, timeout: Seconds = None) -> Result:
        """x = x_root on every rank, in place."""
        root = self._root(root)
        data = reading(x, "x") if self.rank == root else writing(x, "x")
        return self._perform(
            lib.tutti_broadcast,
            (data.address, data.count, data.type, root),
            self._extras(algorithm, timeout, None),
            x,
            (x, data),
        )

    def reduce(
        self,
        x: Any,
        out: Any = None,
        op: AnyOp = "sum",
        root: int = 0,
        *,
        algorithm: Optional[str] = None,
        timeout: Seconds = None,
    ) -> Result:
        """Like all_reduce(), on the root only. Elsewhere `out` is not used, and the result is None."""
        root = self._root(root)
        source = reading(x, "x")
        target = EMPTY
        if self.rank == root:
            if out is None:
                out = empty(x, source.type, shape_of(x))
            target = writing(out, "out")
            require(target, "out", source.count, source.type, "x has")
        else:
            out = None
        kind, special = kind_of(op)
        return self._move(
            lib.tutti_reduce,
            source,
            target,
            source.count,
            source.type,
            (kind, root),
            out,
            x,
            algorithm,
            timeout,
            special,
        )

    def gather(
        self, x: Any, out: Any = None, root: int = 0, *, algorithm: Optional[str] = None, timeout: Seconds = None
    ) -> Result:
        """Like all_gather(), on the root only. Elsewhere `out` is not used, and the result is None."""
        root = self._root(root)
        source = reading(x, "x")
        target = EMPTY
        if self.rank == root:
            if out is None:
                out = empty(x, source.type, _gathered(shape_of(x), self.size))
            target = writing(out, "out")
            require(target, "out", source.count * self.size, source.type, f"the x of {self.size} ranks have")
        else:
            out = None
        return self._move(
            lib.tutti_gather,
            source,
            target,
            source.count,
            source.type,
            (root,),
            out,
            x,
            algorithm,
            timeout,
        )

    def scatter(
        self, x: Any = None, out: Any = None, root: int = 0, *, algorithm: Optional[str] = None, timeout: Seconds = None
    ) -> Result:
        """Part k of `x` of the root goes to rank k. Elsewhere `x` is not used, and `out` must be given."""
        root = self._root(root)
        source = EMPTY
        if self.rank == root:
            source = reading(x, "x")
            count = self._part(source, "x")
            if out is None:
                out = empty(x, source.type, _divided(shape_of(x), self.size, "x"))
            target = writing(out, "out")
            require(target, "out", count, source.type, f"one of {self.size} parts of x has")
        else:
            target = writing(out, "out") if out is not None else lacks_out("scatter")
        return self._move(
            lib.tutti_scatter,
            source,
            target,
            target.count,
            target.type,
            (root,),
            out,
            x,
            algorithm,
            timeout,
        )

    # ---- How they are called

    def _combine(
        self, function: Any, x: Any, out: Any, op: AnyOp, algorithm: Optional[str], timeout: Seconds
    ) -> Result:
        if out is x:
            source = target = writing(x, "x")
        else:
            source = reading(x, "x")
            if out is None:
                out = empty(x, source.type, shape_of(x))
            target = writing(out, "out")
            if target.count != source.count or target.type != source.type:
                require(target, "out", source.count, source.type, "x has")
        kind = KINDS.get(op) if isinstance(op, str) else None
        if kind is not None and algorithm is None and timeout is None:
            return self._perform(
                function,
                (source.address, target.address, source.count, source.type, kind),
                None,
                out,
                (x, source, target),
            )
        kind, special = kind_of(op)
        return self._move(
            function, source, target, source.count, source.type, (kind,), out, x, algorithm, timeout, special
        )

    def _move(
        self,
        function: Any,
        source: View,
        target: View,
        count: int,
        number: int,
        rest: Tuple[int, ...],
        out: Any,
        x: Any,
        algorithm: Optional[str],
        timeout: Seconds,
        op: Any = None,
    ) -> Result:
        return self._perform(
            function,
            (source.address, target.address, count, number, *rest),
            self._extras(algorithm, timeout, op),
            out,
            (x, out, source, target),
        )

    def _root(self, root: Any) -> int:
        return integer("root", root, 0, self.size - 1)

    def _part(self, view: View, name: str) -> int:
        if view.count % self.size:
            raise InvalidArgument(
                f"{name} has {view.count} elements, which cannot be divided into {self.size} parts: see "
                "the calls whose names end in _v"
            )
        return view.count // self.size


def lacks_out(name: str) -> View:
    raise InvalidArgument(f"{name}: out must be given on ranks other than the root, which do not know its size")


def _copy_if(x: Any, wanted: bool) -> Any:
    source = reading(x, "x")
    made = empty(x, source.type, shape_of(x))
    if wanted:
        target = writing(made, "out")
        ffi.memmove(target.address, source.address, source.count * SIZES[source.type])
    return made


def _gathered(shape: Tuple[int, ...], ranks: int) -> Tuple[int, ...]:
    return (ranks * shape[0], *shape[1:]) if shape else (ranks,)


def _divided(shape: Tuple[int, ...], ranks: int, name: str) -> Tuple[int, ...]:
    if not shape or shape[0] % ranks:
        raise InvalidArgument(
            f"the first axis of {name}, of shape {shape}, cannot be divided into {ranks} parts: give out, "
            "or another shape"
        )
    return (shape[0] // ranks, *shape[1:])


def options_of(extras: Any, comm: Any) -> Tuple[Any, Any]:
    """tutti_call_options, and what has to live as long: its text and op."""
    if extras is None:
        return call_options(None), (None, None)
    algorithm, timeout, op = extras
    if algorithm is not None and not isinstance(algorithm, str):
        raise InvalidArgument(f'algorithm is {algorithm!r}: give a text such as "ring", or None')
    text = NULL if algorithm is None else ffi.new("char[]", algorithm.encode())
    options = call_options(timeout)
    options.algorithm = text
    if op is not None:
        if isinstance(op, Op):
            op = op.of_call(comm)
        options.op = op.handle
    return options, (text, op)
