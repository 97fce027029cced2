#!/usr/bin/env python3
"""Who may include whom, and how long things may get: the shape of the repository, checked.

    tools/layers.py          checks every tracked .h, .cc, .inl and .inc file of this checkout, how long .js, .css, .html
                             and .py files are, how long classes, and whether tests are built
    tools/layers.py DIR      checks the files below DIR (the self-test does)

Prints `file:line: what and why` per finding; exits 1 if there is an error, 0 otherwise (warnings are for information).
"""

import pathlib
import re
import subprocess
import sys

# ---- The rules. Paths are prefixes; the longest matching prefix of a file decides.

SYSTEM = ("std", "system")
ENCRYPTION = SYSTEM + ("fmt", "openssl", "asio")
# From the bottom up: (folders, what may come in angle brackets). A folder may include all that is below it, and itself.
LAYERS = (
    (("lib/base/",), SYSTEM + ("fmt",)),
    (("lib/compute/",), SYSTEM + ("fmt",)),
    (("lib/security/",), ENCRYPTION),
    (("lib/observe/",), SYSTEM + ("fmt",)),
    (("algorithms/", "transport/", "rendezvous/"), ENCRYPTION),
    (("lib/engine/",), SYSTEM + ("fmt",)),
    (("lib/gpu/",), SYSTEM + ("fmt",)),
    (("lib/failure/",), SYSTEM + ("fmt",)),
    (("lib/group/",), SYSTEM + ("fmt",)),
    (("lib/collective/", "lib/board/", "lib/message/"), SYSTEM + ("fmt",)),
    (("lib/startup/",), SYSTEM + ("fmt",)),
    (("lib/api/",), SYSTEM + ("fmt",)),
    (("lib/c/",), SYSTEM + ("fmt",)),
)
# These folders may include each other: a collective runs on a board or on links, and both bind the same call.
TOGETHER = ("lib/collective/", "lib/board/")
LIBRARY = ("tutti/", *(folder for folders, _ in LAYERS for folder in folders))


def layered():
    rules, below = {}, ("tutti/",)
    for folders, foreign in LAYERS:
        for folder in folders:
            rules[folder] = (below + (TOGETHER if folder in TOGETHER else (folder,)), foreign)
        below += folders
    return rules


RULES = {
    # folder: (own includes by prefix, what may come in angle brackets)
    **layered(),
    "lib/include/": (("tutti/",), ("std",)),
    "lib/include/tutti/c.h": (("tutti/",), SYSTEM),  # of C
    "lib/include/tutti/c_gpu.h": (("tutti/",), SYSTEM),
    "lib/include/tutti/c_store.h": (("tutti/",), SYSTEM),
    # Pure: plans know neither bytes nor the system.
    "algorithms/": (("tutti/", "lib/base/", "algorithms/"), ("std", "fmt")),
    "cli/": ((*LIBRARY, "cli/"), SYSTEM + ("fmt", "asio", "CLI", "nlohmann", "pugixml")),
    "cli/base/": ((*LIBRARY, "cli/base/"), SYSTEM + ("fmt", "CLI")),
    # Also in programs without tutti: nothing that would have to be linked.
    "cli/measure/": (("tutti/types.h", "lib/base/collective_traits.h", "cli/measure/"), SYSTEM),
    "cli/bench/compare_libraries/rivals/": (
        ("tutti/", "lib/base/collective_traits.h", "lib/base/gpu/", "cli/measure/", "cli/bench/compare_libraries/rivals/"),
        SYSTEM),
    "cli/simulate/simgrid/": (("tutti/", "lib/base/", "algorithms/", "cli/simulate/"), SYSTEM + ("fmt", "simgrid", "xbt")),
    "examples/": (("tutti/",), ("std",)),
    # Is compiled where the Python package was installed, which has this folder and C's headers only.
    "python/pytutti/torch/csrc/": (("",), SYSTEM),
    "tests/algorithms/": (("tutti/", "lib/base/", "algorithms/", "tests/"), ("std", "fmt", "doctest")),
    "tests/consumer/": (("tutti/",), ("std", "fmt", "asio")),
    # The library declares what it calls in the driver itself; only the test that compares this with CUDA's header has it.
    "tests/gpu/": ((*LIBRARY, "tests/"), SYSTEM + ("fmt", "doctest", "cuda")),
    "tests/": ((*LIBRARY, "cli/", "tests/"), SYSTEM + ("fmt", "asio", "openssl", "doctest", "nlohmann")),
}
# No header includes these, which would slow down every build.
PRIVATE_TO_SOURCES = ("fmt", "asio", "openssl", "CLI", "nlohmann", "pugixml", "simgrid", "xbt", "cuda")
THIRD_PARTY = ("fmt", "asio", "openssl", "doctest", "CLI", "nlohmann", "pugixml", "simgrid", "xbt", "cuda")

