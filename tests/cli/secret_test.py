"""The secret of a job: where it comes from, whom it keeps out, and that nobody prints it."""

import harness
from harness import Case, Finished, script, start, tutti

SECRET = "a secret for these tests"
USAGE = 6


class Secrets(Case):
    def setUp(self):
        super().setUp()
        self.servers = []

    def tearDown(self):
        for server in self.servers:
            server.terminate()
            server.communicate(timeout=10)
        super().tearDown()

    def file(self, content=SECRET + "\n", mode=0o600):
        path = self.folder / "secret"
        path.write_text(content)
        path.chmod(mode)
        return path

    def serve(self, *words, **env):
        """A store, and where it is."""
        server = start(harness.PROGRAM, "store", "--port", "0", *words, env=env)
        self.servers.append(server)
        return server.stdout.readline().removeprefix("listening on ").strip()

    def say(self, place, *words, **env):
        return tutti("store", *words, "--rdzv", place, "--timeout", "10", env=env)


class Run(Secrets):
    def test_each_job_on_one_node_gets_a_secret_of_its_own_that_all_its_ranks_know(self):
        jobs = [tutti("run", "-n", "3", "--label", "never", *script('echo "$TUTTI_SECRET"')) for _ in range(2)]
        for done in jobs:
            self.assertEqual(len(done.lines), 3, done)
            self.assertEqual(len(set(done.lines)), 1, done)
            self.assertRegex(done.lines[0], "^[0-9a-f]{64}$")
        self.assertNotEqual(jobs[0].lines[0], jobs[1].lines[0])

    def test_a_restarted_job_gets_a_new_one(self):
        done = tutti("run", "-n", "2", "--max-restarts", "1", "--label", "never", *script(
            'echo "$TUTTI_SECRET"; [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]'))
        self.assertEqual(done.code, 0, done)
        self.assertEqual(len(set(done.lines)), 2, done)

    def test_it_is_on_no_command_line(self):
        done = tutti("run", "-n", "2", "--label", "never", *script(
            'for f in /proc/[0-9]*/cmdline; do tr "\\0" " " <$f 2>/dev/null | grep -F "$TUTTI_SECRET" || true; done'))
        self.assertEqual((done.code, done.out), (0, ""), done)

    def test_one_that_is_given_is_used(self):
        print_both = script('echo "$TUTTI_SECRET|$TUTTI_SECRET_FILE"')
        self.assertEqual(tutti("run", *print_both, env={"TUTTI_SECRET": SECRET}).out, SECRET + "|\n")
        path = self.file()
        self.assertEqual(tutti("run", *print_both, env={"TUTTI_SECRET_FILE": str(path)}).out, f"|{path}\n")
        for env in ({}, {"TUTTI_SECRET": "another one, but overruled"}):
            self.assertEqual(tutti("run", "--secret-file", "secret", *print_both, env=env, cwd=self.folder).out,
                             f"|{path}\n")
        for env, words in (({"TUTTI_SECRET": SECRET}, []), ({"TUTTI_SECRET_FILE": str(path)}, []),
                           ({}, ["--secret-file", path]), ({}, []), ({}, ["--insecure"])):
            done = tutti("run", "-n", "3", *words, harness.JOIN, env=env)
            self.assertEqual(done.code, 0, done)
            self.assertEqual(sorted(done.lines), [f"[{rank}] sum 6" for rank in range(3)], done)

    def test_a_bad_one_is_refused_by_where_it_came_from_and_not_shown(self):
        path = self.file(mode=0o644)
        for env, words, message in (
                ({"TUTTI_SECRET": "too short"}, [], "TUTTI_SECRET has 9 characters"),
                ({"TUTTI_SECRET_FILE": str(path)}, [], f"chmod 600 {path}"),
                ({}, ["--secret-file", path], f"chmod 600 {path}"),
                ({}, ["--secret-file", "/no/file"], "/no/file: No such file"),
                ({"TUTTI_SECRET": SECRET, "TUTTI_SECRET_FILE": str(path)}, [], "both set"),
                ({}, ["-x", "TUTTI_SECRET=" + SECRET], "command line can be read by everybody"),
                ({"TUTTI_INSECURE": "yes"}, [], 'TUTTI_INSECURE is "yes": not a switch')):
            with self.subTest(message=message):
                done = tutti("run", *words, "true", env=env)
                self.assertEqual((done.code, done.out), (USAGE, ""), done)
                self.assertIn(message, done.err)
                self.assertNotIn("too short", done.err)
                self.assertNotIn(SECRET, done.err)

    def test_one_that_is_to_be_and_not_to_be_used_is_refused(self):
        for command in (["run", "--insecure"], ["store", "--port", "0", "--insecure"]):
            for env, words in (({"TUTTI_SECRET": SECRET}, []), ({"TUTTI_SECRET_FILE": str(self.file())}, []),
                               ({}, ["--secret-file", self.file()])):
                done = tutti(*command, *words, *(["true"] if command[0] == "run" else []), env=env, limit=10)
                self.assertEqual((done.code, done.out), (USAGE, ""), done)
                self.assertIn("--insecure means no secret, but", done.err)

    def test_a_dry_run_shows_none(self):
        for env in ({}, {"TUTTI_SECRET": SECRET}):
            done = tutti("run", "--dry-run", "true", env=env)
            self.assertEqual(done.code, 0, done)
            self.assertNotIn(SECRET, done.out + done.err)
            self.assertNotRegex(done.out, "[0-9a-f]{64}")

    def test_its_store_is_closed_to_who_has_none_and_pytorchs_clients_have_another(self):
        done = tutti("run", "--label", "never", "python3", "-c", (
            "import os, socket, struct\n"
            "hello = b'\\0' + struct.pack('=I', 0x3C85F7CE) + b'\\7'\n"
            "e = os.environ\n"
            "for place in e['TUTTI_RDZV'].split('//')[1], e['MASTER_ADDR'] + ':' + e['MASTER_PORT']:\n"
            "    s = socket.create_connection(place.rsplit(':', 1), 5)\n"
            "    s.sendall(hello)\n"
            "    try: print(s.recv(8))\n"
            "    except ConnectionResetError: print(b'')\n"))
        self.assertEqual(done.lines, ["b''", f"{bytes(8)}"], done)
        self.assertIn("turned away 1 connection to the job's store", done.err)


