"""torchrun, in which a backend of PyTorch may be tutti.

    python -m pytutti.torchrun --takeover gloo --nproc-per-node 4 script.py [ARGUMENT ...]

The script stays as it is: `init_process_group("gloo")` makes a group of tutti. All other options are torchrun's.
"""

import sys
from typing import Any, NoReturn

USAGE = "usage: python -m pytutti.torchrun --takeover gloo [OPTION OF TORCHRUN ...] SCRIPT [ARGUMENT ...]"


def wrong(text: str) -> NoReturn:
    sys.exit(f"pytutti.torchrun: {text}\n{USAGE}")


def main() -> None:
    try:
        from torch.distributed import run
    except ImportError as error:
        wrong(f"PyTorch is needed, and cannot be imported: {error}")
    from .torch.takeover import TAKEOVERS

    parser = run.get_args_parser()
    parser.prog = "pytutti.torchrun"
    parser.add_argument("--takeover", metavar="BACKEND", help="the backend that tutti stands in for: gloo")
    chosen = parser.parse_args()
    if chosen.takeover is None:
        wrong("--takeover is missing; without it this is torchrun")
    if chosen.takeover not in TAKEOVERS:
        wrong(f"tutti cannot stand in for {chosen.takeover!r}, only for {', '.join(TAKEOVERS)}")
    if chosen.no_python or chosen.module:
        wrong("--takeover needs a script of Python, without --no-python and --module")
    chosen.training_script_args = [chosen.takeover, chosen.training_script, *chosen.training_script_args]
    chosen.training_script, chosen.module = "pytutti.torch.takeover", True
    start: Any = run.run  # it has no types
    start(chosen)


if __name__ == "__main__":
    main()
