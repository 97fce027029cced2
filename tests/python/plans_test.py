"""Plans: the catalogue as data, there and back; your own algorithms proved, drawn, simulated and run."""

import os
import pathlib
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree as xml

import numpy
import pytutti
from pytutti import PlanError
from pytutti.plan_steps import VERBS, Blocks, Copy, Recv, RecvReduce, Reduce, Send
from support import ROOT, Case, threads


@pytutti.algorithm("all_reduce")
def own_ring(p):
    me, n = p.rank, p.ranks
    p.send(me + 1, p.input[me - 1])
    for k in range(2, n + 1):
        p.recv_reduce(me - 1, p.output[me - k], p.input[me - k])
        p.send(me + 1, p.output[me - k])
    for k in range(1, n):
        p.recv(me - 1, p.output[me - k])
        if k < n - 1:
            p.send(me + 1, p.output[me - k])


@pytutti.algorithm("reduce", rank_order=True)
def own_star(p):
    """All send to the root, which sums in rank order."""
    everything = p.input[:]
    if p.rank != p.root:
        p.send(p.root, everything)
        return
    came = [everything if rank == p.root else p.scratch(everything) for rank in range(p.ranks)]
    for rank in range(p.ranks):
        if rank != p.root:
            p.recv(rank, came[rank])
    total = p.scratch(everything)
    p.copy(total, came[0])
    for rank in range(1, p.ranks):
        p.reduce(total, total, came[rank])
    p.copy(p.output[:], total)


