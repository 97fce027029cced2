#!/usr/bin/env python3
"""A rank to which the system refuses something: the job does without it and says why, or ends soon and says what to do.

Refusals are played (TUTTI_INJECT=refuse:...) and real: limits of descriptors, address space, file sizes, and a small
/dev/shm, which is not used at all.
"""

import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import harness  # noqa: E402
from harness import tutti  # noqa: E402

REMEDY = {
    "EMFILE": r"Too many open files; raise the limit of open files \(ulimit -n\)",
    "ENOMEM": r"Cannot allocate memory; free memory, or raise the limit",
    "ENOSPC": r"No space left on device; free memory, or raise the limit",
    "EPERM": r"Operation not permitted; allow it in the sandbox",
}


def timeout():
    """Seconds, of the set-up, too. Many of these jobs wait for it."""
    return 10 if harness.is_sanitized() else 3


def job(*words, script=None, transport=None, ranks=3, seconds=None):
    seconds = seconds or timeout()
    program = [harness.JOIN, "--transports"]
    if script:
        program = ["sh", "-c", script.format(join=" ".join(program))]
    exports = ["-x", f"TUTTI_TIMEOUT={seconds}"] + (["-x", f"TUTTI_TRANSPORT={transport}"] if transport else [])
    return tutti("run", "-n", str(ranks), *exports, *words, *program, limit=seconds * 2 + 15)


