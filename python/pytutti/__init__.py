"""tutti for Python: ranks that exchange and combine arrays, over shared memory and TCP, without MPI.

    import numpy, pytutti

    with pytutti.connect() as comm:              # as the launcher's environment says
        x = numpy.full(1000, comm.rank, "f4")
        comm.all_reduce(x, out=x)                # in place: x becomes the sum of all x

    $ python -m pytutti run -n 4 script.py

What is imported here is loaded when it is first used, so that the program starts at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import ending  # noqa: F401, see at_end()
from .program import program

if TYPE_CHECKING:
    from .communicator import Communicator, connect
    from .errors import (
        Aborted, Corrupted, Error, Internal, InvalidArgument, Mismatch, PeerLost, RendezvousFailed, SystemRefused,
        Timeout, Truncated, Unsupported)
    from .meeting import UniqueId
    from .messages import ANY_SOURCE, ANY_TAG
    from .ops import Op, PremulSum
    from .plan_writer import algorithm
    from .plans import Plan, PlanError, algorithms, plan, side_by_side
    from .threads import run_threads
    from .work import Prepared, Status, Work, wait_all, wait_any

_PLACES = {
    "communicator": ("Communicator", "connect"),
    "errors": ("Aborted", "Corrupted", "Error", "Internal", "InvalidArgument", "Mismatch", "PeerLost",
               "RendezvousFailed", "SystemRefused", "Timeout", "Truncated", "Unsupported"),
    "meeting": ("UniqueId",),
    "messages": ("ANY_SOURCE", "ANY_TAG"),
    "ops": ("Op", "PremulSum"),
    "plan_writer": ("algorithm",),
    "plans": ("Plan", "PlanError", "algorithms", "plan", "side_by_side"),
    "threads": ("run_threads",),
    "work": ("Prepared", "Status", "Work", "wait_all", "wait_any"),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "ANY_SOURCE", "ANY_TAG", "Aborted", "Communicator", "Corrupted", "Error", "Internal", "InvalidArgument", "Mismatch",
    "Op", "PeerLost", "Plan", "PlanError", "PremulSum", "Prepared", "RendezvousFailed", "Status", "SystemRefused",
    "Timeout", "Truncated", "UniqueId", "Unsupported", "Work", "algorithm", "algorithms", "connect", "plan", "program",
    "run_threads", "side_by_side", "wait_all", "wait_any"]


def _module(name: str) -> Any:
    try:
        return importlib.import_module("." + name, __name__)
    except ModuleNotFoundError as error:
        if error.name != __name__ + "._core":
            raise
        raise ModuleNotFoundError(
            f"{error.name} is not built in {__path__[0]}: in a source tree only pytutti.torch works without "
            "installation; run `tools/wheel dist` there and `pip install dist/*.whl`", name=error.name) from None


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _module("_library").version()
    elif name in _MODULE_OF:
        value = getattr(_module(_MODULE_OF[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    return sorted([*__all__, "__version__"])
