"""Where ranks meet: what tutti_connect_options say, from Python's words."""

import datetime
import os
from typing import Any, Callable, List, Optional, Protocol, Tuple, Union

from ._core import ffi, lib
from ._library import Seconds, check, integer, milliseconds, refuse_in_callback
from .errors import InvalidArgument, RendezvousFailed

Path = Union[str, "os.PathLike[str]"]
AllGather = Callable[[bytes], List[bytes]]


class Store(Protocol):
    """What connect() needs of a store of somebody else's; those of torch.distributed have it."""

    def add(self, key: str, amount: int, /) -> int: ...
    def set(self, key: str, value: Any, /) -> None: ...
    def get(self, key: str, /) -> bytes: ...
    def check(self, keys: List[str], /) -> bool: ...
    def wait(self, keys: List[str], timeout: datetime.timedelta, /) -> None: ...


def _default_timeout() -> int:
    """In milliseconds. A wrong TUTTI_TIMEOUT is refused by tutti_connect(), which then tells the other ranks."""
    try:
        return milliseconds(float(os.environ.get("TUTTI_TIMEOUT") or 300), "TUTTI_TIMEOUT")
    except (ValueError, InvalidArgument):
        return 300_000


def gathered_in(store: Store, rank: int, size: int, timeout: Seconds, job: Optional[Path]) -> AllGather:
    """The all_gather of ranks that see the same store.

    Each rank numbers its meetings of a job in the store, so that those of one number meet even if some have been
    started anew.
    """
    lacking = [name for name in ("add", "set", "get", "check", "wait") if not callable(getattr(store, name, None))]
    if lacking:
        raise InvalidArgument(
            f"store is a {type(store).__name__}, which has no {lacking[0]}(): give one of torch.distributed, "
            "pytutti.torch.Store(), or an object with the same methods"
        )
    asked = milliseconds(timeout, "setup_timeout") or _default_timeout()
    patience = datetime.timedelta(milliseconds=min(asked, 10**14))  # 3000 years, for which it has room

    name = os.fsdecode(job or os.environ.get("TUTTI_JOB", ""))
    ours = f"pytutti, job {name}" if name else "pytutti"

    def all_gather(mine: bytes) -> List[bytes]:
        meeting = store.add(f"{ours}/meetings of {rank}", 1)
        keys = [f"{ours}/{meeting}/{peer}" for peer in range(size)]
        store.set(keys[rank], mine)
        try:
            store.wait(keys, patience)
        except Exception as error:
            missing = [str(peer) for peer, key in enumerate(keys) if not store.check([key])]
            if not missing:
                raise
            raise RendezvousFailed(
                f"rank {rank} of {size} has waited {patience.total_seconds():g} s at a {type(store).__name__} for "
                f"rank{'s' if len(missing) > 1 else ''} {', '.join(missing)}, which did not come: see whether they run "
                f"and call connect() with the same store, as often as this rank, and as the same job ({name or 'no name'})"
            ) from error
        return [bytes(store.get(key)) for key in keys]

    return all_gather


class UniqueId:
    """A place to meet: a store of the process that makes it. It contains a secret: pass it on by a way that others
    cannot read.

    It serves one connect() of each rank. `bytes(id)` are its 128 bytes, and UniqueId(bytes) is the same one.
    """

    def __init__(self, data: Optional[bytes] = None) -> None:
        refuse_in_callback()
        self._id = ffi.new("tutti_unique_id*")
        if data is None:
            check(lib.tutti_unique_id_create(self._id))
        elif len(data) == ffi.sizeof("tutti_unique_id"):
            ffi.memmove(self._id, data, len(data))
        else:
            raise InvalidArgument(f"an id has {ffi.sizeof('tutti_unique_id')} bytes, and this one has {len(data)}")

    def __bytes__(self) -> bytes:
        return bytes(ffi.buffer(self._id))

    def __reduce__(self) -> Tuple[Any, ...]:  # for the arguments of multiprocessing
        return UniqueId, (bytes(self),)