class Ranks(Secrets):
    def ranks(self, secrets, **env):
        place = self.serve(TUTTI_SECRET=secrets[0])
        return [Finished(one, 60) for one in [
            start(harness.JOIN, env={"TUTTI_RDZV": "store://" + place, "TUTTI_RANK": str(rank), "TUTTI_SIZE": "2",
                                     "TUTTI_SECRET": secret} | env) for rank, secret in enumerate(secrets)]]

    def test_ranks_started_by_hand_join_with_the_secret_over_each_transport(self):
        for transport in ("shm", "tcp"):
            for one in self.ranks([SECRET, SECRET], TUTTI_TRANSPORT=transport):
                self.assertEqual((one.code, one.out), (0, "sum 3\n"), one)

    def test_a_rank_with_another_secret_or_none_is_kept_out_and_told_why(self):
        for secret, message in ((SECRET + "?", "did not prove that it knows this job's secret"),
                                (None, "wants a secret")):
            done = self.ranks([SECRET, secret], TUTTI_TIMEOUT="1")
            self.assertEqual([one.code for one in done], [1, 1], done)
            self.assertIn(message, done[1].err)
            self.assertIn("for rank 1. They may not have started", done[0].err)
            self.assertNotIn(SECRET, done[0].err + done[1].err)

    def test_in_a_file_ranks_with_different_secrets_find_out(self):
        done = [Finished(one, 60) for one in [
            start(harness.JOIN, env={"TUTTI_RDZV": f"file://{self.folder}/store", "TUTTI_RANK": str(rank),
                                     "TUTTI_SIZE": "2", "TUTTI_SECRET": f"{SECRET} {rank}"}) for rank in range(2)]]
        for rank, one in enumerate(done):
            self.assertEqual(one.code, 1, done)
            self.assertIn(f"rendezvous: rank {1 - rank} was started with another secret than rank {rank}", one.err)
            self.assertNotIn(SECRET, one.err)


class Store(Secrets):
    def test_a_store_with_a_secret_serves_those_who_have_it(self):
        path = self.file()
        for words, env in ((["--secret-file", path], {}), ([], {"TUTTI_SECRET": SECRET}),
                           ([], {"TUTTI_SECRET_FILE": str(path)})):
            place = self.serve(*words, **env)
            self.assertEqual(self.say(place, "set", "colour", "green", "--secret-file", path).code, 0)
            self.assertEqual(self.say(place, "get", "colour", TUTTI_SECRET=SECRET).out, "green\n")
            for env in ({}, {"TUTTI_SECRET": SECRET + "!"}):
                done = self.say(place, "get", "colour", **env)
                self.assertEqual((done.code, done.out), (3, ""), done)
                self.assertIn("secret", done.err)
                self.assertNotIn(SECRET, done.err)

    def test_other_hosts_are_served_with_a_secret_or_when_that_is_said(self):
        done = tutti("store", "--host", "0.0.0.0", "--port", "0")
        self.assertEqual((done.code, done.out), (USAGE, ""), done)
        for word in ("TUTTI_SECRET", "TUTTI_SECRET_FILE", "--insecure", "TUTTI_INSECURE=1"):
            self.assertIn(word, done.err)
        for words, env in ((["--insecure"], {}), ([], {"TUTTI_INSECURE": "1"}), ([], {"TUTTI_SECRET": SECRET})):
            self.assertRegex(self.serve("--host", "0.0.0.0", *words, **env), r"^0\.0\.0\.0:\d+$")

    def test_the_help_says_so(self):
        for command in ("run", "store"):
            done = tutti(command, "--help")
            for word in ("--secret-file", "--insecure"):
                self.assertIn(word, done.out)


class Doctor(Secrets):
    def test_it_shows_that_there_is_one_but_not_which(self):
        for words in (["--env"], ["--env", "--json"]):
            done = tutti("doctor", *words, env={"TUTTI_SECRET": SECRET})
            self.assertEqual(done.code, 0, done)
            self.assertIn("TUTTI_SECRET", done.out)
            self.assertIn("(set; not shown)", done.out)
            self.assertNotIn(SECRET, done.out + done.err)


if __name__ == "__main__":
    harness.main()
