"""Ranks as threads of one process: for notebooks and tests."""

import threading
from typing import Any, Callable, List, Optional

from .communicator import Communicator, connect
from .errors import Aborted, InvalidArgument
from .meeting import UniqueId


class _Rank(threading.Thread):
    def __init__(
        self, rank: int, size: int, id: UniqueId, function: Callable[..., Any], arguments: Any, options: Any
    ) -> None:
        super().__init__(name=f"rank {rank}", daemon=True)
        self.comm: Optional[Communicator] = None
        self.result: Any = None
        self.raised: Optional[BaseException] = None
        self._body = (rank, size, id, function, arguments, options)

    def run(self) -> None:
        rank, size, id, function, arguments, options = self._body
        try:
            with connect(rank, size, id=id, **options) as self.comm:
                self.result = function(self.comm, *arguments)
        except BaseException as raised:  # the caller raises it
            self.raised = raised


def run_threads(size: int, function: Callable[..., Any], *arguments: Any, **options: Any) -> List[Any]:
    """Calls function(comm, *arguments) in `size` threads, each of which is a rank, and returns their results by rank.

    The options are those of connect(). If a rank raises, the others get Aborted, and what it has raised is raised here.
    Ctrl-C ends all of them.
    """
    if not isinstance(size, int) or not callable(function):
        raise InvalidArgument(f"run_threads({size!r}, {function!r}): give the number of ranks, then a function")
    if size < 1:
        raise InvalidArgument(f"there cannot be {size} ranks")
    id = UniqueId()
    ranks = [_Rank(rank, size, id, function, arguments, options) for rank in range(size)]
    for rank in ranks:
        rank.start()
    try:
        for rank in ranks:
            rank.join()
    except BaseException as interruption:
        for rank in ranks:
            if rank.comm is not None and rank.comm._handle:
                rank.comm.abort(type(interruption).__name__)
        raise
    raised = [rank.raised for rank in ranks if rank.raised is not None]
    for first in [one for one in raised if not isinstance(one, Aborted)] or raised:
        raise first
    return [rank.result for rank in ranks]
