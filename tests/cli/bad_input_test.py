"""Whatever is told wrongly ends with a sentence that says what and what to do, in time, leaving nothing behind."""

import os
import re
import socket

import harness
from harness import Case, Finished, free_port, run, start, tutti


AT_ONCE = 10  # well before the 20 s that a wait would take, and enough for a slow machine to start a program


class Joining(Case):
    """The client on its own, as if several launchers had started its ranks."""

    def setUp(self):
        super().setUp()
        self.url = f"tcp://127.0.0.1:{free_port()}"

    def start_rank(self, rank, size, *arguments, **variables):
        variables = {"TUTTI_RDZV": self.url, "TUTTI_TIMEOUT": "2"} | variables
        return start(harness.JOIN, *arguments, env={"TUTTI_RANK": str(rank), "TUTTI_SIZE": str(size)} | variables)

    def finish(self, *processes, limit=10):
        return [Finished(process, limit) for process in processes]

    def assertFails(self, done, *words, limit=4.5):
        self.assertNotEqual(done.code, 0, done)
        self.assertGreater(done.code, 0, f"ended by a signal: {done}")
        self.assertSays(done.err, *words)
        self.assertLess(done.seconds, limit, done)

    def test_the_client_works_when_told_rightly(self):
        for done in self.finish(self.start_rank(0, 2), self.start_rank(1, 2)):
            self.assertEqual((done.code, done.out), (0, "sum 3\n"), done)

    def test_a_place_that_cannot_be(self):
        for rank, size, message in (("5", "4", r"rank 5 is not one of 4 \(0 to 3\)"),
                                    ("-1", "4", r'TUTTI_RANK is "-1"'),
                                    ("one", "4", r'TUTTI_RANK is "one": not a number, accepted: a number from 0'),
                                    ("0", "0", r'TUTTI_SIZE is "0": out of range, accepted: a number from 1'),
                                    ("0", "4x", r'TUTTI_SIZE is "4x"'),
                                    ("0", None, r"TUTTI_RANK is set, but TUTTI_SIZE is not"),
                                    (None, "4", r"TUTTI_SIZE is set, but TUTTI_RANK is not")):
            with self.subTest(rank=rank, size=size):
                done = run(harness.JOIN, env={"TUTTI_RANK": rank, "TUTTI_SIZE": size, "TUTTI_RDZV": self.url})
                self.assertFails(done, "^invalid_argument: ", message, limit=AT_ONCE)

    def test_another_launchers_half(self):
        for variables, message in (({"RANK": "0"}, "RANK is set, but WORLD_SIZE is not"),
                                   ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR is not"),
                                   ({"TUTTI_RANK": "0", "TUTTI_SIZE": "2"}, "set TUTTI_RDZV=tcp://host:port")):
            with self.subTest(variables=variables):
                self.assertFails(run(harness.JOIN, env=variables), "^invalid_argument: ", message, limit=AT_ONCE)

    def test_an_address_that_is_none(self):
        for url, message in (("tpc://127.0.0.1:1", r'expected tcp://host:port.* Did you mean "tcp"\?'),
                             ("tcp://127.0.0.1", "the port is missing"),
                             ("tcp://127.0.0.1:99999", "a port is a number from 0 to 65535"),
                             ("file://relative/path", "file:///"),
                             ("file:///no/such/folder/x", "/no/such/folder/x: .*No such file or directory"),
                             ("tcp://no-such-host.invalid:29500", "cannot resolve the name no-such-host.invalid")):
            with self.subTest(url=url):
                self.assertFails(self.finish(self.start_rank(1, 2, TUTTI_RDZV=url))[0], message)

    def test_a_rank_that_does_not_come_is_named(self):
        # The others may hear it from rank 0's store, or see that store end with rank 0 while they ask.
        done = self.finish(self.start_rank(0, 4), self.start_rank(1, 4), self.start_rank(3, 4))
        self.assertFails(done[0], r"^rendezvous: .*waited \d.*s for rank 2\.", "may not have started")
        for other in done[1:]:
            self.assertFails(other, r"^rendezvous: .*(rank 2|closed the connection|tutti/rank_info/(2|all))")

    def test_a_host_that_does_not_come_is_named_by_all_others_where_the_store_outlives_them(self):
        keeper = start(harness.PROGRAM, "store", "--port", self.url.rsplit(":", 1)[1])
        self.assertSays(keeper.stdout.readline(), self.url[6:])
        url = self.url.replace("tcp", "store")
        for done in self.finish(*(self.start_rank(rank, 4, TUTTI_RDZV=url) for rank in (0, 1))):
            self.assertFails(done, r"^rendezvous: .*waited \d.*s for ranks 2, 3\.", "may not have started")
        keeper.terminate()
        keeper.communicate(timeout=10)

    def test_a_rank_0_that_does_not_come_is_named_with_its_address(self):
        done = self.finish(self.start_rank(1, 2))[0]
        self.assertFails(done, f"no store at {self.url[6:]}: .*Connection refused", "Check that rank 0")

    def test_two_processes_with_one_rank(self):
        done = self.finish(self.start_rank(0, 3), self.start_rank(1, 3), self.start_rank(1, 3))
        self.assertTrue(all(one.code != 0 for one in done), done)
        self.assertTrue(any("rank 1" in one.err and "process" in one.err for one in done), done)

    def test_ranks_that_believe_in_different_sizes(self):
        done = self.finish(self.start_rank(0, 2), self.start_rank(1, 3))
        self.assertTrue(all(one.code != 0 for one in done), done)
        self.assertTrue(any("2" in one.err and "3" in one.err and "size" in one.err for one in done), done)

    def test_a_port_that_somebody_else_holds_is_named(self):
        with socket.socket() as holder:
            host, port = self.url[6:].split(":")
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # with free_port()
            holder.bind((host, int(port)))
            holder.listen()
            self.assertFails(self.finish(self.start_rank(0, 2))[0], f"{host}:{port}", "in use", str(os.getpid()))

    def test_a_server_that_speaks_something_else(self):
        with socket.socket() as stranger:
            stranger.bind(("127.0.0.1", 0))
            stranger.listen()  # accepts in the backlog, and never answers
            url = f"tcp://127.0.0.1:{stranger.getsockname()[1]}"
            self.assertFails(self.finish(self.start_rank(1, 2, TUTTI_RDZV=url))[0], "^rendezvous: ", url[6:])

    def test_a_file_that_a_killed_job_left_is_not_taken_for_the_next_ones(self):
        path = self.folder / "meeting"
        url = f"file://{path}"
        crashed = self.finish(self.start_rank(0, 2, TUTTI_RDZV=url))[0]  # its rank 1 never comes
        self.assertNotEqual(crashed.code, 0)
        killed = self.start_rank(0, 2, TUTTI_RDZV=url, TUTTI_TIMEOUT="60")
        self.assertTrue(harness.wait_until(lambda: path.exists() and path.stat().st_size > 0))
        killed.kill()
        killed.communicate()
        self.assertTrue(path.exists())  # otherwise this tests nothing
        for done in self.finish(*(self.start_rank(r, 2, TUTTI_RDZV=url, TUTTI_TIMEOUT="20") for r in range(2))):
            self.assertFails(done, rf"{path} is stale: process {killed.pid} .*Remove it \(rm {path}\)", limit=AT_ONCE)
        path.unlink()
        for done in self.finish(*(self.start_rank(r, 2, TUTTI_RDZV=url) for r in range(2))):
            self.assertEqual((done.code, done.out), (0, "sum 3\n"), done)

    def test_the_file_is_gone_afterwards(self):
        url = f"file://{self.folder}/meeting"
        for done in self.finish(*(self.start_rank(r, 2, TUTTI_RDZV=url) for r in range(2))):
            self.assertEqual(done.code, 0, done)
        self.assertEqual(os.listdir(self.folder), [])


