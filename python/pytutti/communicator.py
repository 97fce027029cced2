"""Communicators."""

import contextlib
import os
import sys
import threading
import time
import weakref
from types import FrameType, TracebackType
from typing import Any, List, NoReturn, Optional, Sequence, Tuple, Type, overload

from ._core import ffi, lib
from ._library import (
    NoCopies,
    Seconds,
    callbacks,
    check,
    do_postponed,
    fail,
    integer,
    interrupted,
    milliseconds,
    refuse_in_callback,
    soon,
)
from .collectives import NULL, options_of
from .ending import at_end, has_something_to_end
from .errors import Aborted, Error, InvalidArgument
from .meeting import AllGather, Path, Store, UniqueId, connected
from .messages import Messages
from .names import COLLECTIVES, no_collective
from .ops import OpOfCall
from .variable import VariableCollectives
from .work import Abandoned, Prepared, Work

_open: "weakref.WeakSet[Communicator]" = weakref.WeakSet()


def connect(
    rank: Optional[int] = None,
    size: Optional[int] = None,
    *,
    rendezvous: Optional[str] = None,
    id: Optional[UniqueId] = None,
    all_gather: Optional[AllGather] = None,
    store: Optional[Store] = None,
    job: Optional[str] = None,
    secret_file: Optional[Path] = None,
    transport: Optional[str] = None,
    tuning_file: Optional[Path] = None,
    plan_file: Optional[Path] = None,
    setup_timeout: Seconds = None,
    timeout: Seconds = None,
    lost_after: Seconds = None,
    deterministic: bool = False,
    tls: bool = False,
) -> "Communicator":
    """Joins the other ranks, and returns when all have met.

    rank, size     as the launcher's environment says, if they are not given
    rendezvous     "tcp://host:port", where rank 0 serves, "store://host:port", where `tutti store` does,
                   "file:///path", or "env://", as PyTorch's variables say
    id             or a UniqueId, the same on all ranks
    all_gather     or a function that takes bytes and returns those of all ranks, by rank; it is called once
    store          or a store that all ranks see, such as torch.distributed's; who reads it can join
    job            separates jobs that share a store
    secret_file    file with the secret that all ranks share
    transport      "shm,tcp", "tcp", "^shm": what ranks may talk over
    tuning_file    a table by `tutti tune`
    plan_file      a plan by `tutti plan --save`
    setup_timeout  seconds in which ranks have to meet (300, or TUTTI_TIMEOUT)
    timeout        seconds of a call that gives none itself (300, or TUTTI_TIMEOUT)
    lost_after     seconds of silence after which a rank counts as lost (10, or TUTTI_LOST_AFTER)
    deterministic  every result is the left fold in rank order
    tls            encrypts what goes over TCP, but not `store`; needs a secret that all ranks share (secret_file, or
                   TUTTI_SECRET)
    """
    return Communicator(
        connected(
            rank=rank,
            size=size,
            rendezvous=rendezvous,
            id=id,
            all_gather=all_gather,
            store=store,
            texts={
                "job": job,
                "secret_file": secret_file,
                "transport": transport,
                "tuning_file": tuning_file,
                "plan_file": plan_file,
            },
            times={"setup_timeout": setup_timeout, "timeout": timeout, "lost_after": lost_after},
            deterministic=deterministic,
            tls=tls,
        )
    )


