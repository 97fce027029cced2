"""Calls that were started, and calls that were prepared."""

import asyncio
from typing import Any, Callable, Generator, Iterable, List, NamedTuple, Optional, Tuple

from ._core import ffi, lib
from ._library import (
    Callback,
    NoCopies,
    Seconds,
    callbacks,
    check,
    fail,
    interrupted,
    limit,
    refuse_in_callback,
    soon,
)
from .errors import InvalidArgument


class Status(NamedTuple):
    """A message: who sent it, with which tag, and how many elements it has."""

    source: int
    tag: int
    count: int  # type: ignore[assignment]


def status_of(status: Any) -> Status:
    return Status(status.source, status.tag, status.count)


class _Continuation:
    """What is to be called when an operation is done, and what has to live until then."""

    alive: "set[_Continuation]" = set()

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.handle = ffi.new_handle(self)
        self.alive.add(self)


@ffi.def_extern()  # type: ignore[untyped-decorator]
def pytutti_done(context: Any) -> None:
    with Callback():
        continuation = ffi.from_handle(context)
        _Continuation.alive.discard(continuation)
        continuation.handle = None  # which refers to it, too
        continuation.call()


#: What is to be done by the thread that waits, once an operation has ended: raises what its op has raised.
Finish = Optional[Callable[[], None]]


class Work(NoCopies):
    """An operation that was started by `comm.start`, isend() or irecv(). It goes on by itself.

    It holds its arrays: do not change them until it is done. A Work may be dropped; that cancels nothing. Several
    threads may wait for it.
    """

    remedy = "several threads may wait for the same one"

    def __init__(self, out: Any, keep: Any, finish: Finish = None) -> None:
        """Made before its call, which puts the handle into `place`: when that returns, a signal's handler may raise."""
        self.place = ffi.new("tutti_work**")
        self._keep = keep
        self._finish = finish
        self.out = out  #: the array of the result

    @property
    def _handle(self) -> Any:
        return self.place[0]

    def wait(self, timeout: Seconds = None) -> Any:
        """Returns `out` when the operation is done, or raises what it failed with, each time.

        After `timeout` seconds it raises TimeoutError, and the operation goes on; with 0 at once.
        """
        if callbacks:
            refuse_in_callback()
        if timeout is None:
            result = lib.tutti_work_wait(self._handle)
        else:
            done = ffi.new("int32_t*")
            result = lib.tutti_work_wait_for(self._handle, limit(timeout), done)
            if not result and not done[0]:
                raise TimeoutError(
                    f"the operation is not done after {timeout} s; it goes on, and can be waited for again"
                )
        if not result or _is_done(self._handle):  # else the wait was interrupted, and the operation still uses them
            self._keep = None
        if self._finish and not (result and interrupted()):
            self._finish()
        if result:
            fail()
        return self.out

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        refuse_in_callback()
        return _is_done(self._handle)

    @property
    def status(self) -> Status:
        """After an irecv(): the message. Before its end, and after anything else: Status(-1, -1, 0)."""
        refuse_in_callback()
        status = ffi.new("tutti_status*")
        check(lib.tutti_work_status(self._handle, status))
        return status_of(status)

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.done():
            loop = asyncio.get_running_loop()
            future: "asyncio.Future[None]" = loop.create_future()
            _then(self._handle, lambda: _tell(loop, future))
            yield from future.__await__()
        return self.wait()

    def __del__(self) -> None:
        # The collector ends the objects of a cycle in any order, and others may use this one afterwards.
        place = getattr(self, "place", None)
        if place is not None and place[0] and lib is not None:
            handle, place[0] = place[0], ffi.NULL
            soon(_drop, handle, self._keep)


def wait_all(works: "Iterable[Work]") -> List[Any]:
    """Returns the `out` of each when all are done, or raises what the first of them that failed has failed with."""
    listed, handles = _handles("wait_all", works)
    if lib.tutti_work_wait_all(handles, len(listed)) and interrupted():
        fail()
    return [work.wait() for work in listed]


def wait_any(works: "Iterable[Work]") -> int:
    """Waits until at least one is done, and returns its index, the lowest if there are several.

    Its wait() returns at once, or raises what it failed with. Leave it out of the next wait_any(). All must be of
    communicators from one connect() or run_threads(). If a signal's handler raises, all these communicators fail.
    """
    listed, handles = _handles("wait_any", works)
    index = ffi.new("uint64_t*")
    check(lib.tutti_work_wait_any(handles, len(listed), index))
    return int(index[0])


def _handles(call: str, works: "Iterable[Work]") -> Tuple[List[Work], Any]:
    refuse_in_callback()
    listed = list(works)
    for place, work in enumerate(listed):
        if not isinstance(work, Work):
            raise InvalidArgument(f"{call}: works[{place}] is {work!r}: give what comm.start, isend or irecv returned")
    return listed, ffi.new("tutti_work*[]", [work._handle for work in listed])