class Variables(Case):
    """Every TUTTI_ variable with a value that cannot be."""

    def test_an_unknown_name_is_refused_with_the_nearest_one(self):
        done = run(harness.JOIN, env={"TUTTI_TIMEOT": "3"})
        self.assertNotEqual(done.code, 0, done)
        self.assertSays(done.err, r'unknown environment variable TUTTI_TIMEOT\. Did you mean "TUTTI_TIMEOUT"\?')
        done = tutti("run", "true", env={"TUTTI_ALGOS": "ring"})
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, r'Did you mean "TUTTI_ALGO"\?')

    def test_bad_values_are_quoted(self):
        for name, value, message in (
                ("TUTTI_TIMEOUT", "soon", 'TUTTI_TIMEOUT is "soon": not a positive number, accepted: seconds, e.g. 30 or 2.5'),
                ("TUTTI_TIMEOUT", "-1", 'TUTTI_TIMEOUT is "-1": not a positive number, accepted: seconds'),
                ("TUTTI_TRANSPORT", "smh", r'TUTTI_TRANSPORT is "smh": "smh" is not a transport, accepted: .* Did you mean "shm"\?'),
                ("TUTTI_ISA", "avx3", r'TUTTI_ISA is "avx3": not one of these, accepted: generic \| avx2 .*Did you mean "avx2"\?'),
                ("TUTTI_DETERMINISTIC", "yes", r'TUTTI_DETERMINISTIC is "yes": not a switch, accepted: 0 \| 1'),
                ("TUTTI_TCP_CONNECTIONS", "17", r'TUTTI_TCP_CONNECTIONS is "17": .*a number from 1 to 16'),
                ("TUTTI_TCP_CONNECTIONS", "0", r'TUTTI_TCP_CONNECTIONS is "0": .*a number from 1 to 16'),
                ("TUTTI_SPIN", "much", r'TUTTI_SPIN is "much": not a number, accepted: tries from 0 \| auto'),
                ("TUTTI_SINGLE_COPY", "yes", r'TUTTI_SINGLE_COPY is "yes": not one of these, accepted: auto \| off \| on'),
                ("TUTTI_COPY_STORES", "fast", r'TUTTI_COPY_STORES is "fast": not one of these, accepted: auto \| plain \| streaming'),
                ("TUTTI_SOCKET_FAMILY", "AF_X", r'TUTTI_SOCKET_FAMILY is "AF_X": not one of these, accepted: AF_INET \| AF_INET6'),
                ("TUTTI_LOST_AFTER", "0.5", 'TUTTI_LOST_AFTER is "0.5": out of range, accepted: seconds from 1,'),
                ("TUTTI_BOARD_BYTES", "-1", 'TUTTI_BOARD_BYTES is "-1": not a number, accepted: bytes from 0'),
                ("TUTTI_DEBUG", "INFOS", 'TUTTI_DEBUG is "INFOS": not one of these, .* Did you mean "INFO"'),
                ("TUTTI_TOPOLOGY", "/no/such", 'TUTTI_TOPOLOGY is "/no/such": no such file, accepted: path of a file'),
                ("TUTTI_TUNING_FILE", "/no/such", 'TUTTI_TUNING_FILE is "/no/such": no such file, accepted: path of'),
                ("TUTTI_GPU_MODE", "foo", r'TUTTI_GPU_MODE is "foo": not one of these, accepted: auto \| staged'),
                ("TUTTI_GPU_SLOT_BYTES", "1", 'TUTTI_GPU_SLOT_BYTES is "1": out of range, accepted: bytes from 4096'),
                ("TUTTI_TRACE_RECORDS", "few", 'TUTTI_TRACE_RECORDS is "few": not a number'),
                ("TUTTI_TRACE_FD", "99999999999", 'TUTTI_TRACE_FD is "99999999999": out of range'),
                ("TUTTI_SPIN", "9" * 30, 'TUTTI_SPIN is "9{30}": out of range, accepted: tries from 0'),
                ("TUTTI_TRACE_FD", "abc", 'TUTTI_TRACE_FD is "abc": not a number, accepted: a descriptor'),
                ("TUTTI_BLACK_BOX_FD", "3x", 'TUTTI_BLACK_BOX_FD is "3x": not a number, accepted: a descriptor'),
                ("TUTTI_CONGESTION", "foo", 'TUTTI_CONGESTION is "foo": not what this kernel has, accepted: a name '
                                            r"from /proc/.*control\. It has: .*\breno\b.*\."),
        ):
            with self.subTest(name=name, value=value):
                self.assertFailsAt(run(harness.JOIN, env={name: value}), f"invalid_argument: {message}.*")
                self.assertRunRefuses(message, env={name: value})
                self.assertRunRefuses(message, "-x", f"{name}={value}")

    def assertRunRefuses(self, message, *words, env=None):
        """In one line, before a rank starts."""
        done = tutti("run", "-n", "2", *words, harness.JOIN, env=env)
        self.assertEqual((done.code, done.out), (6, ""), done)
        self.assertRegex(done.err, rf"\Atutti: {message}.*\n\Z")

    def test_names_and_faults_are_checked_as_the_ranks_would_see_them(self):
        self.assertRunRefuses(r"unknown environment variable TUTTI_TIMEOT\.", "-x", "TUTTI_TIMEOT=3")
        self.assertRunRefuses("TUTTI_INJECT: ", env={"TUTTI_INJECT": "kill:rank=2"})
        done = tutti("run", "-n", "2", "-x", "TUTTI_TIMEOUT=20", harness.JOIN, env={"TUTTI_TIMEOUT": "soon"})
        self.assertEqual(done.code, 0, done)

    def test_an_interface_that_is_not_there(self):
        refused = r"no network interface matches TUTTI_SOCKET_IFNAME==nosuch0\. This host has: .*lo "
        for nodes in ((), ("--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", "127.0.0.1:1", "--insecure")):
            with self.subTest(nodes=nodes):
                self.assertRunRefuses(refused, *nodes, env={"TUTTI_SOCKET_IFNAME": "=nosuch0"})
                self.assertRunRefuses(refused, *nodes, "-x", "TUTTI_SOCKET_IFNAME==nosuch0")
        done = tutti("run", "-n", "2", harness.JOIN, env={"TUTTI_SOCKET_IFNAME": "nosuch7,lo"})
        self.assertEqual(done.code, 0, done)
        done = harness.run(harness.JOIN, env={"TUTTI_SOCKET_IFNAME": "=nosuch0", "TUTTI_RDZV": f"file://{self.folder}/m",
                                              "TUTTI_RANK": "0", "TUTTI_SIZE": "2"})
        self.assertFailsAt(done, "invalid_argument: " + refused + ".*")

    def test_an_option_is_refused_in_the_words_of_its_variable(self):
        for value, why in (("smh", r'"smh" is not a transport, accepted: list of .*\. Did you mean "shm"\?\n'),
                           ("foo", r'"foo" is not a transport, accepted: list of shm, tcp; \^ before it excludes: '
                                   r"\^shm\.\n"),
                           ("^shm,tcp", r"not one transport is left, accepted: .*\. Allow shm, tcp or both\.\n")):
            with self.subTest(value=value):
                done = run(harness.JOIN, "--transport", value)
                self.assertFailsAt(done, f'invalid_argument: connect: transport is "{re.escape(value)}": {why}')
                done = run(harness.JOIN, env={"TUTTI_TRANSPORT": value})
                self.assertFailsAt(done, f'invalid_argument: TUTTI_TRANSPORT is "{re.escape(value)}": {why}')
                done = tutti("bench", "all_reduce", "-g", "2", "-b", "8", "-e", "8", "--transport", value)
                self.assertEqual((done.code, done.out), (6, ""), done)
                self.assertSays(done.err, f'^tutti: bench: --transport is "{re.escape(value)}": {why}$')

    def assertFailsAt(self, done, message):
        self.assertEqual((done.code, done.out), (1, ""), done)
        self.assertSays(done.err, f"^{message}$")

    def test_an_algorithm_that_ranks_would_refuse_is_refused_before_they_start(self):
        for value, message in (("rnig", r'no algorithm "rnig" for all_reduce\. Did you mean "ring"\?'),
                               ("all_redcue:ring", r"all_redcue.*all_reduce"), ("reduce:rnig", r'no algorithm "rnig"'),
                               ("ring;tree", "every collective has two algorithms, ring and tree: give it one"),
                               ("reduce:tree;reduce:chain", "reduce has two algorithms, tree and chain: give it one")):
            for words, env in ((["-x", f"TUTTI_ALGO={value}"], {}), ([], {"TUTTI_ALGO": value})):
                with self.subTest(value=value, words=words):
                    done = tutti("run", "-n", "2", *words, harness.JOIN, env=env)
                    self.assertEqual((done.code, done.out), (6, ""), done)
                    self.assertSays(done.err, f"^tutti: TUTTI_ALGO={value}: .*" + message)
            done = harness.run(harness.JOIN, env={"TUTTI_ALGO": value, "TUTTI_RDZV": f"file://{self.folder}/m",
                                                  "TUTTI_RANK": "0", "TUTTI_SIZE": "1"})
            self.assertSays(done.err, f"invalid_argument: TUTTI_ALGO={value}: .*" + message)
        self.assertEqual(tutti("run", harness.JOIN, env={"TUTTI_ALGO": "all_reduce:ring;broadcast:tree:4"}).code, 0)

    def test_a_tuning_table_that_is_none(self):
        table = self.folder / "tuning"
        table.write_text("all_reduce 4 banana ring\n")
        self.assertRunRefuses(f"{table}.*1", env={"TUTTI_TUNING_FILE": str(table)})

    def test_a_file_that_cannot_be_read_is_refused_with_the_reason(self):
        empty, locked = self.folder / "empty", self.folder / "locked"
        empty.touch()
        locked.write_text("barrier shm 2 * direct\n")
        locked.chmod(0)
        reasons = [(empty, "it is empty"), (self.folder / "none", "no such file"), (self.folder, "it is a folder")]
        if not os.access(locked, os.R_OK):  # root may read it
            reasons.append((locked, "permission denied"))
        for path, reason in reasons:
            with self.subTest(path=path):
                for name in ("TUTTI_TUNING_FILE", "TUTTI_PLAN_FILE", "TUTTI_TOPOLOGY"):
                    done = run(harness.JOIN, env={name: str(path)})
                    self.assertEqual(done.code, 1, done)
                    self.assertSays(done.err, f'^invalid_argument: {name} is "{path}": {reason}, accepted: path of ')
                for words, file in ((["plan", "all_reduce", "--topology"], ""),
                                    (["simulate", "all_reduce", "--regret", "--table"], ""),
                                    (["simulate", "all_reduce", "--net"], "the network file "), (["trace"], "")):
                    done = tutti(*words, path)
                    self.assertEqual((done.code, done.out), (6, ""), done)
                    self.assertSays(done.err, f'^tutti: {words[0]}: cannot read {file}"?{path}"?: {reason}')

    def test_a_topology_that_is_none(self):
        topology = self.folder / "topology"
        topology.write_text("rank 0 cache a\nrank 0-1 cache b\n")
        self.assertRunRefuses(f"{topology}:2: rank 0 has a place already, on a line before",
                              env={"TUTTI_TOPOLOGY": str(topology)})