class Plans(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Catalogue(Plans):
    def test_a_program_that_is_not_there(self):
        with unittest.mock.patch.dict(os.environ, PYTUTTI_PROGRAM="/nope"):
            self.assert_fails(pytutti.PlanError, "cannot start /nope", pytutti.algorithms)

    def test_it_lists_all_collectives_and_says_what_their_algorithms_do(self):
        everything = pytutti.algorithms()
        self.assertEqual(len(everything), 11)
        self.assertEqual(pytutti.algorithms("all_reduce"), everything["all_reduce"])
        self.assertIn("ring", everything["all_reduce"])
        self.assertIn("bruck", everything["all_to_all"])
        for collective, known in everything.items():
            for name, idea in known.items():
                self.assertGreater(len(idea), 5, (collective, name))

    def test_every_algorithm_comes_back_from_its_file_with_the_same_steps(self):
        for collective, known in pytutti.algorithms().items():
            for name in known:
                for ranks in range(2, 9):
                    with self.subTest(collective=collective, name=name, ranks=ranks):
                        plan = pytutti.plan(collective, name, ranks).check()
                        self.assertEqual((plan.collective, plan.ranks, len(plan.steps)), (collective, ranks, ranks))
                        path = self.folder / "saved.plan"
                        plan.save(path)
                        back = pytutti.Plan.load(path).check()
                        self.assertEqual(back.steps, plan.steps)
                        self.assertEqual(
                            (back.scratch, back.cost, back.messages), (plan.scratch, plan.cost, plan.messages)
                        )
                        self.assertNotIn(back.name, known)

    def test_a_ring_is_what_the_lesson_says(self):
        ring = pytutti.plan("all_reduce", "ring", 4)
        self.assertEqual(
            ring.steps[0][:3],
            (
                Send(1, Blocks("input", 3)),
                RecvReduce(3, Blocks("output", 2), Blocks("input", 2)),
                Send(1, Blocks("output", 2), (1,)),
            ),
        )
        self.assertEqual((ring.cost.steps, ring.cost.sent, ring.cost.received, ring.cost.reduced), (6, 1.5, 1.5, 0.75))
        self.assertEqual((ring.bound.steps, ring.bound.sent, ring.rounds), (2, 1.5, 6))
        self.assertEqual(len(ring.messages), 24)
        self.assertEqual(
            sorted((m.source, m.to) for m in ring.messages if m.step == 1), [(0, 1), (1, 2), (2, 3), (3, 0)]
        )
        self.assertEqual(str(ring.steps[0][1]), "output[2] = input[2] op message from 3")

    def test_parameters_root_and_model_are_taken(self):
        tree = pytutti.plan("broadcast", "tree:3*2", 5, root=2, bytes="4M", latency=0, bandwidth=0.5)
        self.assertEqual((tree.name, tree.root, tree.pipeline, tree.blocks), ("tree:3*2", 2, 2, 10))
        self.assertEqual({type(step) for step in tree.steps[2]}, {Send})
        other = tree.at(bytes="8M", latency=0, bandwidth=0.5)
        self.assertAlmostEqual(other.cost.seconds, 2 * tree.cost.seconds)
        self.assertEqual(other.steps, tree.steps)

    def test_without_a_name_the_tuning_table_chooses(self):
        large, small = (pytutti.plan("broadcast", ranks=8, bytes=size) for size in ("64M", 8))
        self.assertNotEqual(large.steps, small.steps)
        self.assertIn(large.name.split("*")[0].split(":")[0], pytutti.algorithms("broadcast"))
        self.assertEqual(large.at(bytes=8).steps, large.steps)
        large.save(self.folder / "large.plan")
        self.assertEqual(pytutti.Plan.load(self.folder / "large.plan").steps, large.steps)

    def test_programs_of_msccl_are_loaded(self):
        try:
            grid = pytutti.Plan.load(ROOT / "examples/plans/grid_2x4.xml").check()
        except PlanError as error:
            self.assertIn("built without pugixml", str(error))
            self.skipTest(str(error))
        self.assertEqual((grid.name, grid.ranks, grid.cost.sent), ("grid_2x4", 8, 1.75))
        (self.folder / "hurt.xml").write_text("<algo/>")
        with self.assertRaisesRegex(PlanError, "^hurt.xml:1: <algo>: it has no coll"):
            pytutti.Plan.load(self.folder / "hurt.xml")

    def test_what_does_not_exist_is_named_with_what_does(self):
        with self.assertRaisesRegex(PlanError, 'no algorithm "rign".*Did you mean "ring"'):
            pytutti.plan("all_reduce", "rign")
        with self.assertRaisesRegex(PlanError, 'no collective "reduce_all"'):
            pytutti.plan("reduce_all")
        with self.assertRaisesRegex(PlanError, "--root 4 is outside 0 to 3"):
            pytutti.plan("broadcast", ranks=4, root=4)
        with self.assertRaises(FileNotFoundError):
            pytutti.Plan.load(self.folder / "none.plan")

    def test_it_is_drawn(self):
        picture = pytutti.plan("all_reduce", "ring", 4).draw()
        self.assertEqual(xml.fromstring(picture).tag, "{http://www.w3.org/2000/svg}svg")
        self.assertEqual(picture._repr_svg_(), picture)
        self.assertNotEqual(pytutti.plan("all_reduce", "ring", 4).draw(step=2), picture)
        both = xml.fromstring(pytutti.side_by_side(picture, pytutti.plan("all_reduce", "tree", 4).draw()))
        inner = [one for one in both if one.tag.endswith("svg")]
        self.assertEqual([one.get("x") for one in inner], ["0", "480"])
        large = pytutti.plan("all_reduce", "ring", 64)
        with self.assertRaisesRegex(PlanError, "too many for a picture"):
            large.draw()
        self.assertIsNone(large._repr_svg_())

    def test_it_is_simulated(self):
        ring, tree = pytutti.plan("all_reduce", "ring", 16).simulate([8, "64M"], beside="tree:4")[:2]
        self.assertEqual((ring.algorithm, ring.ranks, ring.bytes, tree.algorithm), ("ring", 16, 8, "tree:4"))
        self.assertGreater(ring.seconds, tree.seconds)
        with self.assertRaisesRegex(PlanError, "none.net"):
            pytutti.plan("all_reduce", "ring", 4).simulate(network="none.net")


class Own(Plans):
    def test_a_ring_of_ones_own_is_the_one_of_the_catalogue(self):
        for ranks in range(2, 9):
            own, known = own_ring(ranks).check(), pytutti.plan("all_reduce", "ring", ranks)
            self.assertEqual((own.name, own.cost, own.bound), ("own_ring", known.cost, known.bound))
            self.assertEqual(own.steps, known.steps)
            times = own.simulate([8, "1M"], beside="ring")
            self.assertEqual([time.seconds for time in times[0::2]], [time.seconds for time in times[1::2]])

    def test_what_waits_for_what_is_derived(self):
        self.assertEqual([step.after for step in own_ring(3).steps[0]], [(), (), (1,), (), (3,), (0,), (5,), (2,)])

    def test_scratch_slices_and_roots(self):
        for ranks in range(1, 7):
            for root in range(ranks):
                star = own_star(ranks, root=root, pipeline=2).check()
                self.assertEqual((star.root, star.pipeline), (root, 2))
                scratch = [len(like) for like in star.scratch]
                self.assertEqual(scratch.pop(root), 2 * ranks * ranks)  # a vector from each of the others, and the sum
                self.assertEqual(scratch, [0] * (ranks - 1))
        self.assertIn("rank-order", own_star(3).text)
        three = own_star(3).steps[0]
        self.assertEqual([type(step) for step in three], [Recv, Recv, Copy, Reduce, Reduce, Copy])

    def test_it_comes_back_from_its_file(self):
        plan = own_ring(5)
        plan.save(self.folder / "own.plan")
        back = pytutti.Plan.load(self.folder / "own.plan")
        self.assertEqual((back.name, back.steps, back.text), (plan.name, plan.steps, plan.text))

    def test_every_catalogue_plan_can_be_written_by_hand(self):
        """Without `after`, the waits that are derived are those that the catalogue has."""

        def rewritten(plan):
            def write(p):
                for like in plan.scratch[p.rank]:
                    p.scratch(p.input[like])
                for step in plan.steps[p.rank]:
                    operands = [value for name, value in vars(step).items() if name != "after"]
                    getattr(p, VERBS[type(step)])(*operands)

            return pytutti.algorithm(plan.collective, "by_hand", equal_parts=plan.name == "bruck")(write)

        for collective, known in pytutti.algorithms().items():
            for name in known:
                with self.subTest(collective=collective, name=name):
                    plan = pytutti.plan(collective, name, 6)
                    by_hand = rewritten(plan)(6, pipeline=plan.pipeline).check()
                    self.assertEqual(by_hand.steps, plan.steps)

    def test_waits_may_be_added_or_all_be_given(self):
        def swap(p):
            sent = p.send(p.rank + 1, p.input[p.rank])
            p.recv(p.rank + 1, p.output[p.rank + 1], after=[sent])
            p.copy(p.output[p.rank], p.input[p.rank], after=[sent])

        derived = pytutti.algorithm("all_gather")(swap)(2).check()
        given = pytutti.algorithm("all_gather", derive_waits=False)(swap)(2).check()
        self.assertEqual([[step.after for step in one.steps[0]] for one in (derived, given)], [[(), (0,), (0,)]] * 2)


class Wrong(Plans):
    """Each is refused with the checker's sentence, which names the line that wrote the step."""

    def refused(self, write, *words, collective="all_reduce", ranks=4, **options):
        plan = pytutti.algorithm(collective, **options)(write)(ranks)
        self.assertIsNone(plan.cost)
        for use in (
            plan.check,
            plan.draw,
            plan.simulate,
            lambda: plan.text,
            lambda: plan.save(self.folder / "no.plan"),
        ):
            with self.assertRaises(PlanError) as caught:
                use()
            for word in words:
                self.assertRegex(str(caught.exception), word)
        self.assertEqual(caught.exception.problems, plan.problems)
        self.assertFalse((self.folder / "no.plan").exists())
        self.assertIn("wrong", repr(plan))

    def test_a_contribution_is_lost(self):
        def lost(p):
            p.send(p.rank + 1, p.input[:])
            p.recv(p.rank - 1, p.output[:])

        line = lost.__code__.co_firstlineno + 2
        self.refused(
            lost,
            "rank 0: ends with output.0. lacking rank",
            rf"in rank 0 step 1 in line {line} of lost \(recv from 1\)",
            ranks=2,
        )

    def test_a_contribution_counts_twice(self):
        def twice(p):
            p.send(p.rank + 1, p.input[:])
            p.send(p.rank + 1, p.input[:])
            p.recv_reduce(p.rank + 1, p.output[:], p.input[:])
            p.recv_reduce(p.rank + 1, p.output[:])

        line = twice.__code__.co_firstlineno + 4
        self.refused(
            twice,
            rf"rank 1 step 3 in line {line} of twice \(recv_reduce from 0\): counts rank 0 twice in output",
            ranks=2,
        )

    def test_nobody_receives(self):
        def shout(p):
            p.send(p.rank + 1, p.input[0])

        self.refused(shout, "sends a message that rank 1 never receives")

    def test_all_wait_for_each_other(self):
        def late(p):
            p.recv_reduce(p.rank + 1, p.output[:], p.input[:])
            p.send(p.rank + 1, p.input[:], after=[0])

        self.refused(late, "deadlock: waits forever", ranks=2)

    def test_two_steps_race(self):
        def race(p):
            p.send(p.rank + 1, p.input[p.rank])
            p.recv(p.rank + 1, p.output[p.rank + 1])
            p.copy(p.output[p.rank], p.input[p.rank])

        self.refused(
            race,
            r"races with step 2 in line \d+ of race \(copy\) for input.0.: neither waits for the other",
            collective="all_gather",
            ranks=2,
            derive_waits=False,
        )

    def test_a_claim_is_wrong(self):
        def as_they_come(p):
            if p.rank:
                p.send(0, p.input[:])
            else:
                p.recv_reduce(2, p.output[:], p.input[:])
                p.recv_reduce(1, p.output[:], p.output[:])

        pytutti.algorithm("reduce")(as_they_come)(3).check()
        self.refused(as_they_come, "rank order|before|order", collective="reduce", ranks=3, rank_order=True)

    def test_what_no_file_can_say_is_refused_when_it_is_made(self):
        def to_itself(p):
            p.send(p.rank + p.ranks, p.input[0])

        with self.assertRaisesRegex(
            PlanError,
            rf"^to_itself in line {to_itself.__code__.co_firstlineno + 1} of to_itself: "
            "a rank has no messages with itself",
        ):
            pytutti.algorithm("all_reduce")(to_itself)(4)
        with self.assertRaisesRegex(PlanError, "the operands of this copy differ in their number of blocks"):
            pytutti.algorithm("all_reduce", "own")(lambda p: p.copy(p.output[0:2], p.input[0]))(4)
        with self.assertRaisesRegex(PlanError, "the catalogue has an algorithm ring already"):
            pytutti.algorithm("all_reduce", "ring")(own_ring.write)(4)
        with self.assertRaisesRegex(PlanError, '"my ring" cannot name an algorithm'):
            pytutti.algorithm("all_reduce", "my ring")(own_ring.write)
        with self.assertRaisesRegex(IndexError, "input.4:9. are no blocks"):
            pytutti.algorithm("all_reduce", "own")(lambda p: p.send(1, p.input[4:9]))(4)


class Run(Plans):
    """The engine runs what was written here."""

    def run_own(self, plan, call):
        return threads(plan.ranks, call, plan_file=plan.save(self.folder / "own.plan"))

    def test_a_ring_of_ones_own_sums_as_numpy_does(self):
        for ranks in (2, 3, 4, 7):
            mine = [numpy.random.default_rng(rank).integers(-1000, 1000, 1003) for rank in range(ranks)]
            sums = self.run_own(own_ring(ranks), lambda comm: comm.all_reduce(mine[comm.rank], algorithm="own_ring"))
            for found in sums:
                numpy.testing.assert_array_equal(found, numpy.sum(mine, axis=0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
