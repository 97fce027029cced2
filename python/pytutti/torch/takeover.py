"""Runs a script in which a backend that PyTorch has is tutti instead, under its own name.

    python -m pytutti.torch.takeover gloo script.py [ARGUMENT ...]

It is what pytutti.torchrun starts as a rank. The script sees `gloo` wherever it asks, and monitored_barrier() and other
calls that torch.distributed keeps for it work.
"""

from __future__ import annotations

import datetime
import importlib
import itertools
import os
import runpy
import sys
from typing import TYPE_CHECKING, Any

from . import backend_class, meet, refuse_to_reconfigure

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store


def take_over_gloo() -> None:
    """From now on torch.distributed makes a backend of tutti where it would make one of Gloo."""
    c10d: Any = importlib.import_module("torch.distributed.distributed_c10d")
    gloo = c10d.ProcessGroupGloo
    numbers = itertools.count()

    class StandIn(type):
        """torch.distributed calls the class to make a backend, and asks whether a backend is of it."""

        def __call__(  # enable_reconfigure since PyTorch 2.14
            cls, store: Store, rank: int, size: int, timeout: datetime.timedelta, enable_reconfigure: bool = False
        ) -> Any:
            refuse_to_reconfigure(enable_reconfigure)
            return meet(store, rank, size, timeout, f"gloo {next(numbers)}")

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, (gloo, backend_class()))

    kinds = c10d.ProcessGroup.BackendType
    register, set_default = c10d.ProcessGroup._register_backend, c10d.ProcessGroup._set_default_backend

    def kind_of(kind: Any) -> Any:
        """In C++ PyTorch casts backends of the kind GLOO to the class of Gloo."""
        return kinds.CUSTOM if kind == kinds.GLOO else kind

    def register_backend(group: Any, device: Any, kind: Any, *backend: Any) -> None:
        register(group, device, kind_of(kind), *backend)

    def set_default_backend(group: Any, kind: Any) -> None:
        set_default(group, kind_of(kind))

    c10d.ProcessGroupGloo = StandIn("ProcessGroupGloo", (), {"__doc__": "tutti in place of Gloo"})
    c10d.ProcessGroup._register_backend = register_backend
    c10d.ProcessGroup._set_default_backend = set_default_backend


TAKEOVERS = {"gloo": take_over_gloo}


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] not in TAKEOVERS:
        sys.exit(f"usage: python -m pytutti.torch.takeover {'|'.join(TAKEOVERS)} SCRIPT [ARGUMENT ...]")
    name, script = sys.argv[1:3]
    if not os.path.isfile(script):
        sys.exit(f"pytutti.torch.takeover: there is no script {script}")
    TAKEOVERS[name]()
    # As if Python had been called with the script.
    sys.argv = sys.argv[2:]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