class Calls(Case):
    """Calls that are wrong in themselves: refused at once, on every rank, with nothing sent."""

    def refused(self, *arguments):
        done = tutti("run", "-n", "2", harness.JOIN, *arguments)
        self.assertEqual(done.code, 1, done)
        self.assertSays(done.err, r"\[[01]\] invalid_argument: ")
        self.assertLess(done.seconds, 15)  # nobody waited for the deadline, 20
        return done.err

    def test_an_unknown_algorithm(self):
        self.assertSays(self.refused("--algorithm", "rnig"), r'no algorithm "rnig" for all_reduce\. Did you mean "ring"\?',
                        "There are: .*circulant")

    def test_spans_of_different_sizes(self):
        self.assertSays(self.refused("--output-span", "999"), "all_reduce", "1000", "999")
        self.assertSays(self.refused("--input-span", "0"), "all_reduce", "0", "1000")

    def test_a_partial_overlap(self):
        self.assertSays(self.refused("--overlap", "999"), "overlap")
        self.assertSays(self.refused("--overlap", "1"), "overlap")

    def test_spans_that_touch_without_overlap_and_equal_spans_are_fine(self):
        for at in ("1000", "0"):
            done = tutti("run", "-n", "2", harness.JOIN, "--overlap", at)
            self.assertEqual(sorted(done.lines), ["[0] sum 3", "[1] sum 3"], done)


