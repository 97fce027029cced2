"""Ranks as threads of one process: for notebooks and tests."""

import contextlib
import threading
import time
from typing import Any, Callable, List, Optional, Tuple

from ._library import end_calls_at
from .communicator import Communicator, connect
from .errors import Aborted, Error, InvalidArgument
from .meeting import UniqueId


class _Rank(threading.Thread):
    def __init__(
        self,
        rank: int,
        size: int,
        id: UniqueId,
        end: threading.Event,
        function: Callable[..., Any],
        arguments: Any,
        options: Any,
    ) -> None:
        super().__init__(name=f"rank {rank}", daemon=True)
        self.comm: Optional[Communicator] = None
        self.result: Any = None
        self.raised: Optional[BaseException] = None
        self.raised_at = 0.0
        self._body = (rank, size, id, end, function, arguments, options)

    def run(self) -> None:
        rank, size, id, end, function, arguments, options = self._body
        end_calls_at(end)
        try:
            with connect(rank, size, id=id, **options) as self.comm:
                if end.is_set():  # before the caller saw this communicator, which it would have aborted
                    return
                try:
                    self.result = function(self.comm, *arguments)
                except BaseException as raised:
                    self._keep(raised)  # before the others hear of it, when `comm` ends
                    raise
        except BaseException as raised:
            if self.raised is None:
                self._keep(raised)

    def _keep(self, raised: BaseException) -> None:
        self.raised, self.raised_at = raised, time.monotonic()

    def order(self) -> Tuple[bool, bool, float]:
        """Of what ranks have raised the lowest is the cause: not what a rank was told of, nor what ended its calls."""
        reported = isinstance(self.raised, Error) and self.raised.reported
        return reported, isinstance(self.raised, Aborted), self.raised_at


def run_threads(size: int, function: Callable[..., Any], *arguments: Any, **options: Any) -> List[Any]:
    """Calls function(comm, *arguments) in `size` threads, each of which is a rank, and returns their results by rank.

    The options are those of connect(). If a rank raises, the others get Aborted, and what it has raised is raised here.
    If several raise, it is the first in time that is no report of another rank's failure. Ctrl-C ends all of them.
    """
    if not isinstance(size, int) or not callable(function):
        raise InvalidArgument(f"run_threads({size!r}, {function!r}): give the number of ranks, then a function")
    if size < 1:
        raise InvalidArgument(f"there cannot be {size} ranks")
    id, end = UniqueId(), threading.Event()
    ranks = [_Rank(rank, size, id, end, function, arguments, options) for rank in range(size)]
    try:
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
    except BaseException as interruption:
        end.set()
        for rank in ranks:
            if rank.comm is not None:
                with contextlib.suppress(Error):  # it is closed
                    rank.comm.abort(type(interruption).__name__)
        raise
    for rank in sorted(ranks, key=_Rank.order):
        if rank.raised is not None:
            raise rank.raised
    return [rank.result for rank in ranks]
