#!/usr/bin/env python3
"""tests/exported_symbols.py libtutti.a: what the library shows to the linker is the public API and nothing else.

A user may link another Asio or fmt, and a private function called by accident would become a promise.
"""

import re
import subprocess
import sys

# Readable name of a symbol that may be visible.
PUBLIC = re.compile(r"(?:(?:vtable|typeinfo|typeinfo name|VTT|guard variable) for |non-virtual thunk to )?tutti::")
PRIVATE = re.compile(r"\btutti::(?:algorithms|transport|rendezvous|compute)::")
# Templates of the standard library, weak in every object of every program.
STANDARD = re.compile(r"(?:[\w:]+(?:<.*>)?[&*\s]* )?(?:(?:vtable|typeinfo|typeinfo name) for )?(?:std|__gnu_cxx)::"
                      r"|operator (?:new|delete)|guard variable for std::|DW\.ref\.|__clang_call_terminate")


def visible(archive):
    listing = subprocess.run(["readelf", "-sW", archive], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        words = line.split()
        if len(words) >= 8 and words[5] == "DEFAULT" and words[4] in ("GLOBAL", "WEAK", "UNIQUE") and words[6] != "UND":
            yield words[4], words[7]


def main(archive):
    symbols = sorted(set(visible(archive)))
    names = subprocess.run(["c++filt"], input="\n".join(name for _, name in symbols), capture_output=True, text=True,
                           check=True).stdout.splitlines()
    shown, wrong = 0, []
    for (binding, _), name in zip(symbols, names):
        if PUBLIC.match(name) and not PRIVATE.search(name):
            shown += 1
        elif binding == "GLOBAL" or not STANDARD.match(name):
            wrong.append(name)
    print("\n".join(wrong))
    print(f"{shown} public symbols, {len(wrong)} that should be hidden")
    return 1 if wrong or shown < 10 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
