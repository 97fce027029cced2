#!/usr/bin/env python3
"""Finds habits that make English hard to read, in documentation, in comments, and in what programs print.

    tools/prose.py                checks the documents of this checkout, the comments of its sources, and messages: string
                                  literals with a space, where a user can meet them
    tools/prose.py FILE ...       checks these files

It exits 1 if it finds something.

A finding is `file:line: rule: what was found`. Code, in blocks or between backticks, is not looked at. Rules are below,
each with the way out.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 120
SENTENCE_WORDS = 48

DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "docs/decisions/*.md", "docs/learn/*.md",
             "docs/performance/notes.md")
SPEAKING = ("lib/", "transport/", "rendezvous/", "cli/")  # whose C++ sources have messages for users
SOURCES = (".h", ".c", ".cc", ".inl", ".inc", ".js", ".py")

# rule: (what it looks for, what to write instead)
HABITS = {
    "idiom": (r"\b(?:of late|for ever|in vain|be it|so often|so many|for good)\b|\bbut for (?!each|every|all\b)",
              "say it plainly: recently, forever or indefinitely, without effect, whether, except, that many"),
    "person": (r"\b(?:he|him|his|himself)\b", "ranks, processes and sockets are `it`; people are `they`"),
    "yet": (r"(?<!and )(?<!as )\byet\b(?! to\b)(?! another\b)", "write `still`; `yet` only after a negation (`not yet`)"),
    "who": (r"\b(?:from|for|of|to|by|with|than|but|as|and|or) who\b(?! else)|(?<=\s)whoever\b",
            "`who` needs an antecedent: `a rank that waits`"),
    "rest": (r"\b(?:and|but) what (?!is more)(?:is|was|are|has|had|does)\b",
             "`what` needs an antecedent: `the data that was read`"),
}
# rule: what a sentence may not begin with
BEGINNINGS = {
    "who": (r"(?:Who|Whoever|Whom) ", "`who` needs an antecedent: `A rank that waits ...`"),
    "what": (r"What (?!if\b)", "begin with the subject: `The data that ...`"),
    "inverted": (r"Of (?!course\b)(?!these\b)(?!the\b)", "begin with the subject"),
    "fragment": (r"(?:Nor|So much) ", "write a sentence with subject and verb"),
}
# One word for one thing: the ones of the field.
WORDS = {
    r"centre": "coordinator (the rank that watches the others)",
    r"shelf|shelves": "small area of a board",
    r"flat calls?": "calls over a board",
    r"lent|lends|lending": "single copy",
    r"goodbye": "bye (of a link), leave (of the failure detector)",
    r"doors?": "acceptor",
    r"tunnels?": "encrypted stream",
    r"desert(?:s|ed)?": "abandon",
    r"farewells?|last words": "closing message",
    r"welcomes?": "accept",
    r"speakers?": "connection",
    r"inquest": "diagnosis",
    r"signs? of life": "heartbeat",
    r"name spaces?": "namespace",
}
SOLVED_BY_QUESTION = ("who", "what")
COLON = r"(?<!CODE)(?<=[A-Za-z)]): (?!CODE)"  # `0: none` and `name: meaning` are definitions


def without_code(text):
    """Markdown without code, comments and link targets; as many lines as before."""
    def blank(match):
        return "\n" * match.group(0).count("\n")

    text = re.sub(r"^( *)(```+).*?^\1\2 *$", blank, text, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.S)
    text = re.sub(r"`[^`\n]+(?:\n[^`\n]+)?`", lambda m: "CODE" + blank(m), text)
    return re.sub(r"\]\([^)]*\)", lambda m: "]" + blank(m), text)


def paragraphs(lines):
    """(number of the first line, text) of everything that is one run of sentences: a paragraph, a list item, a cell."""
    first, words = 0, []
    for number, line in enumerate([*lines, ""], 1):
        bare = line.strip()
        starts = not bare or re.match(r"(?:[-*] |\d+\. |#|\||!\[)", bare)
        if starts and words:
            yield first, "\n".join(words)
            words = []
        if bare.startswith("|"):
            yield from ((number, cell.strip()) for cell in bare.strip("|").split("|") if re.search(r"[a-z]", cell))
        elif bare.startswith("#"):
            continue  # a title is not a sentence
        elif bare:
            if not words:
                first = number
            words.append(re.sub(r"^(?:[-*] |\d+\. )", "", bare))


def sentences(text):
    """(line within `text`, sentence)."""
    begin = 0
    for match in re.finditer(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*\[]*[A-Z])|\Z", text):
        sentence = text[begin:match.start()]
        if sentence.strip():
            yield text.count("\n", 0, begin), " ".join(sentence.split()).lstrip("*\"'([")
        begin = match.end()


def negated(sentence, at):
    return re.search(r"\b(?:not|no|never|nobody|none|nothing|neither)\b|n't", sentence[max(0, at - 80):at], re.I)


def findings_in(sentence, is_cell=False):
    for rule, (pattern, _) in HABITS.items():
        for match in re.finditer(pattern, sentence, re.I if rule != "person" else 0):
            if rule != "yet" or not negated(sentence, match.start()):
                yield rule, match.group(0)
    if not is_cell:
        for rule, (pattern, _) in BEGINNINGS.items():
            match = re.match(pattern, sentence)
            if match and not (rule in SOLVED_BY_QUESTION and sentence.rstrip("\"')*").endswith("?")):
                yield rule, sentence[:40]
    for pattern, better in WORDS.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", sentence, re.I):
            yield "word", f"{match.group(0)}; here it is {better}"
    is_reference = re.search(r"\(\d{4}\)", sentence)  # "Author: Title: subtitle (2007)"
    if not is_reference and any(len(re.findall(COLON, part)) > 1 for part in sentence.split("; ")):
        yield "colons", f"two colons in one sentence: {sentence[:40]}"
    words = len(re.findall(r"[A-Za-z][\w/'’-]*", sentence))  # figures are not words
    if words > SENTENCE_WORDS:
        yield "long", f"{words} words in one sentence, at most {SENTENCE_WORDS}: {sentence[:40]}"


def check_lines(lines, table_cells=True):
    """(line, rule, what) for lines of prose."""
    for first, text in paragraphs(lines):
        is_cell = table_cells and lines[first - 1].strip().startswith("|")
        for offset, sentence in sentences(text):
            for rule, what in findings_in(sentence, is_cell):
                yield first + offset, rule, what


def check_markdown(text):
    yield from check_lines(without_code(text).split("\n"))
    fence = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fence = not fence
        elif not fence and len(line) > COLUMNS and not line.startswith(("|", "![")):
            yield number, "columns", f"{len(line)} columns, at most {COLUMNS}"


def comments(text, mark):
    """`text` with nothing but its comments, line by line."""
    lines = []
    after_code = in_list = False
    for line in text.split("\n"):
        match = re.search(rf"(?:^|\s){mark}[/!<]*\s?(.*)", line) if '"' not in line.split(mark)[0] else None
        words = match.group(1) if match else ""
        beside_code = match is not None and bool(line[:match.start()].strip())
        if words.startswith(("----", "NOLINT", "clang-format")):
            words = ""
        if words and not words.startswith(" "):
            in_list = re.match(r"- ", words) is not None
        elif re.match(r"  - ", words):
            in_list = True
        elif words.startswith("  ") and not in_list and not beside_code and not after_code:
            words = ""  # a table or a drawing
        # What stands behind code and what stands below it are two things.
        lines.append("- " + words if words and (beside_code or after_code) else words)
        after_code = beside_code
    return "\n".join(lines)


def check_source(text, mark):
    lines = without_code(comments(text, mark)).split("\n")
    begins = {first for first, _ in paragraphs(lines)}
    for line, rule, what in check_lines(lines, table_cells=False):
        if rule != "what" or line not in begins:  # "What a receive found" may say what is declared below
            yield line, rule, what


# A character or a raw string is not a message; a comment ends the search in its line.
LITERAL = re.compile(r'''(?P<other>R"\((?:.|\n)*?\)"|'(?:\\.|[^'\\\n])+'(?![\w'])|//[^\n]*)|"(?P<text>(?:\\.|[^"\\\n])*)"''')


def messages(text):
    """(line, message) for the string literals of C++ that have a space, neighbours joined."""
    joined, first, end = "", 0, 0
    for match in [*LITERAL.finditer(text), None]:
        if match and match["text"] is None:
            continue
        continued = match and joined and not text[end:match.start()].strip()
        if joined and not continued:
            if " " in joined.strip() and not re.search(
                r"\{[a-z-]+:[a-z0-9]|^tutti \d ", joined):  # style sheets, labels of the wire protocol
                yield text.count("\n", 0, first) + 1, joined
            joined = ""
        if match and not text[:match.start()].rsplit("\n", 1)[-1].lstrip().startswith("#"):
            first = first if joined else match.start()
            joined, end = joined + match["text"].replace("\\n", "\n").replace('\\"', '"'), match.end()


def check_messages(text):
    for line, message in messages(text):
        for _, paragraph in paragraphs(re.sub(r"(?m)^ .*$", "", message).split("\n")):  # lines that are indented are tables
            for _, sentence in sentences(paragraph):
                for rule, what in findings_in(sentence, is_cell=True):
                    if rule != "colons":  # program and subcommand come first, the system's reason last
                        yield line, rule, what


def check_file(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return sorted(check_markdown(text))
    found = list(check_source(text, "#" if path.suffix == ".py" else "//"))
    path = path.resolve()
    if path.suffix in (".h", ".cc") and ROOT in path.parents and str(path.relative_to(ROOT)).startswith(SPEAKING):
        found += check_messages(text)
    return sorted(found)


def tracked(root):
    listed = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=False)
    return [name for name in listed.stdout.splitlines() if name.endswith(SOURCES) and not name.startswith("subprojects/")]


def main(arguments):
    if any(argument.startswith("-") for argument in arguments):
        sys.exit(__doc__)
    paths = [pathlib.Path(argument) for argument in arguments]
    if not paths:
        paths = [path for pattern in DOCUMENTS for path in ROOT.glob(pattern)]
        paths = sorted(paths + [ROOT / name for name in tracked(ROOT)])
    found = 0
    for path in paths:
        name = path.resolve().relative_to(ROOT) if path.resolve().is_relative_to(ROOT) else path
        for line, rule, what in check_file(path):
            found += 1
            print(f"{name}:{line}: {rule}: {what}")
    advice = {**{rule: text for rule, (_, text) in BEGINNINGS.items()}, **{rule: text for rule, (_, text) in HABITS.items()}}
    if found:
        print("\n".join(f"  {rule}: {text}" for rule, text in advice.items()))
    print(f"{len(paths)} files, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
