"""The program `tutti`, which the package contains: run, bench, plan, tune and others."""

import os
import pathlib


def program() -> str:
    """The path of the program. PYTUTTI_PROGRAM names another one, such as that of a build folder."""
    return os.environ.get("PYTUTTI_PROGRAM") or str(pathlib.Path(__file__).parent / "bin" / "tutti")
