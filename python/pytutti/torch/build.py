"""Finds the extension for the PyTorch that is installed, or builds it.

PyTorch's classes change with every version, so that the extension serves one version only. A wheel may contain it ready
for some; for others it is compiled once, into a folder of the user.

These variables are for an uninstalled tree, and for those who package:

    PYTUTTI_LIBRARY   the file libtutti.so.0; otherwise the one in the package
    PYTUTTI_INCLUDE   the folder with tutti/c.h; otherwise the one in the package
    PYTUTTI_CACHE     where to keep what was built; otherwise pytutti in $XDG_CACHE_HOME or ~/.cache
    CXX               the compiler; otherwise c++
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import cpp_extension

_HERE = pathlib.Path(__file__).resolve().parent
_PACKAGE = _HERE.parent
_NAME = "_backend"


class BuildError(RuntimeError):
    """The extension cannot be built here."""


def _version() -> str:
    """The part of PyTorch's version on which the extension depends: "2_13"."""
    return "_".join(torch.__version__.split("+")[0].split(".")[:2])


def _library() -> pathlib.Path:
    given = os.environ.get("PYTUTTI_LIBRARY")
    path = pathlib.Path(given) if given else _PACKAGE / "lib" / "libtutti.so.0"
    if not path.is_file():
        raise BuildError(f"there is no library {path}: install pytutti, or set PYTUTTI_LIBRARY to the file "
                         "lib/libtutti.so.0 of a build of tutti")
    return path.resolve()


def _include() -> pathlib.Path:
    given = os.environ.get("PYTUTTI_INCLUDE")
    path = pathlib.Path(given) if given else _PACKAGE / "include"
    if not (path / "tutti" / "c.h").is_file():
        raise BuildError(f"there is no header {path}/tutti/c.h: install pytutti, or set PYTUTTI_INCLUDE to the "
                         "folder lib/include of tutti's sources")
    return path.resolve()


def _compiler() -> list[str]:
    words = os.environ.get("CXX", "").split() or ["c++"]
    if not shutil.which(words[0]):
        raise BuildError(f"there is no compiler {words[0]}: install g++ 11 or clang++ 14, or later, or set CXX. It is "
                         f"needed once, since this package has no extension for PyTorch {torch.__version__}")
    return words