FILE_LINES = 400
CLASS_LINES = 400  # its declaration and the functions that are defined outside of it, in all files of its folder
LENGTH_ONLY = (".js", ".css", ".html", ".py")
HEADER_LINES = 200  # a warning: public headers carry their documentation
ALGORITHM_LINES = 150
FUNCTION_LINES = 60
TEST_FUNCTION_LINES = 100
# Machinery of the folder, not one algorithm family each.
NOT_ALGORITHMS = ("plan", "check", "replay", "catalogue", "select", "board", "window", "stream")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def family(name):
    """What an angle-bracket include belongs to."""
    first = re.sub(r"\.hp*$", "", name.split("/")[0])
    if first.startswith("cuda"):
        first = "cuda"  # cuda.h, cudaTypedefs.h, cuda_runtime.h
    if first in THIRD_PARTY:
        return first
    return "system" if "." in name or "/" in name else "std"


def rule_of(path):
    best = max((prefix for prefix in RULES if path.startswith(prefix)), key=len, default=None)
    return RULES.get(best)


def folder_of(path):
    return max((prefix for prefix in RULES if path.startswith(prefix)), key=len).rstrip("/")


def check_includes(path, text):
    rule = rule_of(path)
    if rule is None:
        yield "error", 1, "this folder is in none of the layers"
        return
    own, foreign = rule
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        kind, name = match.groups()
        folder = folder_of(path)
        if kind == "<" and not name.startswith("tutti/"):
            what = family(name)
            if what not in foreign:
                yield "error", number, f"{folder} may not include <{name}>"
            elif path.endswith(".h") and what in PRIVATE_TO_SOURCES and not path.startswith("tests/"):
                yield "error", number, f"<{name}> belongs in .cc files only"
        elif not name.startswith(own):
            hint = "" if "/" in name else " (write the path from the repository root)"
            yield "error", number, f"{folder} may not include {name}{hint}"
    if path.endswith(".h") and not re.search(r"^#pragma once$", text, re.M):
        yield "error", 1, "a header begins with #pragma once"


def check_sizes(path, text):
    lines = text.count("\n")
    name = path.rsplit("/", 1)[-1]
    if lines > FILE_LINES:
        yield "error", lines, f"{lines} lines, a file has at most {FILE_LINES}"
    elif path.endswith(".h") and lines > HEADER_LINES:
        yield "warning", lines, f"{lines} lines, a header should have at most {HEADER_LINES}"
    elif path.startswith("algorithms/") and path.endswith(".cc") and not name.startswith(NOT_ALGORITHMS):
        if lines > ALGORITHM_LINES:
            yield "error", lines, f"{lines} lines, an algorithm has at most {ALGORITHM_LINES}"
    if path.endswith(LENGTH_ONLY):
        return
    limit = TEST_FUNCTION_LINES if path.startswith("tests/") else FUNCTION_LINES
    for first, last, title in functions(text):
        if last - first + 1 > limit:
            yield "error", first, f"{title} has {last - first + 1} lines, a function has at most {limit}"


def check_classes(texts):
    """Findings as (severity, path, line, text): `texts` are those of the library and the program, by path."""
    lines, declared = {}, {}
    for path, text in texts.items():
        folder = path.rpartition("/")[0]
        for first, last, name in classes(text):
            lines[folder, name] = lines.get((folder, name), 0) + last - first + 1
            declared[folder, name] = path, first
    for path, text in texts.items():
        folder = path.rpartition("/")[0]
        for first, last, title in functions(text):
            owner = title.rpartition("::")[0]
            while owner and (folder, owner) not in declared:  # a class inside another one counts as part of that
                owner = owner.rpartition("::")[0]
            if owner:
                lines[folder, owner] += last - first + 1
    for key, count in sorted(lines.items()):
        if count > CLASS_LINES:
            yield "error", *declared[key], f"{key[1]} has {count} lines, this class has at most {CLASS_LINES}"


