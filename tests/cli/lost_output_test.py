"""Output that does not arrive: a full disk, a closed descriptor, a file that cannot be. Never success, and never silence."""

import os

import harness
from harness import Case, opened_by, script, sockets_of, start, tutti, wait_until

LOST = 74  # EX_IOERR
FULL = r"cannot write standard output: No space left on device"
CLOSED = r"cannot write standard output: Bad file descriptor; the program that started this one had closed it"


def shell(redirection, *words, **options):
    """tutti under a redirection that only a shell can make."""
    return harness.run("sh", "-c", f'exec "$@" {redirection}', "sh", harness.PROGRAM, *words, **options)


class StandardOutput(Case):
    def commands(self):
        trace = self.folder / "t.json"
        box = self.folder / "box"
        done = tutti("run", "--trace", trace, harness.JOIN, env={"TUTTI_BLACK_BOX": f"{box}-%r", "TUTTI_BLACK_BOX_FD": None})
        self.assertEqual(done.code, 0, done)
        yield from (["--help"], ["--version"], ["-V"], ["run", "--help"], ["run", "--dry-run", "true"], ["bench", "--help"],
                    ["bench", "kernels", "--help"], ["bench", "startup", "--help"], ["plan", "--help"], ["plan", "--list"],
                    ["plan", "all_reduce", "-n", "4"], ["plan", "all_reduce", "-n", "64", "--json"], ["plan", "all_reduce", "-n",
                    "4", "--explain"], ["plan", "all_reduce", "-n", "4", "--svg", self.folder / "p.svg"], ["doctor", "--env"],
                    ["doctor", "--env", "--json"], ["doctor", "--help"], ["learn"], ["learn", "1"], ["learn", "--html",
                    self.folder / "pages"], ["simulate", "--print-net", "100g"], ["simulate", "all_reduce", "-n", "4", "--size",
                    "1K"], ["tune", "--help"], ["store", "--help"], ["store", "--port", "0"], ["trace", trace],
                    ["blackbox", "--help"], ["bench", "barrier", "-n", "1"], ["bench", "barrier", "-n", "1", "--format", "json"])
        if os.path.exists(f"{box}-0"):
            yield ["blackbox", f"{box}-0"]

    def test_each_subcommand_says_that_it_is_lost(self):
        for words in self.commands():
            for redirection, says in ((">/dev/full", FULL), (">&-", CLOSED)):
                with self.subTest(words=words, redirection=redirection):
                    done = shell(redirection, *words)
                    self.assertEqual(done.code, LOST, done)
                    self.assertSays(done.err, says)
                    self.assertEqual(done.err.count("cannot write"), 1, done)

    def test_a_closed_descriptor_is_not_taken_by_what_is_opened_next(self):
        store = start(harness.PROGRAM, "store", "--port", "0")
        address = store.stdout.readline().split()[-1]
        waiter = start("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", harness.PROGRAM, "store", "wait", "--rdzv", address, "key")
        self.assertTrue(wait_until(lambda: sockets_of(waiter.pid)))
        opened = opened_by(waiter.pid)
        self.assertEqual([opened[number] for number in range(3)], ["/dev/null"] * 3)
        for process in (waiter, store):
            process.terminate()
            harness.Finished(process, 10)

    def test_nothing_printed_is_nothing_lost(self):
        process = start(harness.PROGRAM, "store", "--port", "0")
        address = process.stdout.readline().split()[-1]
        self.assertEqual(shell(">&-", "store", "set", "--rdzv", address, "key", "value").code, 0)
        self.assertEqual(shell(">/dev/full", "store", "get", "--rdzv", address, "key").code, LOST)
        process.terminate()
        harness.Finished(process, 10)

    def test_a_message_that_is_lost_keeps_the_code(self):
        for redirection in ("2>/dev/full", "2>&-"):
            self.assertEqual(shell(redirection, "no-such-subcommand").code, 6)
            self.assertEqual(shell(redirection, "--version").code, 0)
            self.assertEqual(shell(redirection, "store", "get", "x", "--no-such-option").code, 6)


