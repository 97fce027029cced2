#!/usr/bin/env python3
"""TUTTI_DEBUG on real jobs: what set-up, choices and operations tell, where, and what is never told."""

import re
import socket

import harness
from harness import tutti


def told(*words, ranks=2, **variables):
    exports = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
    return tutti("run", "-n", str(ranks), "--label", "never", *exports, harness.JOIN, "--algorithm", "ring", *words)


class Logs(harness.Case):
    def test_nothing_is_told_unasked(self):
        done = told()
        self.assertEqual((done.code, done.err), (0, ""), done)

    def test_information_names_version_place_transports_and_links(self):
        done = told(TUTTI_DEBUG="INFO")
        host = re.escape(socket.gethostname())
        self.assertEqual(done.out, "sum 3\nsum 3\n")
        self.assertSays(done.err, rf"(?m)^{host}:\d+:\d+ \[1\] TUTTI INFO tutti \d\.\d\.\d: rank 1 of 2, as told by TUTTI_\*$",
                        r"\[0\] TUTTI INFO TUTTI_DEBUG=INFO", r"\[1\] TUTTI INFO meets the others at tcp://127\.0\.0\.1:\d+",
                        r"\[0\] TUTTI INFO 2 of 2 ranks are on host", r"\[0\] TUTTI INFO talks over shm to ranks 1\n",
                        r"\[1\] TUTTI INFO opens a link to rank 0 over shm", r"\[1\] TUTTI INFO joined after \d\.\d{3} s")
        self.assertNotIn("TRACE", done.err)
        self.assertNotIn("with ring", done.err)
        done = told(TUTTI_DEBUG="INFO", TUTTI_TRANSPORT="tcp", TUTTI_DEBUG_SUBSYS="NET")
        self.assertSays(done.err, r"\[0\] TUTTI INFO accepts connections at 127", r"\[0\] TUTTI INFO talks over tcp to ranks 1\n")
        self.assertNotIn("rank 0 of 2", done.err)

    def test_choices_and_operations_are_told_to_who_asks(self):
        done = told(TUTTI_DEBUG="TRACE", TUTTI_DEBUG_SUBSYS="TUNE,ALGO,COLL")
        self.assertSays(done.err, r"\[0\] TUTTI INFO all_reduce of 4000 bytes over shm among 2 ranks: ring, as the call says",
                        r"\[0\] TUTTI INFO all_reduce with ring: \d+ steps on \d+ lanes",
                        r"\[1\] \d+\.\d{6} TUTTI TRACE all_reduce #1 \(1000 x f32, sum\) with ring on rank 1 of 2 begins\n",
                        r"\[1\] \d+\.\d{6} TUTTI TRACE all_reduce #1 .* ends: \d+ steps, 8000 bytes\n")

    def test_domains_decide_where_a_file_says_who_is_near_whom(self):
        (self.folder / "topology").write_text("rank 0,2 cache left node 0\nrank 1,3 cache right node 0\n")
        (self.folder / "table").write_text("all_reduce * * * hierarchical domains\n")
        exports = [word for pair in ("TUTTI_DEBUG=INFO", "TUTTI_DEBUG_SUBSYS=INIT,TUNE,ALGO",
                                     f"TUTTI_TOPOLOGY={self.folder}/topology", f"TUTTI_TUNING_FILE={self.folder}/table")
                   for word in ("-x", pair)]
        done = tutti("run", "-n", 4, "--label", "never", *exports, harness.JOIN)
        self.assertEqual((done.code, done.out), (0, "sum 10\n" * 4), done)
        self.assertSays(done.err, r"\[1\] TUTTI INFO its cores share last-level cache right, on NUMA node 0\n",
                        r"\[3\] TUTTI INFO all_reduce of 4000 bytes over shm among 4 ranks: hierarchical:0\.2\+1\.3\n",
                        r"\[3\] TUTTI INFO all_reduce with hierarchical:0\.2\+1\.3: .*; 3 rounds on a board\n")

    def test_files_take_it_instead_of_stderr(self):
        done = told(TUTTI_DEBUG="INFO", TUTTI_DEBUG_FILE=f"{self.folder}/%h.%r.log")
        self.assertEqual((done.code, done.err), (0, ""), done)
        for rank in range(2):
            text = (self.folder / f"{socket.gethostname()}.{rank}.log").read_text()
            self.assertSays(text, f"rank {rank} of 2", r"joined after")
            self.assertEqual(set(re.findall(r"\[\d\]", text)), {f"[{rank}]"})

    def test_a_fallback_is_told_unasked_with_its_reason(self):
        done = told(TUTTI_INJECT="refuse:call=memfd,errno=EPERM")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.out, "sum 3\nsum 3\n")
        self.assertSays(done.err, r"^tutti: shared memory is not used on host .*: rank 0: .*Operation not permitted")
        self.assertEqual(done.err.count("\n"), 1, done)

    def test_failures_are_told_with_the_communicator(self):
        done = told("--repeat", TUTTI_DEBUG="INFO", TUTTI_INJECT="exit:rank=1,op=3", TUTTI_TIMEOUT="5")
        self.assertSays(done.err, r"\[1\] TUTTI INFO plays exit:rank=1,op=3\n",
                        r"\[0\] TUTTI INFO communicator [0-9a-f]+ fails: .*rank 1")

    def test_a_secret_is_never_told(self):
        secret = "do-not-tell-this-to-anybody-0123456789"
        for options, variables in (([], {"TUTTI_SECRET": secret}), (["--rdzv-id", secret], {})):
            done = tutti("run", "-n", 2, *options, harness.JOIN,
                         env={"TUTTI_DEBUG": "TRACE", "TUTTI_DEBUG_SUBSYS": "ALL", **variables})
            self.assertEqual((done.code, secret in done.err), (0, bool(options)), done)

    def test_wrong_words_stop_the_rank(self):
        for variables, said in (({"TUTTI_DEBUG": "INF"}, 'Did you mean "INFO"'),
                                ({"TUTTI_DEBUG_SUBSYS": "NETS"}, 'Did you mean "NET"'),
                                ({"TUTTI_DEBUG_FILE": "/no-such-folder/x"}, "Name a file in a folder that exists")):
            done = harness.run(harness.JOIN, env=variables)
            self.assertEqual(done.code, 1, done)
            self.assertSays(done.err, "^invalid_argument: ", said)


if __name__ == "__main__":
    harness.main()
