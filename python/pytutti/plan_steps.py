"""The steps of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True)
class Blocks:
    """`count` blocks of the input, the output or the scratch memory of a rank, from block `first` on."""

    buffer: str
    first: int
    count: int = 1

    def __str__(self) -> str:
        last = f"..{self.first + self.count - 1}" if self.count > 1 else ""
        return f"{self.buffer}[{self.first}{last}]"

    __repr__ = __str__

    def text(self) -> str:
        """As in a file of plans."""
        return f"{self.buffer[0]}{self.first}" + (f"+{self.count}" if self.count != 1 else "")


@dataclass(frozen=True)
class Send:
    """A message with `blocks` to rank `to`. `after` are the steps of its own rank for which a step waits."""

    to: int
    blocks: Blocks
    after: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"send {self.blocks} to {self.to}"


@dataclass(frozen=True)
class Recv:
    """The message of rank `source` goes into `into`."""

    source: int
    into: Blocks
    after: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.into} = message from {self.source}"


@dataclass(frozen=True)
class RecvReduce:
    """into = own op message of rank `source`."""

    source: int
    into: Blocks
    own: Blocks
    after: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.into} = {self.own} op message from {self.source}"


@dataclass(frozen=True)
class Copy:
    """into = blocks."""

    into: Blocks
    blocks: Blocks
    after: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.into} = {self.blocks}"


@dataclass(frozen=True)
class Reduce:
    """into = left op right."""

    into: Blocks
    left: Blocks
    right: Blocks
    after: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.into} = {self.left} op {self.right}"


Step = Union[Send, Recv, RecvReduce, Copy, Reduce]
# By verb; the fields of a class but `after` are the operands of a line in a file of plans, in its order.
STEPS: dict[str, type] = {"send": Send, "recv": Recv, "recv_reduce": RecvReduce, "copy": Copy, "reduce": Reduce}
VERBS = {kind: verb for verb, kind in STEPS.items()}
