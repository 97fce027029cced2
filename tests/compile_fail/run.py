#!/usr/bin/env python3
"""tests/compile_fail/run.py CASES COMPILER...: case 0 of cases.cc compiles, any other is refused for its own reason. Of
cases like 1,10,19 one is tried if TEST_SAMPLE is a number, which chooses it.

With the name of a public header for CASES: it compiles alone, and included twice. tutti.h, which has all of them, also does
without exceptions and RTTI.
"""

import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Werror",
         "-I", str(HERE.parent.parent / "lib" / "include")]


def compile_text(compiler, flags, text):
    return subprocess.run(compiler + FLAGS + flags + ["-x", "c++", "-"], input=text, capture_output=True, text=True,
                          check=False)


def check_header(name, compiler):
    header = f"#include <tutti/{name}>\n"
    results = [compile_text(compiler, [], header + header)]
    if name == "tutti.h":
        use = "auto* use = &tutti::allocate<float>;\n"
        results.append(compile_text(compiler, ["-fno-exceptions", "-fno-rtti"], header + use))
    print(*(result.stderr for result in results))
    return max(result.returncode for result in results)


def check_case(case, compiler):
    text = (HERE / "cases.cc").read_text(encoding="utf-8")
    option, expected = "", ""
    if case != "0":
        option, expected = re.search(rf"CASE == {case}(?: /\* (.*) \*/)? +// (.*)", text).groups("")
    result = compile_text(compiler, [f"-DCASE={case}", *option.split()], text)
    print(result.stderr)
    if case == "0":
        return result.returncode
    if result.returncode == 0:
        print(f"case {case} compiles, but must not")
        return 1
    if not re.search(expected, result.stderr):
        print(f"case {case} is refused, but not because of: {expected}")
        return 1
    return 0


def main(cases, compiler):
    if cases.endswith(".h"):
        return check_header(cases, compiler)
    tried = cases.split(",")
    number = os.environ.get("TEST_SAMPLE", "all")
    if number != "all":
        tried = [tried[int(number) % len(tried)]]
    return max(check_case(case, compiler) for case in tried)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
