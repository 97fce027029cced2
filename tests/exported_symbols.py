#!/usr/bin/env python3
"""tests/exported_symbols.py libtutti.a: what a program that links the library can meet of it.

The dynamic linker sees the public API and nothing else: a private function called by accident would become a promise.
The static linker sees hidden symbols, too, and takes one of two functions of the same name for both. So that a program
may contain another Asio or fmt, every name is one of ours, but for templates of the standard library, which every C++
object may contain; and those are compiled for the processor that the program is compiled for.
"""

import re
import subprocess
import sys

# Readable name of a symbol that may be visible.
PUBLIC = re.compile(r"(?:(?:vtable|typeinfo|typeinfo name|VTT|guard variable) for |non-virtual thunk to )?tutti::")
PRIVATE = re.compile(r"\btutti::(?:algorithms|transport|rendezvous|compute)::")
# Templates of the standard library and what compilers add, weak in every object of every program.
STANDARD = re.compile(r"(?:[\w:]+(?:<.*>)?[&*\s]* )?(?:(?:vtable|typeinfo|typeinfo name) for )?(?:std|__gnu_cxx)::"
                      r"|operator (?:new|delete)|guard variable for std::|DW\.ref\.|__clang_call_terminate")
# In a mangled name: the name spaces tutti, tutti_asio and tutti_fmt, of the symbol or of what it is a template of. In a
# name of C: how it begins.
OURS = re.compile(r"_Z.*(?:5tutti|10tutti_asio|9tutti_fmt)|tutti")
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


def main(archive):
    symbols = sorted(set(defined(archive)))
    names = readable([name for _, _, _, name in symbols])
    shown, wrong = set(), {}
    for member, binding, visibility, mangled in symbols:
        name = names[mangled]
        standard = binding != "GLOBAL" and STANDARD.match(name)
        if visibility == "DEFAULT" and PUBLIC.match(name) and not PRIVATE.search(name):
            shown.add(name)
        elif visibility == "DEFAULT" and not standard:
            wrong[name] = "should be hidden"
        elif not OURS.match(mangled) and not standard:
            wrong[name] = "may be another library's name, too"
        elif not OURS.match(mangled) and FOR_OTHER_PROCESSORS.match(member):
            wrong[name] = f"may be used by a program on a processor that lacks the instructions of {member}"
    for name, why in wrong.items():
        print(f"{name}: {why}")
    print(f"{len(shown)} public symbols, {len(wrong)} wrong ones")
    return 1 if wrong or len(shown) < 10 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