class _Gathering:
    """A function of the program's that gathers bytes, while tutti_connect() calls it."""

    def __init__(self, function: AllGather, size: int) -> None:
        self.function = function
        self.size = size
        self.raised: Optional[BaseException] = None


def _shown(parts: Any) -> str:
    return f"a {type(parts).__name__}" + (f" of {len(parts)}" if isinstance(parts, (list, tuple)) else "")


def _note(_: Any, raised: BaseException, trace: Any) -> None:
    ffi.from_handle(trace.tb_frame.f_locals["context"]).raised = raised


@ffi.def_extern(error=1, onerror=_note)  # type: ignore[untyped-decorator]
def pytutti_all_gather(mine: Any, everything: Any, size: int, context: Any) -> int:
    gathering = ffi.from_handle(context)
    parts = gathering.function(bytes(ffi.buffer(mine, size)))
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, (bytes, bytearray)) for part in parts):
        raise InvalidArgument(f"all_gather returned {_shown(parts)} instead of a list with bytes of each rank")
    if len(parts) != gathering.size:  # C has memory for those of each rank
        raise InvalidArgument(f"all_gather returned {len(parts)} parts instead of {gathering.size}, one of each rank")
    if any(len(part) != size for part in parts):
        raise InvalidArgument(
            f"all_gather has {[len(part) for part in parts]} bytes of the ranks instead of {size} of each"
        )
    joined = b"".join(parts)
    ffi.memmove(everything, joined, len(joined))
    return 0


def connected(
    *,
    rank: Optional[int],
    size: Optional[int],
    rendezvous: Optional[str],
    id: Optional[UniqueId],
    all_gather: Optional[AllGather],
    store: Optional[Store],
    texts: "dict[str, Optional[Path]]",
    times: "dict[str, Seconds]",
    deterministic: bool,
    tls: bool,
) -> Any:
    """The tutti_comm of tutti_connect()."""
    refuse_in_callback()
    if id is not None and not isinstance(id, UniqueId):
        raise InvalidArgument(f"id is a {type(id).__name__}: give a pytutti.UniqueId, which UniqueId(bytes) makes")
    if (rank is None) != (size is None):
        raise InvalidArgument("rank and size belong together: give both, or none")
    options = ffi.new("tutti_connect_options*", {"size": ffi.sizeof("tutti_connect_options")})
    alive = []
    if rank is not None:
        options.rank, options.ranks = integer("rank", rank), integer("size", size, 1)  # 0 would ask the launcher
    for name, text in {"rendezvous": rendezvous, **texts}.items():
        if text is not None:
            alive.append(ffi.new("char[]", os.fsencode(text)))
            setattr(options, name, alive[-1])
    for name, seconds in times.items():
        setattr(options, name + "_ms", milliseconds(seconds, name))
    if id is not None:
        options.id = id._id
    if store is not None and (rendezvous is not None or id is not None or all_gather is not None):
        raise InvalidArgument("store, rendezvous, id and all_gather are ways to meet: give one of them")
    if (all_gather is not None or store is not None) and size is None:
        raise InvalidArgument(f"{'store' if all_gather is None else 'all_gather'} needs rank and size: give both")
    if store is not None and rank is not None and size is not None:
        all_gather = gathered_in(store, rank, size, times["setup_timeout"], texts["job"])
    gathering = None if all_gather is None or size is None else _Gathering(all_gather, size)
    if gathering:
        alive.append(ffi.new_handle(gathering))
        options.all_gather, options.all_gather_context = lib.pytutti_all_gather, alive[-1]
    options.deterministic, options.tls = deterministic, tls
    comm = ffi.new("tutti_comm**")
    result = lib.tutti_connect(options, comm)
    if gathering and gathering.raised:
        raise gathering.raised
    check(result)
    return comm[0]
