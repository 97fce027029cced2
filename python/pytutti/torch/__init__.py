"""tutti as a backend of torch.distributed: `import pytutti.torch`, then `init_process_group("tutti")`.

See docs/torch.md. The import only registers the name; the extension is loaded, or built, with the first process group.
"""

import dataclasses
import datetime
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Optional, Union

from ..ending import at_end, has_something_to_end

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store as TorchStore
    from torch._C._distributed_c10d import _DistributedBackendOptions as GroupOptions

__all__ = ["Options", "Store", "register"]

DEVICES = ("cpu", "cuda")  # whose tensors the backend takes


@dataclasses.dataclass(frozen=True)
class Options:
    """What `init_process_group(pg_options=...)` and `new_group(pg_options=...)` may be given; see <tutti/c.h>.

    A group with options of its own meets by itself. Without, a group of some ranks shares the connections of all.
    """

    transport: str = ""
    tuning_file: str = ""
    plan_file: str = ""
    lost_after: datetime.timedelta = datetime.timedelta(0)
    deterministic: bool = False
    tls: bool = False

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            kind = type(field.default)
            if not isinstance(value, kind):
                raise TypeError(f"Options: {field.name} must be a {kind.__name__}, and not {value!r}")


def Store(  # noqa: N802, it stands for a class that is built when it is first used
    rank: Optional[int] = None,
    size: Optional[int] = None,
    *,
    rendezvous: Optional[str] = None,
    job: Optional[str] = None,
    secret_file: "Union[str, os.PathLike[str], None]" = None,
    tls: bool = False,
    timeout: datetime.timedelta = datetime.timedelta(seconds=300),
) -> "TorchStore":
    """tutti's own store as one of PyTorch's: that at which pytutti.connect() would meet with the same arguments.

    Without arguments it is that of the launcher, such as `tutti run`. At "tcp://host:port" rank 0 serves. Both ends
    prove that they know the job's secret, if it has one. All ranks open stores in the same order.
    """
    if (rank is None) != (size is None):
        raise ValueError("Store: rank and size belong together: give both, or none for those of the launcher")
    if size is not None and size < 1:
        raise ValueError(f"Store: there cannot be {size} ranks: give their number, or none for that of the launcher")
    made: TorchStore = _extension().Store(
        rank or 0, size or 0, rendezvous or "", job or "", os.fspath(secret_file or ""), tls, timeout
    )
    return made


def _parent() -> Any:
    """The backend of the default process group, if one of its devices has ours."""
    import torch
    import torch.distributed as dist

    extension = _extension()
    world = dist.group.WORLD if dist.is_initialized() else None
    for device in map(torch.device, DEVICES):
        if world is None or device not in world._device_types:
            continue
        backend: Any = world._get_backend(device)
        while hasattr(backend, "wrapped_pg"):  # with TORCH_DISTRIBUTED_DEBUG=DETAIL
            backend = backend.wrapped_pg
        if isinstance(backend, extension.TuttiBackend):
            return backend
    return None


def _extension() -> Any:
    global _user
    from . import build

    extension = build.load()
    _user = os.getpid()
    has_something_to_end()
    return extension


_user = 0  # the process that has loaded the extension


@at_end
def _end() -> None:
    """Ends what still runs at the end of the process, while Python can be called. A child of fork() has none of it.

    It comes after the functions that the program registers, which may still use its process groups. Streams may still
    be in calls that the program has waited for: they come to their end, unless an exception ends the program, of which
    other ranks are to learn at once.
    """
    if os.getpid() == _user:
        is_dialogue = hasattr(sys, "ps1")  # which goes on after an exception
        raised = None if is_dialogue else getattr(sys, "last_value", None)
        raised = raised or sys.exc_info()[1]  # in a child of multiprocessing
        is_well = raised is None or isinstance(raised, SystemExit) and not raised.code
        _extension().end(has_failed=not is_well)


def refuse_to_reconfigure(wanted: bool) -> None:
    """PyTorch 2.14 and later may ask for groups whose ranks change."""
    if wanted:
        raise ValueError("tutti: the ranks of a process group do not change: call init_process_group() without "
                         "enable_reconfigure, and after a failure make a new group of the ranks that are left")


def _create(group: "GroupOptions", options: Optional[Options]) -> Any:
    refuse_to_reconfigure(getattr(group, "enable_reconfigure", False))
    parent = _parent() if group.global_ranks_in_group and options is None else None
    if parent is not None:
        return _extension().sub_group(parent, group.global_ranks_in_group, group.timeout, group.group_id)
    return meet(group.store, group.group_rank, group.group_size, group.timeout, group.group_id, options)


def meet(
    store: "TorchStore",
    rank: int,
    size: int,
    timeout: datetime.timedelta,
    name: str,
    options: Optional[Options] = None,
) -> Any:
    """A backend whose ranks meet in `store`; torch.distributed calls it a process group of one device."""
    extension = _extension()
    if options is not None and not isinstance(options, Options):
        raise TypeError(f"pg_options of the backend tutti must be pytutti.torch.Options, and not {type(options)}")
    settings = extension.Settings()
    for field in dataclasses.fields(Options):
        setattr(settings, field.name, getattr(options or Options(), field.name))
    return extension.meet(store, rank, size, timeout, name, settings)


def backend_class() -> Any:
    """The class of the backends of this extension, which is loaded, or built, for that."""
    return _extension().TuttiBackend


def register() -> None:
    """Makes the name "tutti" known to torch.distributed. Importing this module does it, too.

    It is also what PyTorch calls by the entry point `torch.backends`, at the end of `import torch`.
    """
    try:
        import torch.distributed as dist

        if dist.is_available() and not hasattr(dist.Backend, "TUTTI"):
            dist.Backend.register_backend("tutti", _create, extended_api=True, devices=list(DEVICES))
    except Exception as error:  # `import torch` must not fail for those who do not use tutti
        warnings.warn(f"pytutti cannot register the backend tutti with this PyTorch: {error}", stacklevel=2)


register()