def tests_run(root):
    """The *_test.cc and *_test.py that a meson.build or tools/test names; a run.py runs all scripts of its folder."""
    run = {script.resolve() for every in root.glob("tests/*/run.py") for script in every.parent.glob("*_test.py")}
    for build in root.glob("tests/**/meson.build"):
        words = re.findall(r"'([\w./-]+)'", build.read_text(encoding="utf-8"))
        endings = ("", "_test.py") if "_test.py" in words else ("",)  # name + '_test.py'
        run.update((build.parent / (word + ending)).resolve() for word in words for ending in endings)
    tool = root / "tools/test"
    words = re.findall(r"\w+", tool.read_text(encoding="utf-8")) if tool.exists() else []
    return run | {(root / f"tests/torch/{word}_test.py").resolve() for word in words}


def check_built(root, paths):
    """A test that nothing names runs nowhere, and nothing else would say so."""
    run = tests_run(root)
    for path in paths:
        if path.startswith("tests/") and path.endswith(("_test.cc", "_test.py")) and (root / path).resolve() not in run:
            yield "error", path, 1, "no meson.build names this test, so it never runs"


# ---- Finding functions: enough of C++ for code formatted by clang-format.

TOKEN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)'
    r'|(?P<raw>R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)")'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<digits>\b\d[\w.']*)"
    r"|(?P<char>'(?:\\.|[^'\\\n])+')",
    re.S)
TYPE_OR_SPACE = re.compile(r"^(?:export\s+|inline\s+|typedef\s+|static\s+|const(?:expr)?\s+)*"
                           r"(?:namespace|class|struct|union|enum|extern)\b")
TRAILER = re.compile(r"(?:\)|\b(?:const|noexcept|override|final|mutable|try|requires)|\]|&)$")


NAMESPACE = re.compile(r"(?:inline )?namespace ?([\w:]*) \{")
OPENS_CLASS = re.compile(r"(?:class|struct)(?: \[\[\w+\]\])?(?: alignas\(\w+\))?(?: [A-Z_]+)? (\w+)(?: final)?(?: :[^;]*)? \{")


def check_names(texts):
    """A linker takes the functions of one of two classes of one name for both."""
    seen = {}
    for path, text in texts.items():
        if not path.startswith(("lib/", "algorithms/", "transport/", "rendezvous/", "cli/")):
            continue
        spaces = []
        for number, line in enumerate(text.splitlines(), 1):
            if match := NAMESPACE.match(line):
                spaces.append(match.group(1))
            elif line.startswith("}  // namespace") and spaces:
                spaces.pop()
            elif (match := OPENS_CLASS.match(line)) and spaces and "" not in spaces:
                name = "::".join([space for space in spaces if space != "TUTTI_ABI"] + [match.group(1)])
                first = seen.setdefault(name, path)
                if first != path:
                    yield "error", path, number, f"{first} has a class {name}, too"


def blank(match):
    """Replaces a token by nothing that matters, keeping its lines."""
    return "\n" * match.group(0).count("\n") + ("0" if match.group("digits") else "")


def plain(text):
    """Code without comments, strings, preprocessor lines and #else branches; same number of lines."""
    result, depth, skipping = [], 0, None
    text = TOKEN.sub(blank, text)
    continued = False
    for line in text.split("\n"):
        stripped = line.lstrip()
        if continued or stripped.startswith("#"):
            if not continued:
                if re.match(r"#\s*if", stripped):
                    depth += 1
                elif re.match(r"#\s*el", stripped) and skipping is None:
                    skipping = depth
                elif re.match(r"#\s*endif", stripped):
                    if skipping == depth:
                        skipping = None
                    depth -= 1
            continued = line.endswith("\\")
            result.append("")
        else:
            result.append(line if skipping is None else "")
    return "\n".join(result)


