#!/usr/bin/env python3
"""Documents name files and places that exist: links, anchors, and paths between backticks."""

import ast
import itertools
import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Documents whose paths are of this checkout. A changelog speaks of the past.
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/*.md", "docs/learn/*.md", "docs/decisions/*.md", "docs/performance/*.md")
PATH = re.compile(r"`([\w*.{},-]+/[\w*.{},/-]*)`")
# Paths that a reader may create, and paths that a build creates.
MADE_BY_READERS = re.compile(r"/name[_./]|/name$|^build|^tutti/|^include/")


def documents(root=ROOT):
    return sorted(path for pattern in DOCUMENTS for path in root.glob(pattern))


def alternatives(name):
    """`a.{h,cc}` is two names."""
    parts = [part.strip("{}").split(",") if part.startswith("{") else [part] for part in re.split(r"(\{[^}]*\})", name)]
    return ["".join(choice) for choice in itertools.product(*parts)]


def anchors(text):
    """As GitHub makes them of titles."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def without_blocks(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def paths_in(text, root):
    """Names that look like paths of the repository: their first part is one of its folders."""
    folders = {path.name for path in root.iterdir() if path.is_dir()}
    for match in PATH.finditer(without_blocks(text)):
        name = match.group(1)
        if name.split("/")[0] in folders and not MADE_BY_READERS.search(name):
            yield from alternatives(name)


def signature(function):
    """What a caller may write between the parentheses, as docs/python.md does: `x, out=None, op="sum"`, without what
    is behind a `*`; and the options behind it."""
    arguments = [one.arg for one in function.args.args if one.arg != "self"]
    defaults = [None] * (len(arguments) - len(function.args.defaults)) + function.args.defaults
    options = {one.arg: ast.unparse(value).replace("'", '"')
               for one, value in zip(function.args.kwonlyargs, function.args.kw_defaults)}
    return ", ".join(name if value is None else f"{name}={ast.unparse(value)}".replace("'", '"')
                     for name, value in zip(arguments, defaults)), options


def python_calls():
    """The functions of the package, and the methods of its classes, by name; of a name with overloads the last."""
    for file in ("collectives", "variable", "messages", "communicator"):
        for node in ast.walk(ast.parse((ROOT / f"python/pytutti/{file}.py").read_text())):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield node.name, signature(node)


def missing(document, root):
    text = document.read_text()
    for name in paths_in(text, root):
        if not any(root.glob(name.rstrip("/"))):
            yield f"`{name}`"
    for target in re.findall(r"\]\(([^)\s]+)", without_blocks(text)):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = document.parent / name if name else document
        if not file.exists():
            yield target
        elif anchor and anchor not in anchors(file.read_text()):
            yield f"{target}: no such title"


class Documents(unittest.TestCase):
    def test_names_in_documents_exist(self):
        self.assertGreater(len(documents()), 40)
        for document in documents():
            with self.subTest(document=str(document.relative_to(ROOT))):
                self.assertEqual(list(missing(document, ROOT)), [])

    def test_the_walk_of_a_call_visits_each_folder_and_names_files(self):
        page = (ROOT / "docs/architecture.md").read_text()
        walk = page.split("## An all_reduce, from header to bytes")[1].split("\n## ")[0]
        steps = [line for line in walk.splitlines() if re.match(r"\| \d+\. ", line)]
        self.assertGreater(len(steps), 7)
        for step in steps:
            self.assertTrue(list(paths_in(step, ROOT)), step)
        table = re.search(r"^\| folder \|.*?\n\n", page, re.M | re.S).group(0)
        folders = re.findall(r"^\| `([^`]+/)` \|", table, re.M)
        self.assertGreater(len(folders), 15)
        visited = list(paths_in(walk, ROOT))
        for folder in set(folders) - {"tools/", "tests/"}:  # which take no part in a call
            self.assertTrue(any(path.startswith(folder) for path in visited), f"the walk does not visit {folder}")
            within = [number for number, step in enumerate(steps) if any(path.startswith(folder) for path in paths_in(step, ROOT))]
            self.assertEqual(within, list(range(min(within, default=0), min(within, default=0) + len(within))),
                             f"the walk leaves {folder} and comes back")

    def test_calls_of_python_have_the_arguments_and_defaults_of_the_page(self):
        text = (ROOT / "docs/python.md").read_text()
        known = dict(python_calls())
        rows = re.search(r"^\| call \| result \|\n.*?\n\n", text, re.M | re.S).group(0).splitlines()[2:]
        told = [found for row in rows for found in re.findall(r"`(\w+)\((.*?)\)`", row.split(" | ")[0])]
        self.assertGreater(len(told), 25)
        for name, arguments in told:
            if (name, arguments) != ("split", "None"):  # a call of it
                self.assertEqual(arguments, known[name][0], name)
        rows = re.search(r"^\| option \| meaning \|\n.*?\n\n", text, re.M | re.S).group(0).splitlines()[2:]
        told = [found for row in rows for found in re.findall(r"`(\w+=\w+)`", row.split(" | ")[0])]
        arguments, options = known["connect"]
        self.assertEqual(sorted(told), sorted([*arguments.split(", "), *("=".join(one) for one in options.items())]))

    def test_options_of_a_build_are_those_of_meson_with_their_defaults(self):
        options = re.findall(r"^option\('(\w+)', type: '\w+', value: '?([^',]*)'?,", (ROOT / "meson_options.txt").read_text(), re.M)
        self.assertGreater(len(options), 10)
        told = re.findall(r"^\| `-D(\w+)` \| ([^|]*) \| ", (ROOT / "docs/linking.md").read_text(), re.M)
        self.assertEqual(sorted(told), sorted(options))

    def test_every_decision_is_in_the_index_under_its_title(self):
        folder = ROOT / "docs/decisions"
        listed = dict(re.findall(r"^\d+\. \[(.*)\]\((.*)\)$", (folder / "README.md").read_text(), re.M))
        files = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
        self.assertEqual(sorted(listed.values()), [path.name for path in files])
        for number, path in enumerate(files, 1):
            title = path.read_text().splitlines()[0]
            self.assertEqual(listed[re.sub(r"^# \d+\. ", "", title)], path.name)
            self.assertEqual((path.name[:4], title.split()[1]), (f"{number:04}", f"{number}."))
            for part in ("**Context.**", "**Decision.**", "**Consequence.**"):
                self.assertIn(part, path.read_text(), path.name)

    def test_the_changelog_begins_with_this_version(self):
        version = re.search(r'TUTTI_VERSION "(.*)"', (ROOT / "lib/include/tutti/version.h").read_text()).group(1)
        self.assertEqual(re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M).group(1), version)

    def test_what_is_missing_is_found(self):
        with tempfile.TemporaryDirectory() as made:
            root = pathlib.Path(made)
            (root / "lib").mkdir()
            (root / "lib/a.h").touch()
            page = root / "page.md"
            page.write_text("# A title\n`lib/a.h` `lib/a.{h,cc}` `lib/*.h` `lib/b.h` `other/b.h` `lib/name.h`\n"
                            "[x](#a-title) [y](#none) [z](lib/c.h) [w](https://x.y)\n```\n`lib/d.h`\n```\n")
            self.assertEqual(list(missing(page, root)), ["`lib/a.cc`", "`lib/b.h`", "#none: no such title", "lib/c.h"])


if __name__ == "__main__":
    unittest.main()