class Communicator(VariableCollectives[Any], Messages, NoCopies):
    """A fixed group of ranks. Any thread may call, several at once.

    Threads that make collective calls on one communicator agree on their order, or use a sub-group each. While a call
    waits other threads of Python run, and so do signal handlers: Ctrl-C ends the call, and the communicator with it.
    After an error other than InvalidArgument, Unsupported, Truncated and the Timeout of a probe it is unusable.

    As a context manager it closes itself. If the body raises, it first tells the other ranks: they get Aborted, with
    this rank and what was raised. After fork() the child cannot use it: connect() there.
    """

    remedy = "split(0) makes another of the same ranks, and another process calls connect()"

    def __init__(self, handle: Any) -> None:
        """Use connect()."""
        self._handle = handle
        self._users: List[None] = []  # an entry for each call that is under way; close() waits until it is empty
        self._prepared: "weakref.WeakSet[Prepared]" = weakref.WeakSet()
        self._abandoned = Abandoned()
        self._owned = handle  # what is to be freed; close() in a call leaves that to the end of this object
        self.rank = self._number(lib.tutti_comm_rank)  #: of this process
        self.size = self._number(lib.tutti_comm_size)  #: how many ranks there are
        self.local_rank = self._number(lib.tutti_comm_local_rank)  #: among the ranks of this host
        self.local_size = self._number(lib.tutti_comm_local_size)
        self.start = Starting(self)  #: `comm.start.all_reduce(x)` starts it, and returns a Work
        self.prepare = Preparing(self)  #: `comm.prepare.all_reduce(x)` prepares it, and returns a Prepared
        _open.add(self)
        has_something_to_end()

    def __repr__(self) -> str:
        return f"<pytutti.Communicator: rank {self.rank} of {self.size}{'' if self._handle else ', closed'}>"

    # ---- Its end

    def close(self) -> None:
        """Returns once everything sent is on its way. Work still pending fails with Aborted."""
        if self._handle:
            refuse_in_callback()
        handle, self._handle = self._handle, NULL
        if not handle:
            return
        if self._users:
            lib.tutti_comm_abort(handle, b"it was closed while another thread was in a call")
        # First, so that no thread can begin a prepared call once none is seen in one.
        prepared = [(call, call._take()) for call in list(self._prepared)]
        if self._is_in_call() or not self._is_left():
            # A signal handler called close() in a call, which fails now; or a call does not end, since an op of the
            # program's hangs. The handles are freed with their objects.
            for call, taken in prepared:
                call._handle = taken
            return
        do_postponed()  # prepared calls that the collector found in an op are freed before their communicator
        self._abandoned.extend((taken, call._keep) for call, taken in prepared if taken)
        self._owned = NULL
        _free(handle, self._abandoned)

    def _is_left(self) -> bool:
        """Whether no thread is in a call, after some time."""
        patience = time.monotonic() + 10
        while self._users and time.monotonic() < patience:
            time.sleep(0.001)
        return not self._users

    def __del__(self) -> None:
        # The collector ends the objects of a cycle in any order, and others may use this one afterwards.
        self._handle = NULL
        handle, self._owned = getattr(self, "_owned", NULL), NULL
        if handle and lib is not None:
            soon(_free, handle, self._abandoned)

    def _is_in_call(self) -> bool:
        """Whether this thread is, so that waiting for the call would wait for itself."""
        frame: Optional[FrameType] = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_name in ("_perform", "_call"):
                if getattr(frame.f_locals.get("self"), "_users", None) is self._users:
                    return True
            frame = frame.f_back
        return False

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], raised: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        well = raised is None or isinstance(raised, SystemExit) and not raised.code
        if not well and self._handle:  # which changes nothing if it is this communicator that has failed
            with contextlib.suppress(Error):  # in a child of fork(), or if another thread has just closed it
                self.abort(f"{type(raised).__name__}: {raised}" if str(raised) else type(raised).__name__)
        self.close()

    def abort(self, reason: str = "no reason was given") -> None:
        """Makes every pending and later call, here and on all ranks, fail with Aborted and the reason. Any thread may
        call."""
        self._call(lib.tutti_comm_abort, reason.encode(errors="replace"))

    # ---- Others made from it

    @overload
    def split(self, colour: int, key: int = 0) -> "Communicator": ...

    @overload
    def split(self, colour: Optional[int], key: int = 0) -> "Optional[Communicator]": ...

    def split(self, colour: Optional[int], key: int = 0) -> "Optional[Communicator]":
        """All ranks call; those with the same colour (>= 0) form one communicator, ordered by key, then by rank.

        A rank whose colour is None joins none, and gets None.
        """
        if colour is None:
            none = ffi.new("tutti_comm**")
            self._call(lib.tutti_comm_split, lib.TUTTI_NO_GROUP, 0, none)
            return None
        return self._made(lib.tutti_comm_split, integer("colour", colour, 0), integer("key", key))

    def split_by_host(self) -> "Communicator":
        """One of the ranks on this host."""
        return self._made(lib.tutti_comm_split_by_host)

    def subgroup(self, ranks: Sequence[int]) -> "Communicator":
        """One of these ranks. Only they call. No message is sent."""
        numbers = [integer("a rank of the sub-group", rank) for rank in ranks]
        return self._made(lib.tutti_comm_subgroup, ffi.new("int32_t[]", numbers), len(numbers))

    def shrink(self, timeout: Seconds = None) -> "Communicator":
        """One of the survivors, in the order of their ranks, after PeerLost. Every survivor calls, and may after Timeout."""
        return self._made(lib.tutti_comm_shrink, milliseconds(timeout))

    # ---- Questions

    def chosen_algorithm(self, collective: str, size: int) -> str:
        """The algorithm of a call that names none, as `algorithm=` takes it, for root 0, equal parts and memory of the
        host. `size` is the bytes of the larger of its `x` and its `out`."""
        wrong = no_collective(collective)
        if wrong:
            raise InvalidArgument(wrong)
        return self._text(lib.tutti_chosen_algorithm, COLLECTIVES.index(collective), integer("size", size, 0, 2**63))

    def transport_to(self, peer: int) -> str:
        """How this rank reaches another: "shm", "tcp", "self"."""
        return self._text(lib.tutti_transport_to, integer("peer", peer))

    # ---- Calls of C

    def _perform(self, function: Any, arguments: Tuple[Any, ...], extras: Any, out: Any, keep: Tuple[Any, ...]) -> Any:
        if callbacks:
            refuse_in_callback()
        options, text, op = NULL, None, None
        if extras is not None:
            options, (text, op) = options_of(extras, self)
        self._users.append(None)
        try:
            handle = self._handle
            result = function(handle, *arguments, options)
        finally:
            self._users.pop()
        if isinstance(op, OpOfCall) and not (result and interrupted()):
            op.check(self)
        if result:
            self._fail(handle, (arguments, options, text, op, keep))
        return out

    def _call(self, function: Any, *arguments: Any, keep: Any = None) -> None:
        if callbacks:
            refuse_in_callback()
        self._users.append(None)
        try:
            handle = self._handle
            result = function(handle, *arguments)
        finally:
            self._users.pop()
        if result:
            self._fail(handle, (arguments, keep))

    def _fail(self, handle: Any, used: Any) -> NoReturn:
        if not handle:  # it was closed before the call
            raise InvalidArgument(
                f"this communicator, of rank {self.rank} of {self.size}, was closed: connect() makes another"
            )
        try:
            fail()
        except BaseException as error:
            # Another thread may still be in the call, such as in its op: after Ctrl-C, here or for all of run_threads().
            if not isinstance(error, Error) or isinstance(error, Aborted):
                self._abandoned.append((NULL, used))
            raise

    def _number(self, function: Any) -> int:
        number = ffi.new("int32_t*")
        check(function(self._handle, number))
        return int(number[0])

    def _text(self, function: Any, *arguments: Any) -> str:
        text = ffi.new("char[]", 4096)
        self._call(function, *arguments, text, len(text))
        return str(ffi.string(text).decode())

    def _made(self, function: Any, *arguments: Any) -> "Communicator":
        made = ffi.new("tutti_comm**")
        self._call(function, *arguments, made)
        return Communicator(made[0])