class Files(Case):
    def test_a_file_that_cannot_be_is_told_before_anything_is_measured(self):
        nowhere = self.folder / "nowhere"
        for words in (["bench", "barrier", "-n", "1", "-J"], ["bench", "barrier", "-g", "2", "-J"],
                      ["tune", "barrier", "--time", "60", "-o"], ["tune", "--check", "barrier", "--csv"],
                      ["simulate", "--csv"], ["simulate", "--svg"]):
            with self.subTest(words=words):
                done = tutti(*words, nowhere / "x")
                self.assertEqual((done.code, done.out), (LOST, ""), done)
                self.assertSays(done.err, rf"cannot write {nowhere}/x: No such file or directory; make its folder first")

    def test_a_file_on_a_full_disk_is_told(self):
        for words in (["bench", "barrier", "-n", "1", "-J"], ["plan", "all_reduce", "--svg"], ["plan", "--html"],
                      ["plan", "all_reduce", "-n", "4", "--save"], ["plan", "all_reduce", "-n", "4", "--goal"],
                      ["simulate", "all_reduce", "-n", "2", "--size", "8", "--csv"]):
            with self.subTest(words=words):
                done = tutti(*words, "/dev/full")
                self.assertEqual(done.code, LOST, done)
                self.assertSays(done.err, "cannot write /dev/full: No space left on device; free space there")

    def test_a_trace_that_is_lost_is_no_success(self):
        folder = self.folder / "traces"
        folder.mkdir()
        done = tutti("run", "-n", "2", "--trace", folder / "t.json", *script(f'{harness.JOIN}; rm -rf "{folder}"'))
        self.assertEqual(done.code, LOST, done)
        self.assertSays(done.err, "cannot .* the trace .*t.json: No such file or directory")

    def test_a_job_whose_trace_cannot_be_does_not_start(self):
        trace = self.folder / "nowhere" / "t.json"
        for words, variables in ((["run", "--trace", trace, *script("echo started")], {}),
                                 (["bench", "barrier", "-g", "2", "-n", "1"], {"TUTTI_TRACE_FILE": str(trace)})):
            with self.subTest(words=words):
                done = tutti(*words, env=variables)
                self.assertEqual((done.code, done.out), (LOST, ""), done)
                self.assertSays(done.err, rf"^tutti: cannot open the trace {trace}: No such file or directory\. Name a "
                                          r"file in a folder that exists and may be written \(TUTTI_TRACE_FILE, "
                                          r"tutti run --trace\)\n$")


class Jobs(Case):
    def test_a_job_whose_logs_cannot_be_does_not_start(self):
        (self.folder / "file").touch()
        (self.folder / "logs" / "rank-1.log").mkdir(parents=True)
        for logs, file, says in (("/proc/x", "/proc/x", "No such file or directory; make its folder first"),
                                 (self.folder / "file", self.folder / "file", "Not a directory; make its folder first"),
                                 (self.folder / "logs", self.folder / "logs/rank-1.log", "Is a directory")):
            with self.subTest(logs=logs):
                done = tutti("run", "-n", "2", "--log-dir", logs, *script("sleep 100"), limit=60)
                self.assertEqual((done.code, done.out), (LOST, ""), done)
                self.assertSays(done.err, f"^tutti: --log-dir: cannot write {file}: {says}\n$")

    def test_a_job_whose_output_is_lost_is_ended_and_says_so(self):
        done = shell(">/dev/full", "run", "-n", "2", *script("echo x; exec sleep 100"), limit=60)
        self.assertEqual(done.code, LOST, done)
        self.assertSays(done.err, f"^tutti: {FULL}; free space there, or write elsewhere; ending all ranks\n$")

    def test_a_log_that_is_lost_is_told_once_and_does_not_end_the_job(self):
        logs = self.folder / "logs"
        logs.mkdir()
        for rank in range(2):
            (logs / f"rank-{rank}.log").symlink_to("/dev/full")
        done = tutti("run", "-n", "2", "--log-dir", logs, *script("echo one; read zero; echo two"))
        self.assertEqual((done.code, sorted(done.lines)), (LOST, ["[0] one", "[0] two", "[1] one", "[1] two"]), done)
        self.assertSays(done.err, rf"^tutti: cannot write {logs}/rank-[01].log: No space left on device; free space there, or "
                                  r"write elsewhere; the log ends there, and the job goes on\n$")
        done = tutti("run", "-n", "2", "--log-dir", logs, *script("echo one; exit 5"))
        self.assertEqual(done.code, 5, done)

    def test_what_ranks_say_on_standard_error_is_not_lost_silently(self):
        done = shell("2>/dev/full", "run", "-n", "2", *script("echo out; echo err >&2"))
        self.assertEqual((done.code, sorted(done.lines)), (LOST, ["[0] out", "[1] out"]), done)

    def test_a_benchmark_whose_table_is_lost_fails(self):
        done = shell(">/dev/full", "bench", "barrier", "-g", "2", "-n", "1")
        self.assertEqual(done.code, LOST, done)
        done = shell(">&-", "bench", "barrier", "-g", "2", "-n", "1")
        self.assertEqual(done.code, LOST, done)
        self.assertSays(done.err, CLOSED)


if __name__ == "__main__":
    harness.main()
