#!/usr/bin/env python3
"""cli/packaging/man_page.py PROGRAM NAME OUTPUT: writes the manual page of `tutti` (NAME: tutti) or of one of its
subcommands (NAME: tutti-run) from what the program prints for --help.

Indented lines of a help are options with what they mean, except in examples, which stay as they are.
"""

import os
import re
import subprocess
import sys
import time

ENTRY = re.compile(r"^ {2,8}(\S.*?)(?:  +(\S.*))?$")
MEANINGS = 30  # the column where CLI11 writes them; a long name leaves one space
DEEPER = re.compile(r"^ {9,}(\S.*)$")


def printed(program, *words):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    return subprocess.run([program, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=True, timeout=60).stdout


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def entry(name, meaning):
    return [".TP", f"\\fB{roff(name)}\\fR", roff(meaning) if meaning else "\\&"]


def block(lines):
    """Options, or words, with what they mean; the meaning may begin on the line after."""
    out = []
    for line in lines:
        if found := DEEPER.match(line):
            if out and out[-1] == "\\&":
                out.pop()
            out.append(roff(found[1]))
        elif line.startswith("  -") and line[MEANINGS - 1 : MEANINGS] == " " and line[MEANINGS - 2 : MEANINGS - 1] != " ":
            out += entry(line[:MEANINGS].strip(), line[MEANINGS:])
        elif found := ENTRY.match(line):
            out += entry(*found.groups())
    return out


def is_verbatim(heading, lines):
    return heading.startswith("Example") or not any(re.match(r"^ {2,8}\S.*  +\S|^ {2,8}-", line) for line in lines)


def sections(help_text):
    """(heading, lines) of a help, where the first has no heading; a heading ends in a colon and has indented lines."""
    heading, lines = "", []
    texts = help_text.splitlines()
    for at, line in enumerate(texts):
        followed = at + 1 < len(texts) and texts[at + 1].startswith("  ")
        if line.endswith(":") and not line.startswith(" ") and followed:
            yield heading, lines
            heading, lines = line[:-1], []
        else:
            lines.append(line)
    yield heading, lines


def body(heading, lines):
    """Paragraphs and indented blocks, in their order."""
    out = []
    while lines:
        if not lines[0].strip():
            lines = lines[1:]
            continue
        indented = lines[0].startswith(" ")
        count = next((at for at, line in enumerate(lines) if line.strip() and line.startswith(" ") != indented), len(lines))
        if not indented:
            count = min(count, next((at for at, line in enumerate(lines) if not line.strip()), count))
        part, lines = [line for line in lines[:count] if line.strip()], lines[count:]
        if not indented:
            out += [".PP"] * bool(out) + [roff(line) for line in part]
        elif is_verbatim(heading, part):
            out += [".PP"] * bool(out) + [".nf", *(roff(line.removeprefix("  ")) for line in part), ".fi"]
        else:
            out += block(part)
    return out


def described(help_text):
    """The parts of one help: usage, description, and named sections."""
    (_, first), *rest = sections(help_text)
    usage = next(line.removeprefix("Usage: ") for line in first if line.startswith("Usage: "))
    first = [line for line in first if not line.startswith("Usage: ")]
    return usage, first, rest


def page(program, name):
    words = name.split("-")[1:]
    usage, first, rest = described(printed(program, *words, "--help"))
    top = printed(program, "--help")
    subcommands = re.findall(r"^  ([a-z]+)  +(.*)$", top.split("--version")[0], re.M)
    meaning = dict(subcommands)[words[0]] if words else "collective communication between processes, without MPI"
    version = printed(program, "--version").split()[1]
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    out = [f'.TH {name.upper()} 1 {date} "tutti {version}" "User Commands"', ".nh", ".ad l",
           ".SH NAME", f"{roff(name)} \\- {roff(meaning)}", ".SH SYNOPSIS", f".B {roff(usage)}", ".SH DESCRIPTION",
           *body("", first)]
    for heading, lines in rest:
        out += [f".SH {heading.upper()}", *body(heading, lines)]
        if heading == "Subcommands":
            out += commands_of(program, words, [line.split()[0] for line in lines if line.strip()])
    others = [f"tutti\\-{one}" for one, _ in subcommands] if not words else ["tutti"]
    out += [".SH SEE ALSO", ",\n".join(f".BR {other} (1)" for other in others)]
    return "\n".join(out) + "\n"


def commands_of(program, words, names):
    out = []
    for one in names:
        usage, _, rest = described(printed(program, *words, one, "--help"))
        out += [f".SS {roff(usage)}"]
        for heading, lines in rest:
            if not heading.startswith("Example"):
                out += body(heading, lines)
    return out


def main(program, name, output):
    with open(output, "w", encoding="utf-8") as file:
        file.write(page(program, name))


if __name__ == "__main__":
    main(*sys.argv[1:])
