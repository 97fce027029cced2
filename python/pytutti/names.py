"""The words that calls take."""

import difflib
from typing import Any, Optional

COLLECTIVES = (
    "all_reduce",
    "reduce",
    "broadcast",
    "all_gather",
    "reduce_scatter",
    "scatter",
    "gather",
    "all_to_all",
    "barrier",
    "scan",
    "exclusive_scan",
)  # by their numbers


def no_collective(name: Any) -> Optional[str]:
    """What is wrong with the name of a collective, with the remedy."""
    if name in COLLECTIVES:
        return None
    near = difflib.get_close_matches(name, COLLECTIVES, 1) if isinstance(name, str) else []
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"there is no collective {name!r}: {meant}there are {', '.join(COLLECTIVES)}"
