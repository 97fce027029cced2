"""tools/hosts: several hosts on one, with links that are as slow as asked for.

Exit code 77 and a reason where this process may not make network namespaces.
"""

import os
import pathlib
import re
import shutil
import sys

import harness
from harness import Case, run
from rival_stage import Stage

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HOSTS = ROOT / "tools/hosts"


def hosts(*words, **options):
    return run(HOSTS, *words, limit=60, **options)


class Hosts(Case):
    def test_ranks_share_memory_on_a_host_and_talk_tcp_between_them(self):
        done = hosts(2, "-n", 2, harness.PROGRAM, "run", "-n", "1", "true")
        self.assertEqual(done.code, 0, done)
        done = hosts(2, "-n", 2, harness.PROGRAM, "bench", "all_reduce", "-b", "64", "-e", "64", "--format", "short")
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, r"^all_reduce of float, sum: 4 ranks over shm\+tcp", r"\nAll results were right\.\n$")
        done = hosts(3, harness.PROGRAM, "bench", "all_reduce", "-b", "64", "-e", "64", "--format", "short")
        self.assertSays(done.out, r": 3 ranks over tcp;")

    def test_hosts_of_one_machine_share_its_cores(self):
        cores = len(os.sched_getaffinity(0))
        for hosts_made, ranks, crowded in ((2, 1, cores < 2), (2, cores // 2 + 1, True)):
            done = hosts(hosts_made, "-n", ranks, harness.PROGRAM, "bench", "barrier", "-n", "1", "-w", "0",
                         env={"TUTTI_DEBUG": "INFO", "TUTTI_DEBUG_SUBSYS": "INIT"})
            self.assertEqual(done.code, 0, done)
            self.assertEqual("ranks outnumber cores on some machine" in done.out + done.err, crowded, done)

    def time_of(self, *options):
        """Seconds until the slower of two hosts has 2 MiB from the other, in two halves."""
        done = hosts(2, *options, harness.PROGRAM, "bench", "all_reduce", "--algo", "ring", "-b", "2M", "-e",
                     "2M", "-n", "1", "-a", "3", "--format", "csv")
        self.assertEqual(done.code, 0, done)
        return float(done.lines[-1].split(",")[8]) / 1e6

    def test_a_link_is_not_faster_than_asked_for(self):
        # At both ends of a link 128 KiB may pass at once; the rest at the rate.
        least = (2 - 0.25) * 1024 * 1024 * 8 / 100e6
        self.assertGreater(self.time_of("--rate", "100mbit"), least)
        self.assertGreater(self.time_of("--slow", "1:100mbit"), least)
        self.assertGreater(self.time_of("--slow", "0:100mbit"), least)

    def test_no_link_but_that_of_the_slow_host_is_slow(self):
        for slow in range(3):
            done = hosts(3, "--slow", f"{slow}:100mbit", "--once", "sh", "-c",
                         "for host in 0 1 2; do nsenter --net=/run/netns/host$host tc qdisc show dev wire0;"
                         " tc qdisc show dev port0.$host; done")
            self.assertEqual(done.code, 0, done)
            rates = re.findall(r" rate (\S+) ", done.out)
            wanted = [["500Mbit", "100Mbit"][host == slow] for host in range(3) for _ in ("out of it", "into it")]
            self.assertEqual(rates, wanted, done)

    def test_a_rank_may_end_while_its_last_message_is_on_its_way(self):
        # At this rate it takes 0.8 s, and its receiver asks what keeps it after 0.2 s.
        done = hosts(2, "--rate", "10mbit", harness.JOIN, "--count", "262144", "--gather",
                     env={"TUTTI": harness.PROGRAM})
        self.assertEqual((done.code, done.lines), (0, ["sum 3", "sum 3"]), done)

    def test_several_links_are_used_together(self):
        # Two pass at once what one may, and the rest at twice the rate. Nothing here is faster than that.
        least = (2 - 2 * 0.25) * 1024 * 1024 * 8 / 200e6
        self.assertGreater(self.time_of("--rate", "100mbit", "--links", "2"), least)
        work = f"{harness.PROGRAM} bench all_reduce -b 8M -e 8M -n 2 >&2"
        done = hosts(2, "--links", "2", "sh", "-c", f"{work}; grep wire /proc/net/dev", env={"TUTTI": harness.PROGRAM})
        self.assertEqual((done.code, len(done.lines)), (0, 4), done)  # of both hosts
        carried = [int(line.split()[9]) for line in done.lines]
        self.assertGreater(min(carried), 0.8 * max(carried), done)

    def test_its_code_is_that_of_the_command(self):
        self.assertEqual(hosts(1, "sh", "-c", "exit 9", env={"TUTTI": harness.PROGRAM}).code, 9)

    def test_wrong_words_are_refused_with_what_is_right(self):
        for words, says in (((), 'number of hosts, 1 to 64, not ""'), (("0",), 'not "0"'), (("65", "true"), 'not "65"'),
                            (("two", "true"), 'number of hosts, 1 to 64, not "two"'), (("2",), "which command"),
                            (("2", "--rate"), '"--rate", or it lacks its value'), (("2", "-n", "2"), "which command"),
                            (("2", "-n", "x", "true"), '-n takes a number of ranks from 1, not "x"'),
                            (("2", "--fast", "x", "true"), 'no option "--fast"'),
                            (("2", "--links", "0", "true"), '--links takes 1 to 9, not "0"'),
                            (("2", "--delay", "1s", "true"), '--delay takes milliseconds, not "1s"'),
                            (("2", "--delay", "", "true"), '--delay takes milliseconds, not "none"'),
                            (("3", "--delay", "1", "true"), '--delay is for 2 hosts'),
                            (("2", "--delay", "1", "--burst", "16k", "true"), '--delay is for 2 hosts, without .*--burst'),
                            (("2", "--delay", "1", "--rate", "1gbit", "true"), 'whole mbit, .* not "1gbit"'),
                            (("2", "--rate", "fast", "true"), '--rate takes a rate, .* not "fast"'),
                            (("2", "--rate", "0mbit", "true"), '--rate takes a rate, .* not "0mbit"'),
                            (("2", "--burst", "x", "true"), '--burst takes bytes .* not "x"'),
                            (("2", "--slow", "1", "true"), '--slow takes HOST:RATE with a rate, .* not ""'),
                            (("2", "--slow", "1:soon", "true"), '--slow takes HOST:RATE with a rate, .* not "soon"'),
                            (("2", "--slow", "2:10mbit", "true"), 'a host from 0 to 1, not "2:10mbit"'),
                            (("2", "--slow", "", "true"), 'a host from 0 to 1, not "none"')):
            done = hosts(*words)
            self.assertEqual((done.code, done.out), (2, ""), f"{words} {done}")
            self.assertSays(done.err, "^tools/hosts: .*" + says + r".* \(tools/hosts --help\)\n$")

    def test_a_path_without_its_program_tells_how_to_build_that(self):
        remedy = "meson configure build -Dtests=enabled && ninja -C build tests/cli/long_pipe"
        done = hosts("--help")
        self.assertEqual(done.code, 0, done)
        self.assertIn(remedy, done.out)
        self.assertIn("with 3 where this machine does not allow it.", done.out)
        missing = self.folder / "long_pipe"
        done = hosts(2, "--delay", "1", "true", env={"LONG_PIPE": missing, "TUTTI": harness.PROGRAM})
        self.assertEqual((done.code, done.out), (3, ""), done)
        self.assertIn(f"tools/hosts: no program {missing} ({remedy})", done.err)


class Compared(Stage):
    def test_libraries_are_compared_across_hosts(self):
        shutil.copy(ROOT / "cli/bench/compare_libraries/rivals/on_hosts", self.folder / "tutti-on-hosts")
        where = f"echo $(hostname) $WORLD_SIZE $LOCAL_WORLD_SIZE $(ip -o -4 address show dev wire0) >>{self.folder}/NAME-seen"
        for name in ("self", "gloo"):
            self.side(name, before=where.replace("NAME", name))
        done = hosts(2, "--once", harness.PROGRAM, "bench", "all_reduce", "--transport", "hosts:2", "-g", "4", "-b", "64",
                     "-e", "64", "--against", "gloo", "--rivals-dir", self.folder, "--repetitions", "1", "--csv",
                     self.folder / "rows.csv")
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, r"\n all_reduce +hosts:2 +4 +64 B ", "hosts:2, gloo .* 1 +1.00")
        self.assertEqual({row["side"] for row in self.rows()}, {"tutti", "gloo"})
        for name in ("self", "gloo"):
            for line in (self.folder / f"{name}-seen").read_text().splitlines():
                self.assertSays(line, r"^host0 4 2 .* inet 10.77.0.1/24 ")


if __name__ == "__main__":
    paths = [os.path.abspath(word) for word in sys.argv[1:3] if "/" in word]
    harness.PROGRAM, harness.JOIN = (paths + [harness.PROGRAM, harness.JOIN][len(paths):])[:2]
    if run(HOSTS, "1", harness.PROGRAM, "--version").code == 3:
        print("this process may not make network namespaces")
        sys.exit(77)
    harness.main()
