"""The collectives in which each rank has a number of elements of its own."""

from typing import Any, Optional, Sequence, Tuple

from ._core import ffi, lib
from ._library import Seconds, integer
from .buffers import EMPTY, View, empty, reading, require, writing
from .collectives import NULL, Collectives, Counts, Result, lacks_out
from .errors import InvalidArgument
from .ops import AnyOp, kind_of


class VariableCollectives(Collectives[Result]):
    """`counts` has one entry per rank, the same on all ranks, of elements.

    The part of rank k begins at element displacements[k] of the larger array, which may leave gaps. None: the parts lie
    one after the other. A new `out` has one axis.
    """

    def all_gather_v(
        self,
        x: Any,
        counts: Counts,
        out: Any = None,
        *,
        displacements: Optional[Counts] = None,
        algorithm: Optional[str] = None,
        timeout: Seconds = None,
    ) -> Result:
        """x_k has counts[k] elements."""
        parts = _Parts(self, "counts", counts, displacements)
        source = parts.own(reading(x, "x"), "x", self.rank)
        out = empty(x, source.type, (parts.extent,)) if out is None else out
        target = parts.whole(writing(out, "out"), "out", source.type)
        return self._move_parts(
            lib.tutti_all_gather_v, source, target, None, parts, source.type, (), out, x, algorithm, timeout
        )

    def gather_v(
        self,
        x: Any,
        counts: Counts,
        out: Any = None,
        root: int = 0,
        *,
        displacements: Optional[Counts] = None,
        algorithm: Optional[str] = None,
        timeout: Seconds = None,
    ) -> Result:
        """The same on the root only. Elsewhere `out` is not used, and the result is None."""
        root = self._root(root)
        parts = _Parts(self, "counts", counts, displacements)
        source = parts.own(reading(x, "x"), "x", self.rank)
        target = EMPTY
        if self.rank == root:
            out = empty(x, source.type, (parts.extent,)) if out is None else out
            target = parts.whole(writing(out, "out"), "out", source.type)
        else:
            out = None
        return self._move_parts(
            lib.tutti_gather_v, source, target, None, parts, source.type, (root,), out, x, algorithm, timeout
        )

    def reduce_scatter_v(
        self,
        x: Any,
        counts: Counts,
        out: Any = None,
        op: AnyOp = "sum",
        *,
        displacements: Optional[Counts] = None,
        algorithm: Optional[str] = None,
        timeout: Seconds = None,
    ) -> Result:
        """`x` has counts[k] elements for rank k."""
        parts = _Parts(self, "counts", counts, displacements)
        source = reading(x, "x")
        parts.whole(source, "x", source.type)
        out = empty(x, source.type, (parts.counts[self.rank],)) if out is None else out
        target = parts.own(writing(out, "out"), "out", self.rank, source.type)
        kind, special = kind_of(op)
        return self._move_parts(
            lib.tutti_reduce_scatter_v, source, target, None, parts, source.type, (kind,), out, x, algorithm, timeout,
            special,
        )

    def scatter_v(
        self,
        x: Any,
        counts: Counts,
        out: Any = None,
        root: int = 0,
        *,
        displacements: Optional[Counts] = None,
        algorithm: Optional[str] = None,
        timeout: Seconds = None,
    ) -> Result:
        """`x` of the root has counts[k] elements for rank k. Elsewhere `x` is not used, and `out` must be given."""
        root = self._root(root)
        parts = _Parts(self, "counts", counts, displacements)
        source = EMPTY
        if self.rank == root:
            source = reading(x, "x")
            parts.whole(source, "x", source.type)
            out = empty(x, source.type, (parts.counts[self.rank],)) if out is None else out
        elif out is None:
            lacks_out("scatter_v")
        target = parts.own(writing(out, "out"), "out", self.rank, source.type if self.rank == root else None)
        return self._move_parts(
            lib.tutti_scatter_v, source, target, None, parts, target.type, (root,), out, x, algorithm, timeout
        )

    def all_to_all_v(
        self,
        x: Any,
        send_counts: Counts,
        recv_counts: Counts,
        out: Any = None,
        *,
        send_displacements: Optional[Counts] = None,
        recv_displacements: Optional[Counts] = None,
        algorithm: Optional[str] = None,
        timeout: Seconds = None,
    ) -> Result:
        """Sends send_counts[k] elements to rank k and gets recv_counts[k] from it. `out` is not `x`."""
        sent = _Parts(self, "send_counts", send_counts, send_displacements)
        got = _Parts(self, "recv_counts", recv_counts, recv_displacements)
        source = reading(x, "x")
        sent.whole(source, "x", source.type)
        out = empty(x, source.type, (got.extent,)) if out is None else out
        target = got.whole(writing(out, "out"), "out", source.type)
        return self._move_parts(
            lib.tutti_all_to_all_v, source, target, sent, got, source.type, (), out, x, algorithm, timeout
        )

    def _move_parts(
        self,
        function: Any,
        source: View,
        target: View,
        sent: "Optional[_Parts]",
        got: "_Parts",
        number: int,
        rest: Tuple[int, ...],
        out: Any,
        x: Any,
        algorithm: Optional[str],
        timeout: Seconds,
        op: Any = None,
    ) -> Result:
        """C has counts and displacements after both arrays, or, of an all_to_all_v, after each."""
        arrays = (source.address, *(sent.arguments if sent else ()), target.address, *got.arguments)
        return self._perform(
            function, (*arrays, number, *rest), self._extras(algorithm, timeout, op), out, (x, out, source, target)
        )


class _Parts:
    """Counts and displacements, checked and as C takes them."""

    def __init__(self, calls: Collectives[Any], name: str, counts: Counts, displacements: Optional[Counts]) -> None:
        self.name = name
        self.counts = _numbers(name, counts, calls.size)
        given = None if displacements is None else _numbers("displacements", displacements, calls.size)
        self.extent = (
            sum(self.counts)
            if given is None
            else max((begin + count for begin, count in zip(given, self.counts) if count), default=0)
        )
        self.arguments: Tuple[Any, Any] = (
            ffi.new("uint64_t[]", self.counts),
            NULL if given is None else ffi.new("uint64_t[]", given),
        )

    def own(self, view: View, name: str, rank: int, number: Optional[int] = None) -> View:
        require(
            view,
            name,
            self.counts[rank],
            view.type if number is None else number,
            f"{self.name}[{rank}] of this rank is",
        )
        return view

    def whole(self, view: View, name: str, number: int) -> View:
        """It may be longer than the last part needs."""
        if view.type != number or view.count < self.extent:
            require(view, name, self.extent, number, f"the parts of {self.name} need")
        return view


def _numbers(name: str, numbers: Sequence[int], ranks: int) -> "list[int]":
    if not hasattr(numbers, "__iter__"):
        raise InvalidArgument(f"{name} is {numbers!r}: give a list with a number for each of {ranks} ranks")
    found = [integer(f"{name}[{rank}]", number, 0, 2**60) for rank, number in enumerate(numbers)]
    if len(found) != ranks:
        raise InvalidArgument(f"{name} has {len(found)} entries, and there are {ranks} ranks: give one for each")
    return found
