"""The functions of <tutti/c.h>, and what Python adds around all of them: errors, signals, milliseconds."""

import math
import operator
import sys
import threading
from types import TracebackType
from typing import Any, Callable, NoReturn, Optional, Type, Union

from . import errors
from ._core import ffi, lib

Seconds = Union[float, None]


def version() -> str:
    return str(ffi.string(lib.tutti_version()).decode())


def call_options(timeout: Seconds) -> Any:
    """A tutti_call_options that asks for nothing but the timeout."""
    return ffi.new("tutti_call_options*", {"size": ffi.sizeof("tutti_call_options"), "timeout_ms": milliseconds(timeout)})


class NoCopies:
    """What owns a handle of the library's: a copy would free it, too."""

    remedy: str  # of a program that wants a copy

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} of pytutti can be neither copied nor pickled: {self.remedy}")


# ---- Signals. A thread that sleeps in a call comes back to Python ten times a second, where handlers run.

_thread = threading.local()  # .raised: by a handler, in a call of this thread; .end: see end_calls_at()


def _keep(kind: Type[BaseException], raised: BaseException, trace: Optional[TracebackType]) -> None:
    _thread.raised = raised.with_traceback(trace)


@ffi.def_extern(error=1, onerror=_keep)  # type: ignore[untyped-decorator]
def pytutti_question(_: Any) -> int:
    if interrupted():  # what uses the arrays keeps them, so the call need not end first
        return True
    end: Optional[threading.Event] = getattr(_thread, "end", None)
    return end is not None and end.is_set()


_all_are_asked = False  # also threads that run no handlers


def end_calls_at(end: threading.Event) -> None:
    """Calls of this thread fail once it is set, also a connect(). Handlers of signals run in the main thread only."""
    global _all_are_asked
    _thread.end = end
    _all_are_asked = True
    share_question()


def share_question() -> None:
    """The extension for PyTorch asks threads other than the main one only by our function, and only if it must."""
    extension = _torch()
    if extension and _all_are_asked:
        extension.ask_other_threads_by(int(ffi.cast("uintptr_t", lib.pytutti_question)))


def _torch() -> Any:
    """The extension for PyTorch, if this process has loaded it: then tutti asks Python by its function, for both."""
    return sys.modules.get("pytutti.torch._backend")


if not _torch():
    lib.tutti_set_wait_hook(lib.pytutti_question, ffi.NULL)


def interrupted() -> bool:
    """Whether a handler has raised something in a call of this thread that fail() is to raise."""
    if getattr(_thread, "raised", None) is not None:
        return True
    extension = _torch()
    return bool(extension and extension.has_interrupt())


def _interrupt() -> Optional[BaseException]:
    """What a handler has raised in a call of this thread, once."""
    raised: Optional[BaseException] = getattr(_thread, "raised", None)
    _thread.raised = None
    extension = _torch()
    return extension.take_interrupt() if raised is None and extension else raised


# ---- Functions of Python's that tutti has called. They must not call tutti, and the collector may run in them.

#: the threads that run one
callbacks: "set[int]" = set()
_postponed: "list[tuple[Callable[..., Any], tuple[Any, ...]]]" = []


class Callback:
    """`with Callback():` a function of Python's runs that tutti has called."""

    def __enter__(self) -> None:
        callbacks.add(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        callbacks.discard(threading.get_ident())


def in_callback() -> bool:
    return threading.get_ident() in callbacks


def refuse_in_callback() -> None:
    """It would wait for itself."""
    if in_callback():
        raise errors.InvalidArgument(
            "an op must not call tutti: it only combines its two arrays; make other calls before or after it"
        )


def soon(function: Callable[..., Any], *arguments: Any) -> None:
    """Calls a function that calls tutti: now, or once this thread or another is outside of callbacks."""
    _postponed.append((function, arguments))
    if not in_callback():
        do_postponed()


def do_postponed() -> None:
    while _postponed:
        try:
            function, arguments = _postponed.pop()
        except IndexError:  # another thread was faster
            return
        function(*arguments)


# ---- Errors

_NUMBERS = ("rank", "operation", "count", "steps_done", "steps", "bytes_received")
_TEXTS = ("message", "host", "process", "collective", "algorithm", "data_type")


def fail() -> NoReturn:
    """Raises what a signal handler has raised in the call that failed, or else its error."""
    raised = _interrupt()
    if raised is not None:
        raise raised from last_error()
    raise last_error()


def last_error() -> errors.Error:
    """That of the last function of tutti that has failed in this thread."""
    details = ffi.new("tutti_error_details*", {"size": ffi.sizeof("tutti_error_details")})
    lib.tutti_last_error_details(details)
    known = {name: ffi.string(getattr(details, name)).decode(errors="replace") for name in _TEXTS}
    known.update((name, getattr(details, name)) for name in _NUMBERS)
    known["reported"] = bool(details.reported)
    known["in_rounds"] = bool(details.in_rounds)
    return errors.made(details.code, known)


def check(result: int) -> None:
    if result:
        fail()


# ---- Arguments


def milliseconds(seconds: Seconds, name: str = "timeout") -> int:
    """0 stands for the default."""
    if seconds is None:
        return 0
    if isinstance(seconds, (str, bytes)) or not hasattr(seconds, "__float__"):
        raise errors.InvalidArgument(f"{name} is {seconds!r}: give a number of seconds, or None for the default")
    if not (seconds > 0 and math.isfinite(seconds)):
        raise errors.InvalidArgument(f"{name} is {seconds} s: give a time above 0, or None for the default")
    return max(1, min(round(seconds * 1000), 2**62))


def limit(seconds: float) -> int:
    """Of a wait, in milliseconds. With 0 it only looks whether the operation is done."""
    return 0 if seconds == 0 else milliseconds(seconds)


def integer(name: str, value: Any, least: int = -(2**31), most: int = 2**31 - 1) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise errors.InvalidArgument(f"{name} is {value!r}: give an integer") from None
    if not least <= number <= most:
        raise errors.InvalidArgument(f"{name} is {number}: give an integer from {least} to {most}")
    return number