class Resources(harness.Case):
    def assertWorks(self, done, over):
        self.assertEqual(done.code, 0, done)
        self.assertEqual(sorted(done.lines)[:6:2], [f"[{rank}] sum 6" for rank in range(3)], done)
        self.assertEqual(len([line for line in done.lines if "transports" in line and over in line]), 3, done)

    def assertWorksOrSays(self, done, remedy, may_abort=False):
        """True when it works. Nothing is wrong silently or takes much longer than its deadline. It may die of one signal: where
        a rank finds no memory in the middle of something, as docs/failures.md says."""
        self.assertLess(done.seconds, timeout() * 2 + 5, done)
        if done.code == 0:
            self.assertEqual(len([line for line in done.lines if line.endswith("sum 6")]), 3, done)
            return True
        if may_abort and done.code == 128 + signal.SIGABRT:
            remedy = "std::bad_alloc"
        else:
            self.assertLess(done.code, 128, done)
        self.assertSays(done.err, remedy)
        return False

    # ---- Played

    def test_without_memory_for_links_ranks_talk_over_tcp_and_say_why(self):
        for call in ("memfd", "fallocate", "mmap"):
            for error, remedy in REMEDY.items():
                with self.subTest(call=call, error=error):
                    done = job("--inject", f"refuse:rank=1,call={call},errno={error}")
                    self.assertWorks(done, "tcp")
                    self.assertSays(done.err, r"\[0\] tutti: shared memory is not used on host .*: rank 1: cannot \w+ 268 KiB "
                                              rf"of shared memory: {remedy}")
                    self.assertEqual(done.err.count("tutti:"), 1, done)

    def test_without_unix_sockets_ranks_talk_over_tcp_and_say_why(self):
        done = job("--inject", "refuse:rank=2,call=socket,errno=EMFILE,nth=3")
        self.assertWorks(done, "tcp")
        self.assertSays(done.err, rf"rank 2: cannot make a Unix socket: {REMEDY['EMFILE']}")

    def test_where_only_shared_memory_may_be_used_its_refusal_is_the_end(self):
        done = job("--inject", "refuse:rank=1,call=memfd,errno=EPERM", transport="shm")
        self.assertNotEqual(done.code, 0, done)
        self.assertSays(done.err, rf"cannot be reached .*{REMEDY['EPERM']}",
                        "Allow tcp in the option `transport`, or in TUTTI_TRANSPORT")

    def test_without_any_socket_the_rank_says_so_at_once(self):
        done = job("--inject", "refuse:rank=1,call=socket,errno=EMFILE", seconds=60)
        self.assertEqual(done.code, 1, done)
        self.assertLess(done.seconds, 30)
        self.assertSays(done.err, rf"\[1\] system: .*{REMEDY['EMFILE']}")

    def test_whichever_call_is_refused_the_job_works_or_names_the_remedy(self):
        worked = 0
        for call in ("memfd", "fallocate", "mmap", "socket", "accept"):
            for nth in range(1, 10):
                with self.subTest(call=call, nth=nth):
                    done = job("--inject", f"refuse:rank=1,call={call},errno=EMFILE,nth={nth}")
                    # What a probe lost is only known to be lost.
                    worked += self.assertWorksOrSays(done, r"ulimit -n")
        self.assertGreater(worked, 20)

    def test_ranks_need_no_reading_of_each_others_memory(self):
        done = job("--inject", "refuse:call=process_vm_readv,errno=EPERM")
        self.assertWorks(done, "shm")
        self.assertEqual(done.err, "")

    def test_large_messages_are_right_where_they_are_read_in_the_senders_memory_and_where_that_is_refused(self):
        for refused in (["--inject", "refuse:call=process_vm_readv,errno=EPERM"], []):
            for call in ("sendrecv", "alltoall", "reduce"):
                with self.subTest(call=call, refused=refused):
                    done = tutti("run", "-n", "3", "--no-label", "-x", "TUTTI_SINGLE_COPY=on", *refused, harness.PROGRAM, "bench",
                                 call, "--transport", "shm", "-b", "192K", "-e", "1M", "-n", "3", limit=60,
                                 env={"TUTTI_BOARD_BYTES": "0", "TUTTI_MESSAGES_AT_ONCE": "0"})
                    self.assertEqual(done.code, 0, done)
                    self.assertSays(done.out, r"Out of bounds values : 0 OK")

    def test_who_is_killed_while_others_read_its_memory_is_named(self):
        done = tutti("run", "-n", "4", "-x", "TUTTI_SINGLE_COPY=on", "--inject", "kill:rank=2,op=9,step=3", harness.PROGRAM,
                     "bench", "alltoall", "--algo", "pairwise", "--transport", "shm", "-b", "16M", "-e", "16M", "-c", "0", limit=60)
        self.assertEqual(done.code, 128 + 9, done)
        self.assertSays(done.err, r"rank 2 \(host .*\) was killed by SIGKILL", r"rank 2 was in alltoall|rank 2 was in all_to_all")

    # ---- Real limits

    def test_any_limit_of_descriptors_lets_a_rank_work_or_say_so(self):
        for transport in ("shm,tcp", "tcp"):
            worked = []
            for limit in range(4, 34):
                with self.subTest(limit=limit, transport=transport):
                    done = job(script=f"[ $RANK = 1 ] && ulimit -n {limit}; exec {{join}}", transport=transport)
                    worked.append(self.assertWorksOrSays(done, r"ulimit -n"))
            if not harness.is_sanitized():
                self.assertTrue(all(worked[-4:]), worked)
            self.assertFalse(any(worked[:3]), worked)

    def test_any_limit_of_memory_lets_a_rank_work_or_say_so(self):
        if harness.is_sanitized():
            self.skipTest("sanitizers take terabytes of addresses")
        worked = []
        # malloc() reserves 64 MiB of addresses for a thread that finds its memory in use; the last limit has room for some.
        for kilobytes in (*range(16_000, 136_001, 4_000), 1_000_000):
            with self.subTest(kilobytes=kilobytes):
                done = job(script=f"[ $RANK = 1 ] && ulimit -v {kilobytes}; exec {{join}}")
                worked.append(self.assertWorksOrSays(done, r"ulimit -v|failed to map segment|Cannot allocate memory",
                                                     may_abort=True))
        self.assertTrue(worked[-1], worked)

    def test_a_limit_of_file_sizes_costs_shared_memory_and_not_the_ranks_life(self):
        # In blocks of 512 bytes. ThreadSanitizer itself cannot start without any.
        for limit in (1, 200) if harness.is_sanitized() else (0, 1, 200):
            done = job(script=f"[ $RANK = 1 ] && ulimit -f {limit}; exec {{join}}")
            self.assertWorks(done, "tcp")
            self.assertSays(done.err, r"rank 1: cannot reserve .*File too large; raise the limit of file sizes \(ulimit -f\)")

    # ---- /dev/shm

    def test_a_running_job_has_nothing_in_dev_shm(self):
        process = harness.start(harness.PROGRAM, "run", "-n", "3", harness.JOIN, "--repeat")
        try:
            for _ in range(3):
                self.assertRegex(process.stdout.readline(), "sum 6")
            ranks = [pid for pid in harness.processes_with(self.mark)
                     if pathlib.Path(f"/proc/{pid}/comm").read_text() == "join\n"]
            self.assertEqual(len(ranks), 3)
            for pid in ranks:
                opened = list(harness.opened_by(pid).values())
                self.assertTrue(any("memfd:tutti-" in name for name in opened), opened)
                for name in opened + pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
                    self.assertNotIn("/dev/shm", name)
        finally:
            process.kill()
            process.communicate()

    def test_a_small_dev_shm_does_not_matter(self):
        # 64 MiB is what containers have; one page is less than anybody could live on.
        for size in ("64m", "4k"):
            mounted = ["unshare", "--mount", "sh", "-c",
                       f'mount -t tmpfs -o size={size} none /dev/shm && "$@" && test -z "$(ls -A /dev/shm)"', "sh"]
            if shutil.which("unshare") is None or subprocess.run([*mounted, "true"], capture_output=True).returncode != 0:
                self.skipTest("this user may not mount")
            done = harness.run(*mounted, harness.PROGRAM, "run", "-n", "3", "-x", "TUTTI_TRANSPORT=shm", harness.JOIN,
                               "--count", "8000000")  # 32 MB per rank
            self.assertEqual(done.code, 0, done)
            self.assertEqual(sorted(done.lines), [f"[{rank}] sum 6" for rank in range(3)], done)


if __name__ == "__main__":
    harness.main()
