"""tutti plan --import: which programs of MSCCL it takes and which it refuses, and that what it took moves data."""

import pathlib
import re
import xml.etree.ElementTree as xml

import harness
from harness import Case, tutti

GRID = pathlib.Path(__file__).resolve().parents[2] / "examples" / "plans" / "grid_2x4.xml"


class Program:
    """A program of MSCCL that a test can spoil."""

    def __init__(self, path):
        self.tree = xml.parse(path)
        self.algo = self.tree.getroot()

    def block(self, rank, block):
        return next(tb for tb in self.algo[rank] if tb.get("id") == str(block))

    def step(self, rank, block, step):
        return self.block(rank, block)[step]

    def write(self, path):
        for gpu in self.algo:
            for tb in gpu:
                for number, step in enumerate(tb):
                    step.set("s", str(number))
        self.tree.write(path)
        return path


def run_plan(*arguments, transport, ranks=8, **options):
    """Each result is verified."""
    return tutti("bench", *arguments, "-g", str(ranks), "--transport", transport, "-n", "3", "-w", "1", "-c", "3", "--format",
                 "csv", limit=120, **options)


def can_import():
    return "without pugixml" not in tutti("plan", "--import", GRID).err


class Import(Case):
    def setUp(self):
        super().setUp()
        if not can_import():
            self.skipTest("built without pugixml")

    def plan(self, spoil=None, *arguments):
        program = Program(GRID)
        if spoil:
            spoil(program)
        return tutti("plan", "--import", program.write(self.folder / "grid.xml"), *arguments)

    def refused(self, spoil, *words):
        done = self.plan(spoil)
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, *words)
        self.assertEqual(done.out, "")

    def test_a_grid_is_proved_shown_and_drawn(self):
        done = self.plan(None, "--check")
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, r"^all_reduce by grid_2x4 over 8 ranks: a plan from",
                        r"Proved for all 8\s+ranks", r"64 messages, at most 4 one after the other",
                        r"busiest rank sends +1\.75 S")
        picture = self.folder / "grid.svg"
        self.assertEqual(self.plan(None, "--svg", picture).code, 0)
        self.assertEqual(xml.parse(picture).getroot().tag, "{http://www.w3.org/2000/svg}svg")

    def test_what_goes_out_again_is_the_same(self):
        again = self.folder / "again.xml"
        self.assertEqual(self.plan(None, "--msccl", again).code, 0)
        _, first = self.plan().out.split("grid.xml")
        _, second = tutti("plan", "--import", again).out.split("again.xml")
        self.assertEqual(first, second)

    def test_it_says_itself_what_it_is_for(self):
        self.assertEqual(self.plan(None, "--rank", "7").code, 0)
        self.assertSays(tutti("plan", "broadcast", "--import", GRID).err, "is for all_reduce, not broadcast")
        self.assertSays(tutti("plan", "--import", GRID, "-n", "4").err, "excludes")

    def test_a_missing_receive(self):
        self.refused(lambda p: p.block(5, 0).remove(p.step(5, 0, 3)),
                     r"rank 4 thread block 0 step 2 \(s\): sends a message on channel 0 that rank 5 never receives")

    def test_a_missing_send(self):
        self.refused(lambda p: p.block(2, 1).remove(p.step(2, 1, 2)),
                     r"rank 1 thread block 1 step 3 \(r\): waits on channel 0 for a message that rank 2 never sends")

    def test_messages_of_different_sizes(self):
        self.refused(lambda p: p.step(0, 0, 0).set("cnt", "1"),
                     r"rank 0 thread block 0 step 0 \(s\): sends 1 chunks to rank 1 thread block 0 step 1, which "
                     "expects 2")

    def test_a_wrong_chunk(self):
        self.refused(lambda p: p.step(0, 3, 2).set("srcoff", "5"),
                     r"rank 0 thread block 3 step 2 \(send to 4\): sends input\[5\] and meets rank 4 thread block 3 "
                     r"step 3 \(recv from 0\), which expects output\[0\]")

    def test_a_contribution_that_comes_twice(self):
        def spoil(program):  # the swap adds up what was finished in place of receiving it
            program.step(6, 3, 3).set("type", "rrc")
            program.step(6, 3, 3).set("srcoff", program.step(6, 3, 3).get("dstoff"))
        self.refused(spoil, r"rank 6 thread block 3 step 3 \(recv_reduce from 2\): counts ranks 4, 5, 6, 7 twice in "
                     r"output\[4\]")

    def test_a_contribution_that_is_lost(self):
        # For each of some steps that add up: it receives only, and is named wherever a result lacks something.
        for rank, block, step, peer in ((3, 1, 1, 1), (0, 2, 1, 3), (6, 3, 1, 2), (5, 0, 1, 4)):
            done = self.plan(lambda p: p.step(rank, block, step).set("type", "r"))
            self.assertEqual(done.code, 6, done)
            lines = re.findall(r"lacking .*", done.err)
            self.assertGreater(len(lines), 7, done)
            for line in lines:
                self.assertSays(line, rf"(lost|left out) in rank {rank} thread block {block} step {step} "
                                rf"\(recv from {peer}\), (which overwrites it in|though rank {rank} has it)")

    def test_a_contribution_that_is_never_sent(self):
        def spoil(program):  # the two of the last column add up nothing of each other
            for rank in (3, 7):
                for step in (0, 1):
                    program.step(rank, 3, step).set("type", "nop")
        self.refused(spoil, r"rank 4: ends with output\[7\] lacking ranks 0, 1, 2, 3: that of rank 0 was never sent to where "
                     r"it is needed; it would have had to come before rank 4 thread block 2 step 3 \(recv from 7\), the "
                     r"last to write there")

    def test_a_wait_that_is_missing_is_a_race(self):
        def spoil(program):
            program.step(4, 1, 1).set("depid", "-1")
            program.step(4, 1, 1).set("deps", "-1")
        self.refused(spoil, r"rank 4 thread block \d step 1 \(recv_reduce from \d\): races with thread block \d step 1 "
                     r"\(recv_reduce from \d\) for \w+\[0\]: neither waits for the other")

    def test_a_deadlock(self):
        def spoil(program):  # both wait for the other's message before they send their own
            for rank in (0, 4):
                block = program.block(rank, 3)
                first = block[0]
                block.remove(first)
                block.insert(1, first)
        self.refused(spoil, r"rank 0 thread block 3 step 0 \(rrc\): deadlock: waits forever for rank 4 thread block 3 "
                     r"step 1, which waits for rank 4 thread block 3 step 0")

    def test_a_wait_for_nothing(self):
        self.refused(lambda p: p.step(1, 0, 2).set("deps", "9"),
                     r"rank 1 thread block 0 step 2 \(s\): waits for thread block 3 step 9, which does not exist")
        self.refused(lambda p: p.step(1, 3, 3).set("hasdep", "0"),
                     r"rank 1 thread block 0 step 2 \(s\): waits for thread block 3 step 3, which does not signal its end")

    def test_what_is_outside_the_buffers(self):
        self.refused(lambda p: p.step(7, 2, 0).set("srcoff", "8"),
                     r"rank 7 thread block 2 step 0 \(s\): touches input\[8\], but this rank has 8 chunks")
        self.refused(lambda p: p.step(7, 2, 0).set("srcbuf", "s"),
                     r"rank 7 thread block 2 step 0 \(s\): touches scratch\[4\], but this rank has 0 chunks")

    def test_two_thread_blocks_on_one_channel(self):
        def spoil(program):
            program.block(0, 1).set("send", "1")
        self.refused(spoil, r"rank 0 thread block 1 step 0 \(s\): sends to rank 1 on channel 0 as rank 0 thread block 0 "
                     "step 0 does, and their messages would mix")

    def test_what_is_no_program_names_its_line(self):
        for text, *words in [("<algo", "hurt.xml:1: this is not XML"),
                             ("<other/>", "there is no element <algo>"),
                             ("<algo/>", "hurt.xml:1: <algo>: it has no coll"),
                             ('<algo coll="allreduce" ngpus="1">\n<gpu id="3" i_chunks="1" o_chunks="1" s_chunks="0"/>'
                              "</algo>", 'hurt.xml:2: <gpu>: id="3" is not a number from 0 to 0'),
                             ('<algo coll="sort" ngpus="1"><gpu id="0" i_chunks="1" o_chunks="1" s_chunks="0"/></algo>',
                              'hurt.xml: coll="sort" is not a collective of tutti')]:
            path = self.folder / "hurt.xml"
            path.write_text(text)
            done = tutti("plan", "--import", path)
            self.assertEqual(done.code, 6, done)
            self.assertSays(done.err, *words)
        self.assertSays(tutti("plan", "--import", self.folder / "none.xml").err, "plan: cannot read .*none.xml")


