#!/usr/bin/env python3
"""Faults played on real processes: --inject, what becomes of the rank, and what the others say."""

import harness
from harness import tutti


def run_with(fault, *words, timeout="20", **options):
    return tutti("run", "-n", "3", "--label", "always", *words, "--inject", fault, "-x", f"TUTTI_TIMEOUT={timeout}",
                 harness.JOIN, "--repeat", **options)


class Inject(harness.Case):
    def without_launcher(self, fault, transport, ranks=3):
        """How each rank ends when nobody ends it because of another."""
        started = [harness.start(harness.JOIN, "--repeat", env={
            "TUTTI_RANK": str(rank), "TUTTI_SIZE": str(ranks), "TUTTI_RDZV": f"file://{self.folder}/{transport}-{fault}",
            "TUTTI_INJECT": fault, "TUTTI_TRANSPORT": transport, "TUTTI_TIMEOUT": "5"}) for rank in range(ranks)]
        return [harness.Finished(one, 30) for one in started]

    def test_a_killed_rank_dies_of_sigkill_in_the_middle_of_that_operation(self):
        for transport in ("shm", "tcp"):
            for op in (1, 5):
                done = self.without_launcher(f"kill:rank=1,op={op},step=last", transport)
                self.assertEqual([one.code for one in done], [1, -9, 1], done)
                # Not always in the same call: one may be done with it, another still in the last.
                self.assertSays(done[0].err + done[2].err, rf"peer_lost: all_reduce #({op - 1}|{op}|{op + 1}) .*rank 1")

    def test_a_rank_that_exits_in_a_call_is_missed_by_the_others(self):
        for transport in ("shm", "tcp"):
            done = self.without_launcher("exit:rank=2,op=3", transport)
            self.assertEqual([one.code for one in done], [1, 1, 0], done)
            self.assertSays(done[0].err + done[1].err, r"peer_lost: all_reduce #[234] .*rank 2")

    def test_a_rank_that_drops_its_links_fails_like_the_others(self):
        for transport in ("shm", "tcp"):
            done = self.without_launcher("drop:rank=1,op=2", transport)
            self.assertEqual([one.code for one in done], [1, 1, 1], done)
            # Its links are gone at once; what goes over memory of all ranks may go on until somebody looks at them.
            self.assertSays(done[0].err + done[2].err, r"peer_lost: all_reduce #\d+ .*(lost rank 1|rank 1 .*is lost)")
            self.assertSays(done[1].err, r"peer_lost: all_reduce #\d+ .*rank [02]")

    def test_a_job_whose_rank_is_killed_ends_with_its_code(self):
        done = run_with("kill:rank=1,op=5,step=last")
        self.assertEqual(done.code, 128 + 9, done)
        self.assertSays(done.err, r"rank 1 \(host .*\) was killed by SIGKILL")

    def test_a_rank_that_throws_ends_as_its_program_would(self):
        done = self.without_launcher("throw:rank=0,op=2", "shm")
        self.assertEqual([one.code for one in done], [-6, 1, 1], done)
        self.assertSays(done[0].err, "injected by TUTTI_INJECT=throw:rank=0,op=2")

    def test_a_stopped_rank_makes_the_others_time_out_and_they_name_it(self):
        done = run_with("stop:rank=1,op=4", timeout="5")  # which is also that of the set-up
        self.assertEqual(done.code, 1, done)
        self.assertSays(done.err, r"\[[02]\] (timeout|peer_lost): all_reduce #4 .*rank 1")
        self.assertLess(done.seconds, 30)

    def test_a_silent_rank_is_suspected_then_lost_long_before_the_deadline(self):
        done = tutti("run", "-n", "3", "--inject", "stop:rank=1,op=4", "-x", "TUTTI_TIMEOUT=60",
                     "-x", "TUTTI_LOST_AFTER=4", harness.JOIN, "--repeat")
        self.assertNotEqual(done.code, 0, done)
        self.assertSays(done.err, r"rank 1 \(host .*, pid \d+\) has not been heard of for [23]\.\d s, and counts as lost "
                                  r"after 4\.0 s",
                        r"peer_lost: all_reduce #4 .*rank 1 \(.*\) is lost: it has not been heard of for \d\.\d s")
        self.assertLess(done.seconds, 30)

    def test_wrong_words_are_refused_before_anything_starts(self):
        for fault, word in (("kil:rank=1", 'Did you mean "kill"'), ("kill:rank=9", "rank 9 is not in this job"),
                            ("kill:when=3", 'no key "when"'), ("refuse:call=memfd", "needs call= and errno=")):
            done = run_with(fault)
            self.assertEqual(done.code, 6, done)
            self.assertSays(done.err, "^tutti: run: --inject: ", word)
            self.assertEqual(done.out, "")

    def test_the_variable_does_the_same_without_the_launcher(self):
        done = harness.run(harness.JOIN, "--repeat", env={
            "TUTTI_INJECT": "throw:op=3", "TUTTI_RANK": "0", "TUTTI_SIZE": "1", "TUTTI_RDZV": "tcp://127.0.0.1:0"})
        self.assertEqual(done.code, -6, done)
        self.assertSays(done.err, "injected by TUTTI_INJECT=throw:op=3")

    def test_doctor_says_what_a_refusing_machine_needs(self):
        done = tutti("doctor", env={"TUTTI_INJECT": "refuse:call=process_vm_readv,errno=EPERM"})
        self.assertSays(done.out, "warn  single copy: process_vm_readv: Operation not permitted",
                        "-> (in a container --cap-add SYS_PTRACE|sysctl kernel.yama.ptrace_scope=0)")


if __name__ == "__main__":
    harness.main()
