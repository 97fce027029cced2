#!/usr/bin/env python3
"""tests/exported_symbols.py libtutti.a SYMBOLS TESTS VERSION [libtutti.so.0]: what a program that links the library can
meet of it.

The dynamic linker sees the public API and nothing else: a private function called by accident would become a promise.
Each of these names carries the inline namespace of VERSION, so that two versions do not meet.
The static linker sees hidden symbols, too, and takes one of two functions of the same name for both. So that a program
may contain another Asio or fmt, every name is one of ours, but for templates of the standard library, which every C++
object may contain; and those are compiled for the processor that the program is compiled for.

The functions of the C interface are exactly those of the file SYMBOLS, in both libraries. Each of them is named by a
program in the folder TESTS.
"""

import pathlib
import re
import subprocess
import sys

# Readable name of a symbol that may be visible.
PUBLIC = re.compile(r"(?:(?:vtable|typeinfo|typeinfo name|VTT|guard variable) for |non-virtual thunk to )?tutti::")
PRIVATE = re.compile(r"\btutti::(?:algorithms|transport|rendezvous|compute)::")
# Templates of the standard library and what compilers add, weak in every object of every program.
STANDARD = re.compile(r"(?:[\w:]+(?:<.*>)?[&*\s]* )?(?:(?:vtable|typeinfo|typeinfo name) for )?(?:std|__gnu_cxx)::"
                      r"|operator (?:new|delete)|guard variable for std::|DW\.ref\.|__clang_call_terminate")
# A mangled name is ours if it, or an argument of its template, is in the namespaces tutti, tutti_asio or tutti_fmt, or is
# a handle of the C interface. A name of C is ours by its prefix.
OURS = re.compile(r"_Z.*(?:5tutti|\d+tutti_)|tutti")
VERSIONS = {"TUTTI_0"}
# Objects with instructions that not every processor has.
FOR_OTHER_PROCESSORS = re.compile(r"kernels_avx")


def defined(archive):
    """(object, binding, visibility, name) of all global symbols."""
    listing = subprocess.run(["readelf", "-sW", archive], capture_output=True, text=True, check=True).stdout
    member = ""
    for line in listing.splitlines():
        words = line.split()
        if line.startswith("File: "):
            member = line.split("(")[-1].rstrip(")")
        elif len(words) >= 8 and words[4] in ("GLOBAL", "WEAK", "UNIQUE") and words[6] != "UND":
            yield member, words[4], words[5], words[7]


def readable(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, text.splitlines()))


def listed(symbols_file):
    """Names of the C interface, from the file of Debian's package, which lists the version itself as a symbol, too."""
    return set(re.findall(r"^ (\w+)@TUTTI_0 ", pathlib.Path(symbols_file).read_text(), re.M)) - VERSIONS


def of_c(symbols):
    return {name for _, _, visibility, name in symbols if visibility == "DEFAULT" and not name.startswith("_Z")}


def dynamic(shared):
    """What the dynamic linker can find in a shared library, without its versions."""
    listing = subprocess.run(["nm", "-D", "--defined-only", shared], capture_output=True, text=True, check=True).stdout
    return {line.split()[2].split("@")[0] for line in listing.splitlines()} - VERSIONS


def differences(wanted, found, where):
    yield from (f"{name}: is listed, but not in {where}" for name in sorted(wanted - found))
    yield from (f"{name}: is in {where}, but not listed" for name in sorted(found - wanted))


def untested(names, folder):
    programs = "".join(path.read_text() for path in pathlib.Path(folder).glob("*.c"))
    return (f"{name}: no program in {folder} uses it" for name in sorted(names) if not re.search(rf"\b{name}\b", programs))


def check_c(symbols, wanted, tests, shared):
    yield from differences(wanted, of_c(symbols), "the static library")
    yield from untested(wanted, tests)
    if not shared:
        return
    yield from differences(wanted, dynamic(shared), "the shared library")
    header = subprocess.run(["readelf", "-dW", shared], capture_output=True, text=True, check=True).stdout
    if "[libtutti.so.0]" not in header:
        yield "libtutti.so.0: this is not the SONAME of the shared library"


def main(archive, symbols_file, tests, version, shared=None):
    abi = "v" + "_".join(version.split(".")[:2])
    symbols = sorted(set(defined(archive)))
    names = readable([name for _, _, _, name in symbols])
    shown, wrong = set(), {}
    listed_names = listed(symbols_file)
    for member, binding, visibility, mangled in symbols:
        name = names[mangled]
        standard = binding != "GLOBAL" and STANDARD.match(name)
        if mangled in listed_names or visibility == "DEFAULT" and PUBLIC.match(name) and not PRIVATE.search(name):
            shown.add(name)
            if mangled.startswith("_Z") and f"{len(abi)}{abi}" not in mangled:
                wrong[name] = f"should be in the inline namespace {abi}, TUTTI_ABI of tutti/version.h"
        elif visibility == "DEFAULT" and not standard:
            wrong[name] = "should be hidden"
        elif not OURS.match(mangled) and not standard:
            wrong[name] = "may be another library's name, too"
        elif not OURS.match(mangled) and FOR_OTHER_PROCESSORS.match(member):
            wrong[name] = f"may be used by a program on a processor that lacks the instructions of {member}"
    findings = [f"{name}: {why}" for name, why in wrong.items()] + list(check_c(symbols, listed_names, tests, shared))
    print(*findings, sep="\n")
    print(f"{len(shown)} public symbols, {len(listed_names)} of them of C, {len(findings)} findings")
    return 1 if findings or len(listed_names) < 10 or len(shown) < 10 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
