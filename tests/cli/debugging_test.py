#!/usr/bin/env python3
"""docs/debugging.md says what happens: its commands are run, what they print is compared, its words are accepted."""

import os
import pathlib
import re
import shlex

import harness
from harness import tutti

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "debugging.md"
BUILD = ""


def blocks():
    """(command, lines that it prints) of all console blocks, in order."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


CHANGING = (  # what differs from run to run, and from host to host
    (r"^(\[\d+\] )[^ :]+:\d+:\d+ ", r"\1HEAD "),  # of a log: host, process and thread
    (r"(?<=\] )\d+\.\d+(?= TUTTI )", "TIME"),
    (r"\d+:\d+:\d+\.\d+ +(\d+\.\d+|\?) s", "TIME"),
    (r"since \d+\.\d+ s", "since TIME"),
    (r"(?<=did not end within )\d+(?= s)", "N"),  # see run_here()
    (r"\bhost [^ ,:]+", "host H"),
    (r"\bpid \d+", "pid N"),
    (r"(?<=, tutti )\d+\.\d+\.\d+", "VERSION"),
    (r"checksum [0-9a-f]{8}|arrived with [0-9a-f]{8}", "CRC"),
    (r"\d+( of \d+ steps were done here,) \d+(?= bytes received)", r"N\1 N"),  # which message came first is chance
    (r"(?<=bytes moved); .*", ""),  # after a rank was killed: where the others have come to is chance
)


def alike(line):
    """Without what differs from run to run."""
    for pattern, instead in CHANGING:
        line = re.sub(pattern, instead, line)
    return line


class Page(harness.Case):
    def run_here(self, command):
        command = command.replace("--timeout 3 ", "--timeout 8 ")  # a busy machine needs longer to come to the fault
        words = [word.replace("build/", BUILD + "/", 1) if word.startswith("build/") else word.replace("/tmp/", f"{self.folder}/")
                 for word in shlex.split(command)]
        return harness.run(*words)

    def test_commands_print_what_the_page_says(self):
        self.assertGreater(len(blocks()), 6)
        for command, expected in blocks():
            with self.subTest(command=command):
                done = self.run_here(command)
                printed = {alike(line) for line in (done.out + done.err).splitlines()}
                for line in expected:
                    self.assertIn(alike(line), printed, f"{done}")

    def test_every_fault_and_key_of_the_page_is_one(self):
        text = PAGE.read_text()
        faults = re.findall(r"^\| `(\w+)(?::[^`]*)?` \| ", text.split("| Fault |")[1].split("Where it happens")[0], re.M)
        self.assertEqual(faults, ["kill", "stop", "exit", "throw", "drop", "delay", "corrupt", "refuse"])
        listed = tutti("run", "--inject", "no-such-fault", "true").err
        self.assertSays(listed, "Known are " + ", ".join(faults))
        for keys, fault in ((["rank", "op", "step", "group"], "kill"), (["message"], "corrupt"), (["call", "errno", "nth"], "refuse")):
            known = tutti("run", "--inject", f"{fault}:no-such-key=1", "true").err
            for key in keys:
                self.assertIn(f"`{key}=", text)
                self.assertSays(known, rf"Known here are .*\b{key}\b")
        for words, fault in (("call", "call=nothing"), ("errno", "errno=nothing")):
            known = re.search(r"Known are (.*) in ", tutti("run", "--inject", f"refuse:{fault}", "true").err).group(1)
            listed = re.search(rf"`{words}=` \(([^)]*)\)", text, re.S).group(1)
            self.assertEqual(re.findall(r"\w+", listed), re.findall(r"\w+", known))

    def test_every_variable_of_the_page_exists_and_every_one_of_ours_is_there(self):
        text = PAGE.read_text()
        known = set(re.findall(r"(?m)^(TUTTI_\w+) = ", tutti("doctor", "--env").out))
        self.assertLessEqual(set(re.findall(r"TUTTI_\w+", text)), known)
        for name in ("INJECT", "CHECKSUM", "BLACK_BOX", "BLACK_BOX_FD", "DEBUG", "DEBUG_SUBSYS", "DEBUG_FILE"):
            self.assertIn(f"TUTTI_{name}", text)


if __name__ == "__main__":
    import sys
    BUILD = os.path.dirname(os.path.abspath(sys.argv[1]))
    harness.main()