def _then(handle: Any, call: Callable[[], None]) -> None:
    continuation = _Continuation(call)
    check(lib.tutti_work_then(handle, lib.pytutti_done, continuation.handle))


def _is_done(handle: Any) -> bool:
    done = ffi.new("int32_t*")
    lib.tutti_work_test(handle, done)
    return bool(done[0])


def _drop(handle: Any, keep: Any) -> None:
    """The operation goes on, and its arrays live until it is done.

    The collector may come here between a call that has failed and last_error(). So it must not be asked whether the
    operation is done: the answer for one that has failed is that thread's last error.
    """
    if keep is not None:
        _then(handle, lambda: _forget(keep))
    lib.tutti_work_free(handle)


def _forget(_: Any) -> None:
    """The arrays were alive until here."""


def _tell(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[None]") -> None:
    def set_result() -> None:
        if not future.done():  # it may have been cancelled
            future.set_result(None)

    try:
        loop.call_soon_threadsafe(set_result)
    except RuntimeError:
        pass  # the loop was closed, and nobody waits


class Abandoned(List[Any]):
    """Calls of a communicator that nobody waits for any more though they may run: their handle, if they were prepared,
    and what they use. All of it lives as long as the communicator, which ends them."""

    ended = False

    def end(self) -> None:
        self.ended = True
        for handle, _ in self:
            lib.tutti_persistent_free(handle)


def _is_running(handle: Any) -> bool:
    """Of a prepared call: a wait that was interrupted ends before it."""
    done = ffi.new("int32_t*")
    return not lib.tutti_persistent_wait_for(handle, 0, done) and not done[0]


def _free(handle: Any, _: Any) -> None:
    """The arrays were alive until here."""
    lib.tutti_persistent_free(handle)


class Prepared(NoCopies):
    """A collective that `comm.prepare` has checked and planned: all that can be done before the first start.

    A start is a call: all ranks make the same calls in the same order. It uses what the arrays hold at that time, and
    must be waited for before the next one.
    """

    remedy = "prepare another call, or use the same one"

    def __init__(
        self, handle: Any, out: Any, keep: Any, finish: Finish, users: List[None], abandoned: Abandoned
    ) -> None:
        """Use `comm.prepare`."""
        self._handle = handle
        self._keep = keep
        self._finish = finish
        self._users = users  # of the communicator
        self._abandoned = abandoned
        self._started = False
        self.out = out  #: the array of the result

    def run(self) -> Any:
        """start() and wait(). Returns `out`."""
        waits = not self._started  # else it is refused, and the call that was started goes on
        self._call(lib.tutti_persistent_run, waits=waits)
        return self._ended()

    def start(self) -> None:
        self._call(lib.tutti_persistent_start)
        self._started = True

    def wait(self, timeout: Seconds = None) -> Any:
        """Like Work.wait()."""
        if timeout is None:
            self._call(lib.tutti_persistent_wait, waits=True)
            return self._ended()
        done = ffi.new("int32_t*")
        self._call(lib.tutti_persistent_wait_for, limit(timeout), done, waits=True)
        if not done[0]:
            raise TimeoutError(f"the call is not done after {timeout} s; it goes on, and can be waited for again")
        return self._ended()

    def close(self) -> None:
        """It cannot be started any more. The end of its communicator does that, too."""
        refuse_in_callback()
        handle = self._take()
        if not handle:
            return
        if self._started and not self._abandoned.ended and _is_running(handle):
            self._abandoned.append((handle, self._keep))
        else:
            lib.tutti_persistent_free(handle)

    def _take(self) -> Any:
        """The handle, for one who ends it: a call that begins from now on is refused."""
        handle, self._handle = self._handle, ffi.NULL
        return handle

    def _call(self, function: Any, *arguments: Any, waits: bool = False) -> None:
        if callbacks:
            refuse_in_callback()
        self._users.append(None)
        try:
            handle = self._handle
            result = function(handle, *arguments)
            if result and waits:
                self._started = _is_running(handle)
        finally:
            self._users.pop()
        if result:
            if self._finish and not interrupted():
                self._finish()
            if not handle:
                raise InvalidArgument("this prepared call, or its communicator, was closed: prepare another")
            fail()

    def _ended(self) -> Any:
        self._started = False
        if self._finish:
            self._finish()
        return self.out

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", ffi.NULL), ffi.NULL
        if not handle or lib is None:
            return
        if self._started and not self._abandoned.ended:
            self._abandoned.append((handle, self._keep))
        else:
            soon(_free, handle, self._keep)