class Run(Case):
    """What was imported moves data: results are compared with what the operation means, out of place and in place."""

    def setUp(self):
        super().setUp()
        if not can_import():
            self.skipTest("built without pugixml")

    def check_rows(self, done, sizes, algorithm="grid_2x4"):
        self.assertEqual(done.code, 0, done)
        header, *lines = [line.split(",") for line in done.lines if not line.startswith("#")]
        rows = [dict(zip(header, line)) for line in lines]
        self.assertEqual({row["algorithm"] for row in rows}, {algorithm})
        self.assertEqual({row["wrong"] for row in rows}, {"0"})
        self.assertEqual({int(row["size"]) for row in rows}, set(sizes))
        self.assertEqual({row["placement"] for row in rows}, {"out_of_place", "in_place"})

    def test_right_results_over_shared_memory_and_tcp(self):
        for transport in ("shm", "tcp"):
            done = run_plan("all_reduce", "--import", GRID, "-b", "4", "-e", "256K", "-f", "64", transport=transport)
            self.check_rows(done, (4, 256, 16384))
            done = run_plan("all_reduce", "--import", GRID, "-b", "12K", "-e", "12300", "-i", "12", "-d", "double",
                            "-o", "max", transport=transport)
            self.assertEqual(done.code, 0, done)

    def test_all_may_send_before_they_receive(self):
        """Neither a slot nor a socket holds such messages, and nobody takes them before he has got rid of his own."""
        plan = self.folder / "own.plan"
        ranks = (f"rank {rank}\nsend {1 - rank} i0+2\nrecv_reduce {1 - rank} o0+2 i0+2 after 0\n" for rank in (0, 1))
        plan.write_text("tutti-plans 1\nall_reduce own ranks 2 root 0 pipeline 1\n" + "".join(ranks))
        for transport in ("shm", "tcp"):
            done = run_plan("all_reduce", "-b", "4", "-e", "16M", "-f", "2048", transport=transport, ranks=2,
                            env={"TUTTI_PLAN_FILE": str(plan)})
            self.check_rows(done, (4, 8192, 16777216), "own")

    def test_a_saved_plan_serves_any_program(self):
        plan = self.folder / "grid.plan"
        self.assertEqual(tutti("plan", "--import", GRID, "--save", plan).code, 0)
        done = run_plan("all_reduce", "-b", "1000", "-e", "1000", transport="shm", env={"TUTTI_PLAN_FILE": str(plan)})
        self.check_rows(done, (1000,))
        done = tutti("run", "-n", "8", "--no-label", harness.JOIN, "--algorithm", "grid_2x4", limit=60,
                     env={"TUTTI_PLAN_FILE": str(plan)})
        self.assertEqual((done.code, done.lines), (0, ["sum 36"] * 8), done)
        done = tutti("run", "-n", "4", "--no-label", harness.JOIN, limit=60, env={"TUTTI_PLAN_FILE": str(plan)})
        self.assertEqual((done.code, done.lines), (0, ["sum 10"] * 4), done)
        done = tutti("run", "-n", "4", "--no-label", harness.JOIN, "--algorithm", "grid_2x4", limit=60,
                     env={"TUTTI_PLAN_FILE": str(plan)})
        self.assertEqual(done.code, 1, done)
        self.assertSays(done.err, "all_reduce cannot use the plan grid_2x4 here: it is for 8 ranks, not 4")

    def test_a_saved_plan_of_many_domains_has_a_name_that_is_read_again(self):
        topology = self.folder / "topology"
        topology.write_text("".join(f"rank {rank} cache {rank % 2}\n" for rank in range(16)))
        plan = self.folder / "domains.plan"
        done = tutti("plan", "all_reduce", "--algo", "hierarchical", "-n", "16", "--topology", topology, "--save", plan)
        self.assertSays(done.out, r"as hierarchical-0\.2\.\S+\s*$")
        self.assertSays(tutti("plan", "--import", plan).out, r"^all_reduce by hierarchical-0\.2\.4")

    def test_a_wrong_plan_runs_nowhere(self):
        spoilt = Program(GRID)
        spoilt.step(2, 1, 1).set("type", "r")
        path = spoilt.write(self.folder / "spoilt.xml")
        done = run_plan("all_reduce", "--import", path, "-b", "4", "-e", "4", transport="shm")
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, r"bench: .*spoilt.xml is wrong:\n  all_reduce: rank \d+: ends with output")
        plan = self.folder / "grid.plan"
        tutti("plan", "--import", GRID, "--save", plan)
        plan.write_text(plan.read_text().replace("after 6", "after 5"))
        done = tutti("run", "-n", "8", "--no-label", harness.JOIN, limit=60, env={"TUTTI_PLAN_FILE": str(plan)})
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, r"grid.plan: the plan is wrong: all_reduce: rank 0 step \d+ .* races with step \d+")
        done = tutti("run", "-n", "1", harness.JOIN, limit=60, env={"TUTTI_PLAN_FILE": "/no/such"})
        self.assertSays(done.err, 'TUTTI_PLAN_FILE is "/no/such": no such file, accepted: path of')

    def test_ranks_with_different_plans_of_one_name_notice(self):
        plan = self.folder / "own.0"
        ring = tutti("plan", "all_reduce", "--algo", "ring", "-n", "2", "--save", plan)
        self.assertEqual(ring.code, 0, ring)
        other = tutti("plan", "all_reduce", "--algo", "doubling", "-n", "2", "--save", self.folder / "own.1")
        self.assertEqual(other.code, 0, other)
        second = self.folder / "own.1"
        second.write_text(second.read_text().replace("saved_doubling", "saved_ring"))
        script = f'TUTTI_PLAN_FILE={self.folder}/own.$RANK exec {harness.JOIN}'
        done = tutti("run", "-n", "2", "--no-label", "sh", "-c", script, limit=60, env={"TUTTI_BOARD_BYTES": "0"})
        self.assertNotEqual(done.code, 0, done)
        self.assertSays(done.err, "mismatch")

    def test_what_does_not_go_together(self):
        for words, why in [(["all_reduce", "-g", "4"], r"is a plan for 8 ranks, not 4 \(-g 8\)"),
                           (["broadcast", "-g", "8"], "is a plan for all_reduce"),
                           (["all_reduce", "-g", "8", "--against", "all"], "does not go with other libraries")]:
            done = tutti("bench", *words, "--import", GRID)
            self.assertEqual(done.code, 6, done)
            self.assertSays(done.err, why)

    def test_beside_the_catalogue(self):
        done = tutti("bench", "all_reduce", "--import", GRID, "-g", "8", "--compare", "ring,grid_2x4", "-b", "4K", "-e",
                     "4K", "-n", "2", "--format", "csv", "--transport", "shm", limit=120)
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, r"(?m),ring,", r"(?m),grid_2x4,")


if __name__ == "__main__":
    harness.main()