def _free(handle: Any, abandoned: Abandoned) -> None:
    abandoned.end()
    lib.tutti_comm_free(handle)
    abandoned.clear()  # their arrays, now that no operation uses them


class _Later:
    def __init__(self, comm: Communicator) -> None:
        self._of = weakref.ref(comm)
        self.rank, self.size = comm.rank, comm.size

    @property
    def _comm(self) -> Communicator:
        comm = self._of()
        if comm is None:
            raise InvalidArgument("the communicator of these calls is gone: keep it as long as you call it")
        return comm


class Starting(_Later, VariableCollectives[Work]):
    """Each collective starts, and its Work is returned."""

    def _perform(self, function: Any, arguments: Tuple[Any, ...], extras: Any, out: Any, keep: Tuple[Any, ...]) -> Work:
        comm = self._comm
        options, (text, op) = options_of(extras, comm)
        work = Work(out, (keep, op), (lambda: op.check(comm)) if isinstance(op, OpOfCall) else None)
        options.work = work.place
        comm._call(function, *arguments, options, keep=work)
        return work


class Preparing(_Later, VariableCollectives[Prepared]):
    """Each collective is prepared: checked and planned, and nothing is sent. It is returned as a Prepared."""

    def _perform(
        self, function: Any, arguments: Tuple[Any, ...], extras: Any, out: Any, keep: Tuple[Any, ...]
    ) -> Prepared:
        comm = self._comm
        options, (text, op) = options_of(extras, comm)
        made = ffi.new("tutti_persistent**")
        options.persistent = made
        comm._call(function, *arguments, options)
        call = Prepared(
            made[0],
            out,
            (keep, op),
            (lambda: op.check(comm)) if isinstance(op, OpOfCall) else None,
            comm._users,
            comm._abandoned,
        )
        comm._prepared.add(call)
        return call


@at_end
def _close_all() -> None:
    """Threads of tutti must not call Python once it ends."""
    for comm in list(_open):
        comm.close()
    lib.tutti_set_wait_hook(NULL, NULL)


def _forget_other_threads() -> None:
    """After fork() none of them is here to end its call, or the op that it ran. Another may get its identity."""
    callbacks.intersection_update({threading.get_ident()})
    for comm in list(_open):
        comm._users.clear()


os.register_at_fork(after_in_child=_forget_other_threads)
