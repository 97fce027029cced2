"""More ranks than there may be processes or open files: refused before any is started, by one rule for all who start some."""

import os
import resource

import harness
from harness import Case, script, tutti

NOBODY = 65534


def limited(name, soft, hard=None, user=None):
    def prepare():
        resource.setrlimit(name, (soft, hard or soft))
        if user is not None:
            os.setuid(user)

    return {"preexec_fn": prepare}


class Limits(Case):
    def test_too_few_descriptors_for_so_many_ranks(self):
        for words in (["run", "-n", "500", "sleep", "100"], ["bench", "barrier", "-g", "500"],
                      ["bench", "barrier", "-t", "50", "-g", "10"]):
            with self.subTest(words=words):
                done = tutti(*words, **limited(resource.RLIMIT_NOFILE, 200))
                self.assertEqual((done.code, done.out), (1, ""), done)
                self.assertSays(done.err, rf"^tutti: {words[0]}: 500 ranks need about \d+ open files, and the hard limit of this "
                                          r"process \(ulimit -Hn\) allows 200; raise it, or start fewer ranks on this host\n$")

    def test_an_encrypted_connection_takes_more_descriptors_than_others(self):
        done = tutti("run", "-n", "60", "--tls", "sleep", "100", **limited(resource.RLIMIT_NOFILE, 330))
        self.assertEqual((done.code, done.out), (1, ""), done)
        self.assertSays(done.err, r"^tutti: run: 60 ranks need about \d+ open files")

    def test_the_soft_limit_is_raised_for_us_and_not_for_the_ranks(self):
        if harness.is_sanitized():
            self.skipTest("sanitizers look at memory through descriptors")
        done = tutti("run", "-n", "30", "--no-label", *script("ulimit -Sn"), **limited(resource.RLIMIT_NOFILE, 40, 1000))
        self.assertEqual((done.code, done.lines), (0, ["40"] * 30), done)

    def test_too_few_processes_for_so_many_ranks(self):
        user = NOBODY if os.geteuid() == 0 else None  # root has no such limit
        if user and harness.run(harness.PROGRAM, "--version", preexec_fn=lambda: os.setuid(user)).code != 0:
            self.skipTest("another user may not run what was built here")
        self.folder.chmod(0o777)
        for words in (["run", "-n", "60", "sleep", "100"], ["bench", "barrier", "-g", "60"],
                      ["tune", "barrier", "-g", "60", "-o", self.folder / "t"]):
            with self.subTest(words=words):
                done = tutti(*words, **limited(resource.RLIMIT_NPROC, 50, user=user))
                self.assertEqual((done.code, done.out), (1, ""), done)
                self.assertSays(done.err, rf"^tutti: {words[0]}: 60 ranks need about \d+ more processes and threads, and the limit of "
                                          r"this user's processes \(ulimit -u\) leaves \d\d; raise it, or start fewer")

    def test_one_bound_for_all(self):
        for words in (["run", "-n", "65536", "true"], ["bench", "barrier", "-t", "256", "-g", "256"],
                      ["run", "-n", "65535", "--nnodes", "2", "--rdzv", "h:1", "true"]):
            with self.subTest(words=words):
                done = tutti(*words)
                self.assertEqual(done.code, 6, done)
                self.assertSays(done.err, "65535|from 1 to 1, not")


if __name__ == "__main__":
    harness.main()
