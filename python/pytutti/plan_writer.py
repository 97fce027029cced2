"""Algorithms of your own: functions that write down what each rank does.

@pytutti.algorithm("all_reduce")
def mine(p):                         # what rank p.rank of p.ranks does
    ...
mine(ranks=4).check().save("mine.plan")
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from .names import no_collective
from .plan_steps import VERBS, Blocks, Copy, Recv, RecvReduce, Reduce, Send, Step
from .plans import Plan, PlanError, Source


class _Buffer:
    """Blocks of a buffer: one by its number, counted around a circle (block -1 is the last), several by a slice."""

    def __init__(self, name: str, blocks: int, pipeline: int) -> None:
        self._name, self._blocks, self._pipeline = name, blocks, pipeline

    def __getitem__(self, at: int | slice) -> Blocks:
        if not isinstance(at, slice):
            return Blocks(self._name, at % self._blocks)
        first, last, step = at.indices(self._blocks)
        if step != 1 or first >= last:
            raise IndexError(
                f"{self._name}[{at.start}:{at.stop}] are no blocks that follow each other; there are {self._blocks}"
            )
        return Blocks(self._name, first, last - first)

    def part(self, rank: int) -> Blocks:
        """The blocks that belong to a rank: `pipeline` of them."""
        first = rank * self._pipeline % self._blocks
        return Blocks(self._name, first, self._pipeline)


@dataclass
class Rank:
    """What one rank does, while an algorithm writes it down. Peers and blocks are counted around a circle: in a plan
    over 4 ranks, rank 4 is rank 0 and block -1 is block 3. Each call adds a step and returns its number, for `after`.
    """

    rank: int
    ranks: int
    root: int
    pipeline: int
    _scratch: list[int] = field(default_factory=list, repr=False)
    _lines: list[str] = field(default_factory=list, repr=False)
    _origins: list[str] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        blocks = self.ranks * self.pipeline
        self.input = _Buffer("input", blocks, self.pipeline)
        self.output = _Buffer("output", blocks, self.pipeline)

    def scratch(self, like: Blocks) -> Blocks:
        """New memory of this rank, as large as those blocks."""
        first = len(self._scratch)
        for number in range(like.first, like.first + like.count):
            self._scratch.append(self._scratch[number] if like.buffer == "scratch" else number)
        return Blocks("scratch", first, like.count)

    def send(self, to: int, blocks: Blocks, *, after: Iterable[int] = ()) -> int:
        """`blocks` go to rank `to`."""
        return self._add(Send(to % self.ranks, blocks, tuple(after)))

    def recv(self, source: int, into: Blocks, *, after: Iterable[int] = ()) -> int:
        """The message of rank `source` goes into `into`."""
        return self._add(Recv(source % self.ranks, into, tuple(after)))

    def recv_reduce(self, source: int, into: Blocks, own: Blocks | None = None, *, after: Iterable[int] = ()) -> int:
        """into = own op the message of rank `source`; `own` is `into` unless it is given."""
        return self._add(RecvReduce(source % self.ranks, into, into if own is None else own, tuple(after)))

    def copy(self, into: Blocks, blocks: Blocks, *, after: Iterable[int] = ()) -> int:
        """into = blocks."""
        return self._add(Copy(into, blocks, tuple(after)))

    def reduce(self, into: Blocks, left: Blocks, right: Blocks, *, after: Iterable[int] = ()) -> int:
        """into = left op right."""
        return self._add(Reduce(into, left, right, tuple(after)))

    def _add(self, step: Step) -> int:
        operands = [getattr(step, one.name) for one in fields(step) if one.name != "after"]
        words = [VERBS[type(step)], *(one.text() if isinstance(one, Blocks) else str(one) for one in operands)]
        self._lines.append(" ".join([*words, *(["after", *map(str, step.after)] if step.after else [])]))
        code, line = sys._getframe(2).f_code, sys._getframe(2).f_lineno
        self._origins.append(f"line {line} of {code.co_name if code.co_name != '<module>' else code.co_filename}")
        return len(self._lines) - 1


@dataclass(frozen=True)
class Algorithm:
    """A function that writes what a rank does. Called with a number of ranks it makes a Plan."""

    collective: str
    name: str
    write: Callable[[Rank], object]
    traits: tuple[str, ...]

    def __call__(self, ranks: int, *, root: int = 0, pipeline: int = 1, **model: Any) -> Plan:
        """The plan over so many ranks, which cuts each rank's part into `pipeline` blocks. `bytes`, `latency` and
        `bandwidth` are those of Plan.at(). The plan may be wrong: Plan.check() says so, and only right ones run."""
        lines = [
            "tutti-plans 1",
            " ".join([f"{self.collective} {self.name} ranks {ranks} root {root} pipeline {pipeline}", *self.traits]),
        ]
        origins = ["", ""]
        for rank in range(ranks):
            one = Rank(rank, ranks, root, pipeline)
            self.write(one)
            lines += [
                f"rank {rank}" + "".join([" scratch", *(f" {like}" for like in one._scratch)] if one._scratch else []),
                *one._lines,
            ]
            origins += ["", *one._origins]
        return Plan(Source(file=f"{self.name}.plan", text="\n".join(lines) + "\n", origins=tuple(origins)), **model)


def algorithm(
    collective: str,
    name: str | None = None,
    *,
    derive_waits: bool = True,
    equal_parts: bool = False,
    rank_order: bool = False,
) -> Callable[[Callable[[Rank], object]], Algorithm]:
    """Makes an algorithm of a function that writes what a rank does, step by step.

    The steps of a rank must be right if they are run one after the other. What may overlap is derived: a step waits for
    the last one that wrote what it uses, and for those that still read what it writes. With derive_waits=False a step
    waits for those in its `after` only. equal_parts: all parts of an all_to_all must have one size. rank_order: every
    result is folded in the order of ranks, so that it may serve under `deterministic`; this is proved, too."""
    if not isinstance(collective, str):
        raise PlanError('give the collective: @pytutti.algorithm("all_reduce")')
    wrong = no_collective(collective)
    if wrong:
        raise PlanError(f"@pytutti.algorithm: {wrong}")
    traits = [("equal-parts", equal_parts), ("rank-order", rank_order), ("derive-waits", derive_waits)]

    def made(write: Callable[[Rank], object]) -> Algorithm:
        word = name or write.__name__
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", word):
            raise PlanError(f'"{word}" cannot name an algorithm, which takes letters, digits, "_", "-" and "."')
        return Algorithm(collective, word, write, tuple(word for word, is_so in traits if is_so))

    return made
