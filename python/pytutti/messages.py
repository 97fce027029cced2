"""Messages between two ranks."""

from typing import Any, Optional

from ._core import ffi, lib
from ._library import Seconds, call_options, integer, milliseconds
from .buffers import reading, writing
from .work import Status, Work, status_of

ANY_SOURCE: int = lib.TUTTI_ANY_SOURCE
ANY_TAG: int = lib.TUTTI_ANY_TAG
NULL = ffi.NULL
LAST_TAG = 2**30


def _tag(tag: int) -> int:
    return integer("tag", tag, 0, LAST_TAG)


def _tag_or_any(tag: int) -> int:
    return integer("tag", tag, ANY_TAG, LAST_TAG)


class Messages:
    """Messages of one sender with one tag (0 to 2^30) arrive in the order in which they were sent.

    A receive takes one message, of at most as many elements as `out` has, from a rank or ANY_SOURCE, with the tag or
    ANY_TAG. A longer one, or one of another type, is dropped: Truncated.
    """

    def _call(self, function: Any, *arguments: Any, keep: Any = None) -> None:
        raise NotImplementedError

    def send(self, x: Any, to: int, tag: int = 0, *, timeout: Seconds = None) -> None:
        """Returns when `x` may change.

        A message of up to 64 KiB over TCP, or 256 KiB in shared memory, does not wait for its receive, only for room
        (docs/failures.md, "When a send returns"). A rank that sends more than that before the other receives uses
        isend().
        """
        data = reading(x, "x")
        self._call(
            lib.tutti_send, data.address, data.count, data.type,
            integer("to", to), _tag(tag), call_options(timeout), keep=data,
        )

    def recv(self, out: Any, source: int, tag: int = 0, *, timeout: Seconds = None) -> Status:
        data = writing(out, "out")
        status = ffi.new("tutti_status*")
        self._call(
            lib.tutti_recv, data.address, data.count, data.type,
            integer("source", source), _tag_or_any(tag), call_options(timeout), status, keep=data,
        )
        return status_of(status)

    def isend(self, x: Any, to: int, tag: int = 0, *, timeout: Seconds = None) -> Work:
        """send(), started. Keep `x` as it is until the Work is done."""
        data = reading(x, "x")
        return self._started(lib.tutti_send, x, data, integer("to", to), _tag(tag), timeout)

    def irecv(self, out: Any, source: int, tag: int = 0, *, timeout: Seconds = None) -> Work:
        """recv(), started. The Work has the `status`."""
        data = writing(out, "out")
        return self._started(lib.tutti_recv, out, data, integer("source", source), _tag_or_any(tag), timeout, NULL)

    def sendrecv(self, x: Any, to: int, out: Any, source: int, tag: int = 0, *, timeout: Seconds = None) -> Status:
        """Both at the same time, so that ranks may do it in a circle. `x` and `out` must not overlap."""
        sent, got = reading(x, "x"), writing(out, "out")
        status = ffi.new("tutti_status*")
        self._call(
            lib.tutti_sendrecv, sent.address, sent.count, sent.type, integer("to", to),
            got.address, got.count, got.type, integer("source", source),
            _tag(tag), call_options(timeout), status,
        )
        return status_of(status)

    def probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, *, timeout: Seconds = None) -> Status:
        """Waits until there is a message that a receive would get, and leaves it there.

        If the timeout passes, only this call fails, with Timeout.
        """
        status = ffi.new("tutti_status*")
        self._call(lib.tutti_probe, integer("source", source), _tag_or_any(tag), milliseconds(timeout), status)
        return status_of(status)

    def iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Optional[Status]:
        """The same without waiting; None: there is none."""
        status, found = ffi.new("tutti_status*"), ffi.new("int32_t*")
        self._call(lib.tutti_iprobe, integer("source", source), _tag_or_any(tag), found, status)
        return status_of(status) if found[0] else None

    def _started(
        self, function: Any, array: Any, data: Any, peer: int, tag: int, timeout: Seconds, *more: Any
    ) -> Work:
        options, work = call_options(timeout), Work(array, (array, data))
        options.work = work.place
        self._call(function, data.address, data.count, data.type, peer, tag, options, *more, keep=work)
        return work
