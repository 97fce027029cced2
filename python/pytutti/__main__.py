"""python -m pytutti: the program `tutti`, which starts scripts by this Python."""

import os
import sys
from typing import NoReturn

from .program import program


def main() -> NoReturn:
    os.environ.setdefault("TUTTI_PYTHON", sys.executable)
    path = program()
    try:
        os.execv(path, [path, *sys.argv[1:]])
    except OSError as error:
        sys.exit(
            f"pytutti: cannot start {path}: {error.strerror}. PYTUTTI_PROGRAM names another place; "
            "if it is not set, install the package again"
        )


if __name__ == "__main__":
    main()