def without_templates(header):
    """Drops attributes and `template <...>` from the front."""
    header = re.sub(r"\[\[.*?\]\]|alignas\s*\([^)]*\)", " ", header).strip()
    while header.startswith("template"):
        depth, at = 0, header.find("<")
        for at in range(at, len(header)):
            depth += {"<": 1, ">": -1}.get(header[at], 0)
            if depth == 0:
                break
        header = header[at + 1:].strip()
    return header


def opens_function(header):
    """Whether the `{` after `header` (at namespace or class level) begins a function body."""
    if header.count("(") != header.count(")"):
        return False  # a default argument
    if "(" not in header:
        return False
    tail = header.rstrip()
    if TRAILER.search(tail) or re.search(r"->\s*[\w:<>,\s*&]+$", tail):
        return True
    # `Name::Name(int a) : a_{a}, b_(2) {`: a name before the brace initialises a member.
    return not re.search(r"\)\s*:\s", tail)


def functions(text):
    """Yields (first line, last line, title) of every function definition."""
    code = plain(text)
    header, line, header_line = "", 1, 1
    scopes = []  # "open" for namespaces and types
    at = 0
    while at < len(code):
        char = code[at]
        if char == "{":
            bare = without_templates(header)
            if TYPE_OR_SPACE.match(bare) and "(" not in bare.split("{")[0].split(":")[0]:
                scopes.append("open")
                header = ""
            else:
                end = matching(code, at)
                first, last = header_line, line + code.count("\n", at, end)
                if opens_function(bare):
                    yield first, last, title_of(bare)
                    header = ""
                else:
                    header += "{}"  # an initialiser
                at, line = end, last
        elif char == "}":
            if scopes:
                scopes.pop()
            header = ""
        elif char == ";" and header.count("(") <= header.count(")"):
            header = ""
        else:
            if char == ":" and re.fullmatch(r"\s*(public|private|protected)\s*", header):
                header = ""
            elif not header.strip() and not char.isspace():
                header, header_line = char, line
            elif header:
                header += char
        if char == "\n":
            line += 1
        at += 1


CLASS = re.compile(r"^(?:class|struct)\s+(?:\[\[\w+\]\]\s+)?(?:alignas\([^)]*\)\s+)?(?:TUTTI_[A-Z_]+\s+)?"
                   r"(\w+(?:::\w+)*)(?:\s+final)?\s*(?::[^;{()]*)?\{", re.M)


def classes(text):
    """Yields (first line, last line, name) of every class at namespace level."""
    code = plain(text)
    for match in CLASS.finditer(code):
        end = matching(code, match.end() - 1)
        yield code.count("\n", 0, match.start()) + 1, code.count("\n", 0, end) + 1, match.group(1)


def matching(code, at):
    depth = 0
    for end in range(at, len(code)):
        depth += {"{": 1, "}": -1}.get(code[end], 0)
        if depth == 0:
            return end
    return len(code) - 1


def title_of(header):
    name = re.search(r"([~\w:]+|operator[^(]+)\s*\(", header)
    return name.group(1) if name else header[:40]


# ---- The command


def tracked(root):
    try:
        listed = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=True)
        names = listed.stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        names = []
    if not names:
        names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
        names = [n for n in names if not n.startswith(("build", "."))]
    return sorted(n for n in names if n.endswith((".h", ".cc", ".inl", ".inc", *LENGTH_ONLY)) and not n.startswith("subprojects/"))


def check(root):
    """All findings below `root` as (severity, path, line, text)."""
    paths = [path for path in tracked(root) if (root / path).exists()]
    findings, texts = list(check_built(root, paths)), {}
    for path in paths:
        file = root / path
        text = file.read_text(encoding="utf-8")
        if not path.endswith((".inc", *LENGTH_ONLY)):
            findings += [(s, path, n, t) for s, n, t in check_includes(path, text)]
        findings += [(s, path, n, t) for s, n, t in check_sizes(path, text)]
        if path.endswith((".h", ".cc")) and not path.startswith("tests/"):
            texts[path] = text
    return findings + list(check_classes(texts)) + list(check_names(texts))


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent)
    findings = check(root)
    for severity, path, line, text in findings:
        print(f"{path}:{line}: {severity}: {text}")
    errors = sum(1 for finding in findings if finding[0] == "error")
    print(f"{len(tracked(root))} files, {errors} errors, {len(findings) - errors} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