class Subcommands(Case):
    def test_no_or_an_unknown_subcommand(self):
        self.assertSays(tutti("dcotor").err, r'^tutti: no subcommand "dcotor"\. Did you mean "doctor"\?')
        self.assertEqual(tutti("dcotor").code, 6)
        done = tutti()
        self.assertEqual((done.code, done.out), (6, ""))
        self.assertSays(done.err, "Usage: tutti SUBCOMMAND")

    def test_help_and_version(self):
        help_text = tutti("--help")
        self.assertEqual(help_text.code, 0)
        for name in ("run", "bench", "plan", "store", "doctor"):
            self.assertSays(help_text.out, rf"\n  {name} +\w")
            one = tutti(name, "--help")
            self.assertEqual(one.code, 0, one)
            self.assertSays(one.out, rf"tutti {name}")
        for word in ("--version", "-V", "version"):
            self.assertSays(tutti(word).out, r"^tutti \d+\.\d+\.\d+\n$")

    def test_wrong_words_to_every_subcommand_are_exit_6_and_name_the_word(self):
        for words, message in ((["run", "--nnodez", "2", "true"], r"--nnodez.*--nnodes"),
                               (["bench", "all_redcue"], r"all_redcue.*all_reduce"),
                               (["bench", "all_reduce", "--chekc", "1"], r"chekc"),
                               (["plan", "all_redcue"], r"all_redcue.*all_reduce"),
                               (["plan", "all_reduce", "--algoritm", "ring"], r"algoritm"),
                               (["plan", "all_reduce", "--algorithm", "rnig", "-n", "4"], r"rnig.*ring"),
                               (["store", "srve"], r"srve"),
                               (["store", "serve", "--prot", "1"], r"--?prot"),
                               (["doctor", "--jsn"], r"--jsn.*--json"),
                               (["doctor", "-n", "none"], r"-n .*none"),
                               (["store", "get", "x", "--prot", "1"], r'^tutti: store get: no option "--prot"\. '
                                                                      r"\(tutti store get --help\)\n$"),
                               (["store", "add", "x", "one"], r'^tutti: store add: N takes a whole number, not "one" '),
                               (["store", "get", "x", "--timeout", "soon"], r'--timeout takes a number, not "soon"'),
                               (["store", "get", "x", "--timeout", "-1"], r"--timeout takes seconds above 0, not -1 "),
                               (["store", "get"], r"^tutti: store get: KEY is required"),
                               (["plan", "all_reduce", "-n", "abc"], r'^tutti: plan: --ranks takes a whole number, not "abc" '
                                                                     r"\(tutti plan --help\)\n$"),
                               (["plan", "all_reduce", "-n"], r"^tutti: plan: --ranks needs a value \("),
                               (["plan", "all_reduce", "-n", "4", "-n5"],
                                r"^tutti: plan: -n is given more than once \("),
                               (["plan", "all_reduce", "-n", "4", "--ranks=5"],
                                r"^tutti: plan: -n and --ranks are one option, which is given more than once \("),
                               (["store", "get", "x", "--timeout", "1", "--timeout", "2"],
                                r"^tutti: store get: --timeout is given more than once \(tutti store get --help\)"),
                               (["run", "-n", "2", "-n", "3", "true", "--np", "2"],
                                r"^tutti: run: -n is given more than once \(tutti run --help\)\n$"),
                               (["plan", "all_reduce", "twice"], r'^tutti: plan: "twice" is one word too many'),
                               (["plan", "all_reduce", "--frob"], r'no option "--frob"\. \('),
                               (["bench", "all_reduce", "-o", "foo"], r'no reduction "foo"\. |"foo"\. Known'),
                               (["trace", "--jsn", "x"], r'^tutti: trace: no option "--jsn"\.'),
                               (["blackbox", "-n", "x", "1"], r'^tutti: blackbox: -n takes a whole number, not "x"'),
                               (["learn", "--html", ""], r"^tutti: learn: --html needs a value, not an empty word \("),
                               (["plan", "all_reduce", "--svg", ""], r"^tutti: plan: --svg needs a value, not an empty word"),
                               (["run", "--trace", "", "-n", "1", "true"], r"^tutti: run: --trace needs a value, not an empty"),
                               (["bench", "all_reduce", "-J", ""], r"^tutti: bench: -J needs a value, not an empty word"),
                               (["store", "--host", "", "get", "x"], r"^tutti: store: --host needs a value, not an empty"),
                               (["learn", "--sevre"], r'^tutti: learn: no option "--sevre"\. Did you mean "--serve"\?'),
                               (["tune", "foo"], r'^tutti: tune: no collective "foo"\. Known are all_reduce, ')):
            with self.subTest(words=words):
                done = tutti(*words)
                self.assertEqual(done.code, 6, done)
                self.assertSays(done.err, message)
                self.assertEqual(done.out, "")


if __name__ == "__main__":
    harness.main()
