#!/usr/bin/env python3
"""Writes the lessons and their pictures into a source file, so that the program has them wherever it is.

    tools/embed_lessons.py OUTPUT.cc FILE...
"""

import pathlib
import re
import sys

# What leads on in the file of a lesson. The program and its pages have links of their own.
FOOT = re.compile(r"\n\n[^\n]*\[All lessons\]\(README\.md\)\n\Z")
PIECE = 16000  # compilers need not take a longer literal


def literal(text):
    pieces = [text[at:at + PIECE] for at in range(0, len(text), PIECE)]
    return "\n".join(f'R"tutti({piece})tutti"' for piece in pieces)


def main():
    output, *files = sys.argv[1:]
    entries = []
    for file in map(pathlib.Path, files):
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".md":
            text, found = FOOT.subn("\n", text)
            if not found:
                sys.exit(f"{file} does not end with a line that leads on, with [All lessons](README.md)")
        if ')tutti"' in text:
            sys.exit(f"{file} contains )tutti\", which ends the literal it is put into")
        entries.append(f'    {{"{file.name}", {literal(text)}}},\n')
    pathlib.Path(output).write_text(f"""// Made by tools/embed_lessons.py from docs/learn.
#include "cli/learn/lessons.h"

namespace tutti::cli {{
namespace {{

constexpr LessonFile course_files[] = {{
{"".join(entries)}}};

}}  // namespace

std::span<const LessonFile> lesson_files() {{ return course_files; }}

}}  // namespace tutti::cli
""", encoding="utf-8")


if __name__ == "__main__":
    main()
