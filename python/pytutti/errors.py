"""What goes wrong, by kind. docs/failures.md has an example of each, and what to do about it."""

from typing import Any, Dict, Mapping, Tuple, Type


class Error(Exception):
    """A failure, in sentences: who, what, where, how far the call had come, and the remedy.

    What is unknown is 0 or "", and `rank` is -1 where no rank is to blame.
    """

    rank: int = -1  #: the culprit's in the communicator
    operation: int = 0  #: its number on the communicator, from 1
    host: str = ""  #: the culprit's
    process: str = ""  #: the culprit's: "pid 1234"
    collective: str = ""  #: "all_reduce", "send" ...
    algorithm: str = ""  #: "tree:4"
    data_type: str = ""  #: "f32"
    count: int = 0  #: elements of the call
    steps_done: int = 0  #: of this rank's plan, or rounds
    steps: int = 0  #: of this rank's plan, in all, or rounds
    bytes_received: int = 0  #: of the call
    reported: bool = False  #: another rank found the failure and told this one
    in_rounds: bool = False  #: the ranks used a board, and its rounds are counted in place of steps

    def __reduce__(self) -> Tuple[Any, ...]:  # for multiprocessing, which passes on what a child raises
        return _again, (type(self), str(self), self.__dict__)


class InvalidArgument(Error, ValueError):
    """The call itself is wrong. Nothing was sent, and the communicator is as before."""


class Unsupported(Error):
    """Valid, but not supported by this build or algorithm. Nothing was sent."""


class Mismatch(Error):
    """Ranks called different things."""


class Timeout(Error, TimeoutError):
    """The deadline passed. The communicator is unusable, except after a probe."""


class PeerLost(Error):
    """A rank died, left or cannot be reached. shrink() makes a communicator of the others."""


class Aborted(Error):
    """The communicator was closed or aborted with work pending."""


class RendezvousFailed(Error):
    """Ranks did not find each other."""


class SystemRefused(Error):
    """The operating system refused something, such as memory."""


class Corrupted(Error):
    """Data changed on its way between two ranks."""


class Truncated(Error):
    """A message did not fit into its receive and was dropped. The communicator goes on."""


class Internal(Error):
    """A fault of tutti's own."""


_KINDS: Dict[int, Type[Error]] = {
    1: InvalidArgument,
    2: Unsupported,
    3: Mismatch,
    4: Timeout,
    5: PeerLost,
    6: Aborted,
    7: RendezvousFailed,
    8: SystemRefused,
    9: Corrupted,
    10: Truncated,
}


def made(code: int, known: Mapping[str, Any]) -> Error:
    """The exception of a tutti_result."""
    kind = _KINDS.get(code, Internal)
    return _again(kind, known["message"], {name: value for name, value in known.items() if name != "message"})


def _again(kind: Type[Error], message: str, known: Mapping[str, Any]) -> Error:
    error = kind(message)
    error.__dict__.update(known)
    return error
