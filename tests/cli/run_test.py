"""tutti run: what the ranks see, what becomes of their output, and what the command line may say."""

import array
import collections
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import termios

import harness
from harness import Case, script, start, tutti, wait_until


def bytes_waiting(pipe):
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def read_until(descriptor, text, limit=20):
    """What comes from it up to and with `text`."""
    seen = b""
    while text not in seen:
        if not select.select([descriptor], [], [], limit)[0]:
            raise AssertionError(f"no {text} in: {seen}")
        seen += os.read(descriptor, 1)
    return seen


class Environment(Case):
    def test_ranks_know_who_they_are_in_our_words_and_torchruns(self):
        done = tutti("run", "-n", "3", *script(
            'echo "$TUTTI_RANK/$TUTTI_SIZE/$TUTTI_LOCAL_RANK/$TUTTI_LOCAL_SIZE '
            '$RANK/$WORLD_SIZE/$LOCAL_RANK/$LOCAL_WORLD_SIZE/$GROUP_RANK/$TORCHELASTIC_RESTART_COUNT"'))
        self.assertEqual(done.code, 0, done)
        self.assertEqual(sorted(done.lines), [f"[{r}] {r}/3/{r}/3 {r}/3/{r}/3/0/0" for r in range(3)])

    def test_a_store_that_speaks_torchs_protocol_listens_where_the_ranks_are_told(self):
        done = tutti("run", "-n", "2", "--label", "never", "python3", "-c", (
            "import os, socket, struct\n"
            "text = lambda b: struct.pack('=Q', len(b)) + b\n"
            "s = socket.create_connection((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])), 5)\n"
            "s.sendall(b'\\0' + struct.pack('=I', 0x3C85F7CE) + b'\\4' + text(b'/count') + struct.pack('=q', 1))\n"
            "print('count', struct.unpack('=q', s.recv(8, socket.MSG_WAITALL))[0])\n"
            "e = os.environ\n"
            "print(e['TORCHELASTIC_USE_AGENT_STORE'], e['TUTTI_JOB'] == e['TORCHELASTIC_RUN_ID'] != '')"))
        self.assertEqual(done.code, 0, done)
        self.assertEqual(sorted(done.lines), ["True True"] * 2 + ["count 1", "count 2"], done)

    def test_every_job_gets_a_name_of_its_own_or_the_one_that_is_given(self):
        print_name = script('echo "$TUTTI_JOB"')
        first, second = tutti("run", *print_name), tutti("run", *print_name)
        self.assertNotEqual(first.out, second.out)
        self.assertEqual(tutti("run", "--rdzv_id", "mine", *print_name).out, "mine\n")

    def test_exported_variables_reach_the_ranks(self):
        done = tutti("run", "-n", "2", "-x", "A=1 2", "--export", "B=", "-x", "HOME", "-x=C=3", "-x", "ROLE_NAME=r", "--no-label",
                     *script('echo "$A|$B|$HOME|$C"'))
        self.assertEqual(done.lines, [f"1 2||{os.environ['HOME']}|3"] * 2, done)

    def test_rank_0_reads_standard_input_and_the_others_read_nothing(self):
        process = start(harness.PROGRAM, "run", "-n", "2", *script("cat; echo end"), stdin=subprocess.PIPE)
        out, err = process.communicate("typed\n", timeout=20)
        self.assertEqual(sorted(out.splitlines()), ["[0] end", "[0] typed", "[1] end"], err)

    def test_rank_0_reads_a_terminal(self):
        master, terminal = pty.openpty()
        process = start(harness.PROGRAM, "run", "-n", "2", *script("read line; echo got $line"), stdin=terminal,
                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.write(master, b"keys\n")
        out, err = process.communicate(timeout=20)
        self.assertIn("[0] got keys", out, err)
        os.close(master)
        os.close(terminal)

    def test_descriptors_of_the_caller_pass_through_and_of_ours_only_the_black_box(self):
        read_end, write_end = os.pipe()
        done = tutti("run", "-n", "1", *script(
            f"echo through >&{write_end}; ls -l /proc/self/fd; echo box $TUTTI_BLACK_BOX_FD"), pass_fds=[write_end])
        os.close(write_end)
        self.assertEqual(os.read(read_end, 100), b"through\n", done)
        os.close(read_end)
        opened = set(re.findall(r" (\d+) -> (?!/proc)", done.out))
        box = re.search(r"(?<=box )\d+", done.out).group()
        self.assertEqual(opened, {"0", "1", "2", str(write_end), box}, done)
        self.assertSays(done.out, f" {box} -> /memfd:tutti-blackbox ")

    def test_closed_standard_descriptors_do_no_harm(self):
        witness = self.folder / "witness"
        done = harness.run("sh", "-c", f'exec "$0" run -n 2 sh -c "cat; echo x; echo y >&2; echo z >> {witness}" <&- >&- 2>&-',
                           harness.PROGRAM)
        self.assertEqual((done.code, witness.read_text()), (0, "z\nz\n"), done)

    def test_too_few_descriptors_for_so_many_ranks_is_said(self):
        if harness.is_sanitized():
            self.skipTest("sanitizers look at memory through descriptors")
        done = harness.run("sh", "-c", 'ulimit -n 64; exec "$0" run -n 100 sleep 100', harness.PROGRAM)
        self.assertEqual(done.code, 1, done)
        self.assertSays(done.err, r"100 ranks need about \d+ open files, and the hard limit .*\(ulimit -Hn\) allows 64")

    def test_signals_are_as_they_would_be_without_us(self):
        look = ["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"]
        self.assertEqual(tutti("run", *look).out, harness.run(*look).out)

    def test_binding_gives_each_rank_its_share_of_the_cores(self):
        cores = sorted(os.sched_getaffinity(0))
        done = tutti("run", "-n", len(cores), "--bind-to", "core", "--no-label", "python3", "-c",
                     "import os; print(*sorted(os.sched_getaffinity(0)))")
        self.assertEqual(sorted(done.lines, key=int), [str(core) for core in cores], done)
        done = tutti("run", "-n", 2 * len(cores) + 1, "--bind-to", "core", "--no-label", "python3", "-c",
                     "import os; print(*sorted(os.sched_getaffinity(0)))")
        self.assertEqual(set(done.lines), {str(core) for core in cores}, done)

    def test_shares_are_blocks_or_dealt_out_in_turn(self):
        cores = sorted(os.sched_getaffinity(0))
        look = ["python3", "-c", "import os; print(os.environ['RANK'], *sorted(os.sched_getaffinity(0)))"]
        for mapping, share_of in (("block", lambda rank: [cores[rank // 2]]), ("cyclic", lambda rank: [cores[rank % len(cores)]])):
            ranks = 2 * len(cores)
            done = tutti("run", "-n", ranks, "--bind-to", "core", "--map-by", mapping, "--no-label", *look)
            shares = [" ".join(map(str, (rank, *share_of(rank)))) for rank in range(ranks)]
            self.assertEqual(sorted(done.lines), sorted(shares), done)
        done = tutti("run", "-n", 1, "--bind-to", "core", "--map-by", "cyclic", "--no-label", *look)
        self.assertEqual(done.lines, [" ".join(map(str, (0, *cores)))], done)

    def test_ranks_are_bound_unless_they_outnumber_the_cores(self):
        cores = len(os.sched_getaffinity(0))
        look = ["python3", "-c", "import os; print(len(os.sched_getaffinity(0)))"]
        for ranks, words, each in ((cores, [], 1), (1, [], cores), (cores + 1, [], cores), (1, ["--bind-to", "none"], cores)):
            done = tutti("run", "-n", ranks, *words, "--no-label", *look)
            self.assertEqual(done.lines, [str(each)] * ranks, done)

    def test_auto_means_one_rank_per_core(self):
        done = tutti("run", "-n", "auto", "--no-label", *script("echo $WORLD_SIZE"))
        self.assertEqual(set(done.lines), {str(len(done.lines))}, done)


class Output(Case):
    def test_large_output_of_many_ranks_arrives_complete_in_whole_labelled_lines(self):
        lines = 100_000
        done = tutti("run", "-n", "4", "python3", "-c", (
            "import os, sys\n"
            "r = os.environ['RANK']\n"
            # In one write each, also where Python is told not to buffer: what stays unfinished is shown after a moment.
            f"for i in range({lines}): (sys.stdout, sys.stderr)[i % 2].write(f'{{r}} {{i}} ' + 'x' * (i % 50) + '\\n')"), limit=60)
        self.assertEqual(done.code, 0, done)
        next_number = collections.Counter()
        for parity, text in enumerate((done.out, done.err)):
            for line in text.splitlines():
                match = re.fullmatch(r"\[(\d)\] (\d) (\d+) (x*)", line)
                self.assertIsNotNone(match, line)
                label, rank, number, tail = match.groups()
                self.assertEqual(label, rank)
                key = (rank, parity)
                self.assertEqual(int(number), 2 * next_number[key] + parity)
                self.assertEqual(len(tail), int(number) % 50)
                next_number[key] += 1
        self.assertEqual(set(next_number.values()), {lines // 2})
        self.assertEqual(len(next_number), 8)

    def test_a_prompt_shows_before_it_is_answered(self):
        ask = script('if [ $RANK = 0 ]; then printf "n? "; read n; echo got $n; fi')
        for words, label in ((["-n", "2"], b"[0] "), (["-n", "2", "--no-label"], b""), ([], b"")):
            with self.subTest(words=words):
                logs = self.folder / "logs"
                process = start(harness.PROGRAM, "run", *words, "--log-dir", logs, *ask, stdin=subprocess.PIPE)
                self.assertEqual(read_until(process.stdout.fileno(), b"? "), label + b"n? ")
                self.assertEqual((logs / "rank-0.log").read_text(), "n? ")
                out, err = process.communicate("5\n", timeout=20)
                self.assertEqual((out, (logs / "rank-0.log").read_text()), ("got 5\n", "n? got 5\n"), err)

    def test_a_prompt_on_a_terminal_ends_with_enter(self):
        master, terminal = pty.openpty()
        process = subprocess.Popen(
            [harness.PROGRAM, "run", "-n", "2", *script('[ $RANK = 1 ] || { printf "n? "; read n; echo got $n; }')],
            stdin=terminal, stdout=terminal, stderr=terminal, env=harness.clean_environment(), start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.assertEqual(read_until(master, b"? "), b"[0] n? ")
        os.write(master, b"5\n")
        self.assertEqual(read_until(master, b"got 5\r\n"), b"5\r\n[0] got 5\r\n")
        self.assertEqual(process.wait(timeout=20), 0)
        os.close(master)
        os.close(terminal)

    def test_bars_of_several_ranks_do_not_mix_and_the_last_one_is_the_last_line(self):
        shown = self.folder / "shown"
        process = start(harness.PROGRAM, "run", "-n", "2", *script(
            f'printf "\r10%% of $RANK"; until [ -e {shown} ]; do sleep 0.01; done; printf "\r20%% of $RANK";'
            'if [ $RANK = 1 ]; then kill -KILL $$; fi; exec sleep 100'))
        seen = b""
        while not (b"[0] 10% of 0" in seen and b"[1] 10% of 1" in seen):
            seen += read_until(process.stdout.fileno(), b" of ") + os.read(process.stdout.fileno(), 1)
        self.assertIn(seen, (b"[0] 10% of 0\n[1] 10% of 1", b"[1] 10% of 1\n[0] 10% of 0"))
        shown.touch()
        done = harness.Finished(process, 20)
        self.assertEqual(done.code, 137, done)
        self.assertSays(done.err, "its last line: 20% of 1\n")

    def test_a_slow_reader_gets_everything(self):
        process = start(harness.PROGRAM, "run", "-n", "2", *script("yes 0123456789abcde | head -n 60000"))
        self.assertTrue(wait_until(lambda: bytes_waiting(process.stdout) > 32 << 10))  # of 64: soon there is no room
        out, err = process.communicate(timeout=30)
        self.assertEqual(collections.Counter(out.splitlines()),
                         {"[0] 0123456789abcde": 60000, "[1] 0123456789abcde": 60000}, err)

    def test_a_last_line_without_newline_does_not_mix_with_others(self):
        done = tutti("run", "-n", "3", *script("printf 'no newline %s' $RANK"))
        self.assertEqual(sorted(done.lines), [f"[{r}] no newline {r}" for r in range(3)])

    def test_bytes_of_a_single_rank_pass_unchanged(self):
        done = tutti("run", *script("printf 'a\\nb\\n\\nno newline'"))
        self.assertEqual(done.out, "a\nb\n\nno newline")

    def test_labels_can_be_forced_and_forbidden(self):
        self.assertEqual(tutti("run", "-l", "echo", "a").out, "[0] a\n")
        self.assertEqual(tutti("run", "--label", "always", "echo", "a").out, "[0] a\n")
        self.assertEqual(tutti("run", "--tag-output", "--oversubscribe", "echo", "a").out, "[0] a\n")
        self.assertEqual(tutti("run", "-n", "2", "--label=never", "echo", "a").out, "a\na\n")

    def test_a_line_longer_than_any_buffer_is_cut_not_lost(self):
        done = tutti("run", "-n", "2", *script("head -c 3000000 /dev/zero | tr '\\0' x"))
        for rank in "01":
            pieces = [line[4:] for line in done.lines if line.startswith(f"[{rank}] ")]
            self.assertEqual(sum(map(len, pieces)), 3_000_000)

    def test_log_files_hold_each_ranks_output_without_labels(self):
        logs = self.folder / "deep" / "logs"
        done = tutti("run", "-n", "2", "--log-dir", logs, *script("echo out $RANK; echo err $RANK >&2"))
        self.assertEqual(done.code, 0, done)
        for rank in range(2):
            text = (logs / f"rank-{rank}.log").read_text()
            self.assertEqual(sorted(text.splitlines()), [f"err {rank}", f"out {rank}"])

    def test_a_reader_that_does_not_read_costs_no_memory_and_cannot_keep_the_job_from_ending(self):
        process = start(harness.PROGRAM, "run", "-n", "2", "yes", "a long line that fills memory quickly if it is kept")
        limit = (256 if harness.is_sanitized() else 32) << 10

        def kilobytes():
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))

        def all_wait():  # both ranks for room in their pipes, and the job for its reader
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            ranks = [pid for pid in children if pathlib.Path(f"/proc/{pid}/comm").read_text() == "yes\n"]
            return len(ranks) == 2 and {harness.state_of(pid) for pid in [process.pid, *ranks]} == {"S"}

        # A job that takes all is rarely seen waiting, and hardly twenty times in a row before it has reached the limit.
        self.assertTrue(harness.wait_until(lambda: kilobytes() >= limit or all(all_wait() for _ in range(20))))
        self.assertLess(kilobytes(), limit)
        process.terminate()
        self.assertEqual(process.wait(timeout=10), 143)
        process.communicate()

    def test_a_reader_that_does_not_read_cannot_keep_a_job_beyond_its_timeout(self):
        # The second rank has room for all that it writes, in its pipe and the job's.
        for words, code in ((["yes"], 124), (script("yes | head -c 100000; exit 3"), 3)):
            process = start(harness.PROGRAM, "run", "-n", "1", "--timeout", "1", "--kill-grace", "0.2", *words)
            self.assertEqual(process.wait(timeout=20), code, words)
            process.communicate()

    def test_a_reader_that_leaves_ends_the_job(self):
        process = start(harness.PROGRAM, "run", "-n", "2", "yes")
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=10), 128 + signal.SIGPIPE)
        process.stderr.close()

    def test_output_of_a_grandchild_that_outlives_its_rank_is_kept(self):
        # The rank alone holds the end of the pipe that writes, so that the grandchild reads its end when the rank is gone.
        late = f"end={self.folder}/$RANK; mkfifo $end; exec 3<>$end 4<$end; (exec 3>&-; read end <&4; echo late) & echo early"
        done = tutti("run", "-n", "2", *script(late))
        self.assertEqual(sorted(done.lines), ["[0] early", "[0] late", "[1] early", "[1] late"])


class CommandLine(Case):
    def test_a_program_that_does_not_exist_is_127(self):
        done = tutti("run", "-n", "2", "no-such-program")
        self.assertEqual(done.code, 127, done)
        self.assertEqual(done.err, 'tutti: cannot start "no-such-program": no such program in PATH\n')
        self.assertEqual(tutti("run", "./no/such").code, 127)

    def test_a_program_that_cannot_be_executed_is_126(self):
        plain = self.folder / "plain.txt"
        plain.write_text("text")
        done = tutti("run", plain)
        self.assertEqual(done.code, 126, done)
        self.assertIn("not executable", done.err)
        self.assertIn("directory", tutti("run", self.folder).err)

    def test_a_script_without_an_interpreter_line_runs_as_in_a_shell(self):
        plain = self.folder / "plain"
        plain.write_text("echo plain $1\n")
        plain.chmod(0o755)
        self.assertEqual(tutti("run", plain, "x").out, "plain x\n")

    def test_a_script_of_python_is_started_by_python(self):
        plain = self.folder / "script.py"
        plain.write_text("import sys\nprint('by', sys.executable, *sys.argv[1:])\n")
        wrapper = self.folder / "other python"
        wrapper.write_text('#!/bin/sh\necho "other $*"\n')
        wrapper.chmod(0o755)
        found = subprocess.run(["python3", "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, timeout=60)
        self.assertEqual(tutti("run", "-n", "2", "--no-label", plain, "-x").lines, [f"by {found.stdout.strip()} -x"] * 2)
        self.assertEqual(tutti("run", plain, "x", env={"TUTTI_PYTHON": str(wrapper)}).out, f"other -u {plain} x\n")
        self.assertEqual(tutti("run", "-x", f"TUTTI_PYTHON={wrapper}", plain, "x").out, f"other -u {plain} x\n")
        self.assertIn("not executable", tutti("run", "--no-python", plain).err)
        self.assertEqual(tutti("run", "-m", "a.module", "-n", env={"TUTTI_PYTHON": str(wrapper)}).out, "other -u -m a.module -n\n")
        done = tutti("run", "-n", "2", "--no-label", "--module", "script", "-x", env={"PYTHONPATH": str(self.folder)})
        self.assertEqual(done.lines, [f"by {found.stdout.strip()} -x"] * 2, done)
        self.assertIn("leave out --no-python or --module", tutti("run", "-m", "--no-python", "script").err)
        plain.write_text("#!/bin/sh\necho as it is\n")
        plain.chmod(0o755)
        self.assertEqual(tutti("run", plain).out, "as it is\n")

    def test_all_spellings_of_the_number_of_ranks(self):
        for words in (["-n", "2"], ["-n2"], ["-n=2"], ["-np", "2"], ["-np=2"], ["--np=2"], ["--nproc-per-node", "2"],
                      ["--nproc_per_node=2"]):
            with self.subTest(words=words):
                self.assertEqual(len(tutti("run", *words, "echo", "x").lines), 2)

    def test_options_end_at_the_program(self):
        self.assertEqual(tutti("run", "echo", "a", "-n", "7", "--no_label", "--").out, "a -n 7 --no_label --\n")
        self.assertEqual(tutti("run", "--", "printf", "%s ", "--help", "-n").out, "--help -n ")

    def test_dry_run_prints_and_starts_nothing(self):
        witness = self.folder / "witness"
        done = tutti("run", "-n", "2", "--dry-run", "-x", "A=b c", "touch", witness)
        self.assertEqual(done.code, 0, done)
        self.assertFalse(witness.exists())
        self.assertEqual(len(done.lines), 2)
        self.assertSays(done.lines[1], r"^\[1\] .*TUTTI_RANK=1 TUTTI_SIZE=2 .*WORLD_SIZE=2 .*A='b c' touch /")
        self.assertNotRegex(done.out, r"TUTTI_SECRET=[0-9a-f]{8}")
        done = tutti("run", "--nnodes", "2", "--rdzv", "[fd00::1]:29400", "--dry-run", "true")
        self.assertSays(done.out, r"TUTTI_RDZV='store://\[fd00::1\]:29400' .* MASTER_ADDR=fd00::1 MASTER_PORT=29400")
        for host in ("fd00::1", "[fd00::1]"):
            same = tutti("run", "--nnodes", "2", "--master-addr", host, "--dry-run", "true")
            self.assertEqual((same.out, same.err), (done.out, done.err))

    def test_a_dry_run_names_the_places_of_the_run(self):
        port = harness.free_port()
        for words in (["--rdzv", f"127.0.0.1:{port}"], ["--rdzv", f"127.0.0.1:{port}", "--insecure"], [],
                      ["--rdzv", f"0.0.0.0:{port}"]):
            places = tutti("run", *words, *script('echo "$TUTTI_RDZV $MASTER_ADDR $MASTER_PORT"')).lines[0].split()
            shown = tutti("run", *words, "--dry-run", "true").out
            for name, place in zip(("TUTTI_RDZV", "MASTER_ADDR", "MASTER_PORT"), places):
                if name != "MASTER_ADDR" and str(port) not in place:
                    place = re.sub(r"\d+$", "<free port>", place)
                self.assertRegex(shown, rf"{name}='?{re.escape(place)}'? ")

    def test_wrong_words_are_explained(self):
        for words, message in (
                (["-n", "0", "x"], r"-n takes a whole number from 1 to 65535, not \"0\""),
                (["-n", "two", "x"], r"-n takes a whole number .* not \"two\""),
                (["-n"], r"-n needs a value"),
                (["-np=", "x"], r"--nproc-per-node needs a value, not an empty word"),
                (["-n=two", "x"], r'-n takes a whole number .* not "two"'),
                ([], r"which program\?"),
                (["-n", "2"], r"which program\?"),
                (["--nproc-per-nod", "2", "x"], r'no option "--nproc-per-nod". Did you mean "--nproc-per-node"\?'),
                (["-q", "x"], r'no option "-q"'),
                (["--timeout", "soon", "x"], r'--timeout takes a time such as .* not "soon"'),
                (["--bind-to", "socket", "x"], r'--bind-to takes auto, core or none, not "socket"'),
                (["--bind-to", "core", "--map-by", "node", "x"], r'--map-by takes block or cyclic, not "node"'),
                (["--map-by", "cyclic", "x"], r"--map-by is about ranks that are pinned: give --bind-to core as well"),
                (["--label", "maybe", "x"], r'--label takes always or never, not "maybe"'),
                (["-x", "TUTTI_SECRET_FILE=f", "x"], r"-x TUTTI_SECRET_FILE=.*: the job's store must .* use --secret-file FILE"),
                (["-x", "TUTTI_TLS=1", "x"], r"-x TUTTI_TLS=.*: the job's store must know it, too: use --tls"),
                (["-x", "TUTTI_SIZE=8", "x"], r"-x TUTTI_SIZE=.*: tutti run itself gives each rank its TUTTI_SIZE, by .* -n"),
                (["-x", "RANK=0", "x"], r"-x RANK=.*: tutti run itself gives"),
                (["-x", "MASTER_PORT=1", "x"], r"-x MASTER_PORT=.*: tutti run itself gives .* --rdzv-endpoint"),
                (["--inject", "kill:rank=0,op=1", "-x", "TUTTI_INJECT=kill:rank=0,op=2", "x"],
                 r"-x TUTTI_INJECT=.*: tutti run itself gives .* --inject"),
                (["-x", "NO_SUCH_VARIABLE", "x"], r"NO_SUCH_VARIABLE: that variable is not set here"),
                (["-x", "=1", "x"], r"-x takes NAME or NAME=VALUE"),
                (["--nnodes", "2", "x"], r"several nodes need --rdzv-endpoint"),
                (["--node-rank", "first", "x"], r'--node-rank takes a whole number, not "first"'),
                (["--nnodes", "2", "--node-rank", "2", "--rdzv", "h:1", "x"], r"--node-rank 2 is outside 0 to 1"),
                (["--nnodes", "2", "--rdzv", "127.0.0.1:99999", "x"], r"--rdzv-endpoint.*99999"),
                (["--nnodes", "2", "--standalone", "--rdzv", "h:1", "x"], r"--standalone means one node"),
        ):
            with self.subTest(words=words):
                done = tutti("run", *words)
                self.assertEqual(done.code, 6, done)
                self.assertSays(done.err, r"^tutti: .*" + message)

    def test_help_shows_examples(self):
        done = tutti("run", "--help")
        self.assertEqual(done.code, 0)
        self.assertSays(done.out, r"--nproc-per-node", r"tutti run -n 4 \./prog")
        for line in done.lines:  # without a secret node 0 would refuse it
            self.assertEqual("tutti run" in line and "--nnodes" in line, "--secret-file ~" in line, line)


if __name__ == "__main__":
    harness.main()
