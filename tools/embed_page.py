#!/usr/bin/env python3
"""Puts the parts of the page together and makes of them a C++ source.

    embed_page.py OUTPUT page.html page.css SCRIPT ...

In page.html, @STYLE@ stands for the style sheet and @SCRIPT@ for the scripts, one after the other in one scope. @DATA@
is filled in when a page is written (cli/plan/page/page.cc). Comments that fill a line of a script or style sheet stay behind.
"""

import pathlib
import re
import sys

PIECE = 8000  # letters of one literal, which some compilers limit
MARK = "tutti"


def without_comments(text):
    lines = (line for line in text.splitlines() if not re.match(r"\s*//", line))
    return "\n".join(line for line in lines if line.strip()) + "\n"


def main(output, page, style, *scripts):
    html = pathlib.Path(page).read_text(encoding="utf-8")
    css = re.sub(r"^\s*/\*.*?\*/\n", "", pathlib.Path(style).read_text(encoding="utf-8"), flags=re.S | re.M)
    code = "".join(without_comments(pathlib.Path(script).read_text(encoding="utf-8")) for script in scripts)
    for what, text in (("@STYLE@", css), ("@SCRIPT@", '"use strict";\n(() => {\n' + code + "})();\n")):
        assert html.count(what) == 1, f"{page} names {what} {html.count(what)} times"
        html = html.replace(what, text)
    assert html.count("@DATA@") == 1, f"{page} names @DATA@ {html.count('@DATA@')} times"
    assert f'){MARK}"' not in html
    pieces = [html[at:at + PIECE] for at in range(0, len(html), PIECE)]
    literals = "\n".join(f'    R"{MARK}({piece}){MARK}"' for piece in pieces)
    pathlib.Path(output).write_text(
        "// Made of cli/plan/page/web/ by tools/embed_page.py.\n\n#include \"cli/plan/page/template.h\"\n\n"
        f"namespace tutti::cli {{\n\nextern const char* const page_template =\n{literals};\n\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
