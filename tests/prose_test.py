#!/usr/bin/env python3
"""tools/prose.py finds the habits that it is there to find, and is silent about plain English."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import prose  # noqa: E402


def found(text):
    """Rules that a document with this text breaks, line by line."""
    return [(line, rule) for line, rule, _ in sorted(prose.check_markdown(text))]


def rules(text):
    return [rule for _, rule in found(text)]


def message_rules(text):
    return [(line, rule) for line, rule, _ in prose.check_messages(text)]


class Prose(unittest.TestCase):
    def test_messages_in_sources_are_read(self):
        self.assertEqual(message_rules('f("a rank waits", x);\n'
                                       'throw Error{"the doors of "\n'
                                       '            "{} are closed"};\n'), [(2, "word")])
        self.assertEqual(message_rules('f("it waits for "\n  "ever");'), [(1, "idiom")])
        self.assertEqual(message_rules("f('\"', \"for ever\"); g(1'000, \"be it\");"), [(1, "idiom"), (1, "idiom")])
        self.assertEqual(message_rules("f(\"of who \\\"waits\\\"\");"), [(1, "who")])
        for silent in ('f("door");', '#include "a door.h"', '// says "for ever" of it', 'f(R"(for ever)");',
                       'f("bench: cannot open the file: {}");', 'constexpr auto label = "tutti 4 tunnel";',
                       'f("a{b:1} the doors");'):
            self.assertEqual(message_rules(silent), [], silent)

    def test_plain_english_is_left_alone(self):
        for text in ("A rank that waits asks the others; one that works sends nothing.",
                     "What is a plan? Who sends first?",
                     "It has not ended yet, and no rank has yet to start.",
                     "Everybody who calls it gets the sum, and the error says who waits for whom.",
                     "One cause: the link is full. Another: the link is slow.",
                     "Of course all ranks take part.",
                     "# What a title may be: short, and: so on",
                     "```\nWho waits of late: for ever, be it: he\n```",
                     "Set `who of late: a: b` to `he`, see [the page](he-who-is-there.md).",
                     "| what a cell says | who |\n|---|---|\n| What begins here is no sentence | 2 |"):
            self.assertEqual(found(text), [], text)

    def test_each_habit_is_found(self):
        for rule, text in (("who", "Who waits asks the others."),
                           ("who", "Whoever is away misses nothing before it is given."),
                           ("who", "It takes a core from who drives."),
                           ("who", "It wakes whoever sleeps."),
                           ("what", "What is summed stays with slots."),
                           ("rest", "All is sent, and what was lost comes again."),
                           ("inverted", "Of sockets, as a signal would end the rank."),
                           ("fragment", "Nor is a lock taken."),
                           ("idiom", "It was seen of late."),
                           ("idiom", "So often they were others."),
                           ("idiom", "Nobody waits for ever."),
                           ("idiom", "They connect in vain."),
                           ("idiom", "Any call, be it small, is compared."),
                           ("idiom", "All return to the system but for 8 MiB."),
                           ("person", "The rank that waits gets what he has asked for."),
                           ("yet", "The line is in the caches yet."),
                           ("word", "The centre tells the others."),
                           ("colons", "It is slow: the link is full: nothing is read."),
                           ("long", "It " + "and it\n" * 30 + "ends.")):
            self.assertEqual(rules(text), [rule], text)

    def test_the_line_of_the_sentence_is_named(self):
        self.assertEqual(found("# Title\n\nAll is well. It is\nwell. Who waits\nasks.\n\n- A list.\n- What is here is\n  wrong.\n"),
                         [(4, "who"), (8, "what")])
        self.assertEqual(found("A.\n\n```\nof late\n```\n\n| a | seen of late |\n"), [(7, "idiom")])

    def test_lines_of_documents_have_120_columns(self):
        line = "word " * 24
        self.assertEqual(rules(line.strip()), [])
        self.assertEqual(rules(line + "word."), ["columns"])
        self.assertEqual(rules("| " + line + line + "|"), [])

    def test_comments_are_read_and_code_is_not(self):
        with tempfile.TemporaryDirectory() as made:
            source = pathlib.Path(made) / "a.cc"
            source.write_text('int he = 1;  // its value of late\n/// Who waits\n/// asks.\nauto s = "// he waits";\n')
            self.assertEqual([(line, rule) for line, rule, _ in prose.check_file(source)], [(1, "idiom"), (2, "who")])
            source.write_text("// Two ways:\n//   a: who waits: b\n//   c: of late\n//\n// - It waits\n//   of late.\n")
            self.assertEqual([(line, rule) for line, rule, _ in prose.check_file(source)], [(5, "idiom")])
            source.write_text("// Rooms: 0: none, and 1: one.\n// `a`: the first; `b`: the second.\n// X, Y: A: b: c (2007).\n")
            self.assertEqual(list(prose.check_file(source)), [])
            script = pathlib.Path(made) / "a.py"
            script.write_text("he = 1\n# It waits in vain.\n")
            self.assertEqual([(line, rule) for line, rule, _ in prose.check_file(script)], [(2, "idiom")])


if __name__ == "__main__":
    unittest.main()