def command(output: pathlib.Path, library_folder: str | None = None) -> list[str]:
    """How to compile the extension. `library_folder` is where it will find the library; None: where that is now."""
    include, library = _include(), _library()
    flags = ["-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-DNDEBUG",
             f"-DTORCH_EXTENSION_NAME={_NAME}", "-DTORCH_API_INCLUDE_EXTENSION_H",
             f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    # PyTorch before 2.9 says so which of its objects may cross between extensions.
    for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI"):
        value = getattr(torch._C, f"_PYBIND11_{name}", None)
        if value:
            flags.append(f'-DPYBIND11_{name}="{value}"')
    folders = [*cpp_extension.include_paths(), sysconfig.get_path("include")]
    flags += [f"-isystem{folder}" for folder in folders]
    libraries = [f"-L{folder}" for folder in cpp_extension.library_paths()]
    libraries += [f"-Wl,-rpath,{library_folder or library.parent}"]
    libraries += [str(library), "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    return [*_compiler(), *flags, f"-I{include}", str(_HERE / "csrc" / "all.cc"), "-o", str(output), *libraries]


def _sources() -> list[pathlib.Path]:
    return sorted((_HERE / "csrc").glob("*"))


def _fingerprint() -> str:
    """Of all that the result depends on. Any compiler's will do, so that a machine without one uses what is there."""
    digest = hashlib.sha256()
    for path in [*_sources(), *(_include() / "tutti" / name for name in ("c.h", "c_store.h"))]:
        digest.update(path.read_bytes())
    digest.update(repr((torch.__version__, torch.__file__, str(_library()), sys.version)).encode())
    return digest.hexdigest()[:16]


def _cache() -> pathlib.Path:
    given = os.environ.get("PYTUTTI_CACHE")
    if given:
        return pathlib.Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "pytutti"


def _suffix() -> str:
    return importlib.machinery.EXTENSION_SUFFIXES[0]


@contextlib.contextmanager
def _usable(folder: pathlib.Path) -> Iterator[None]:
    """Says what to do if the system refuses the folder."""
    try:
        yield
    except OSError as error:
        raise BuildError(f"cannot keep the extension in {folder}: {error}: set PYTUTTI_CACHE to a folder that "
                         "this user may write, and in which files can be locked") from error


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    """Ranks of a host build once."""
    with contextlib.ExitStack() as open_files:
        with _usable(folder):
            file = open_files.enter_context(open(folder / "lock", "w", encoding="utf-8"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _log(target: pathlib.Path) -> pathlib.Path:
    """What the compiler has said when it failed."""
    return target.with_suffix(".log")


def _last_failure(target: pathlib.Path) -> int:
    """A number that every failure changes."""
    log = _log(target)
    return log.stat().st_mtime_ns if log.is_file() else 0


def _does_not_compile(target: pathlib.Path) -> BuildError:
    log = _log(target)
    lines = "\n".join(log.read_text(encoding="utf-8").splitlines()[:20])
    return BuildError(f"the extension for PyTorch {torch.__version__} does not compile; all that the compiler says "
                      f"is in {log}, which begins:\n{lines}")


def _build(target: pathlib.Path, library_folder: str | None = None) -> None:
    with _usable(target.parent):  # a folder of its own, since hosts may share this one and not the lock
        own = tempfile.TemporaryDirectory(prefix="unfinished-", dir=target.parent)
    with own:
        unfinished = pathlib.Path(own.name, target.name)
        words = command(unfinished, library_folder)  # first, since it looks for what is needed
        print(f"pytutti: building the extension for PyTorch {torch.__version__}, once, which takes about a minute: "
              f"{target}", file=sys.stderr, flush=True)
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            _log(target).write_text(done.stdout + done.stderr, encoding="utf-8")
            raise _does_not_compile(target)
        os.replace(unfinished, target)


def _prebuilt(folder: pathlib.Path) -> pathlib.Path:
    return folder / f"{_NAME}_{_version()}{_suffix()}"


def extension() -> pathlib.Path:
    """The file with the extension, built if need be."""
    prebuilt = _prebuilt(_HERE)
    if prebuilt.is_file() and not any(map(os.environ.get, ("PYTUTTI_LIBRARY", "PYTUTTI_INCLUDE"))):
        return prebuilt
    folder = _cache() / f"torch-{torch.__version__}-{_fingerprint()}"
    target = folder / f"{_NAME}{_suffix()}"
    if target.is_file():
        return target
    with _usable(folder):
        folder.mkdir(parents=True, exist_ok=True)
    last_failure = _last_failure(target)
    with _locked(folder):
        if target.is_file():
            return target
        if _last_failure(target) != last_failure:  # another rank has tried meanwhile
            raise _does_not_compile(target)
        _build(target)
    return target


def load() -> Any:
    """The extension as a module."""
    loaded = sys.modules.get(f"{__package__}.{_NAME}")
    if loaded:
        return loaded
    name = f"{__package__}.{_NAME}"
    loader = importlib.machinery.ExtensionFileLoader(name, str(extension()))
    spec = importlib.util.spec_from_file_location(name, loader.path, loader=loader)
    assert spec is not None  # there is a loader
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    module.ask_python()  # instead of pytutti, which finds the module by its name
    pytutti = sys.modules.get("pytutti._library")
    if pytutti:
        pytutti.share_question()
    return module


if __name__ == "__main__":
    # For tools/wheel: puts the extension for this PyTorch into the folder, which is the one of this file in a wheel.
    _build(_prebuilt(pathlib.Path(sys.argv[1])), "$ORIGIN/../lib")
