"""What a process does at its end, so that other ranks get what it has sent, and see it leave.

Most processes end by the functions of atexit. A child that multiprocessing forks, itself or by its server, ends by
os._exit() instead, and calls none of these functions: it has finalizers of its own.
"""

import atexit
import contextlib
import os
import sys
import threading
from typing import Callable, List

_functions: List[Callable[[], None]] = []
_finalized = 0  # the process whose finalizer calls them
_PRIORITY = -10  # after queues have written what the child has put there (-5), before temporary folders go (-100)


def at_end(function: Callable[[], None]) -> Callable[[], None]:
    """It comes after the functions that the program has registered since it imported pytutti, which may still use its
    communicators, though the module of `function` may be imported later than that."""
    _functions.append(function)
    return function


@atexit.register
def _call_all() -> None:
    """The last of the functions first."""
    with contextlib.ExitStack() as functions:
        for function in _functions:
            functions.callback(function)


def has_something_to_end() -> None:
    """To be called when a process makes something that the functions end, since a child forgets the finalizers of its
    parent."""
    global _finalized
    if _finalized == os.getpid() or not _is_forked_by_multiprocessing():
        return
    import multiprocessing.util

    _finalized = os.getpid()
    multiprocessing.util.Finalize(None, _end, exitpriority=_PRIORITY)


def _is_forked_by_multiprocessing() -> bool:
    package = sys.modules.get("multiprocessing")  # it is not imported for this, since its children have it
    return package is not None and package.parent_process() is not None and package.get_start_method() != "spawn"


def _end() -> None:
    raised = sys.exc_info()[1]
    if raised is None or isinstance(raised, SystemExit):  # else multiprocessing shows it after this
        threading._shutdown()  # type: ignore[attr-defined] # waits for other threads, as the end of a program does
    _call_all()
