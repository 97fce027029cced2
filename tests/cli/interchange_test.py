"""tutti plan: what it writes for other programs."""

import collections
import re
import xml.etree.ElementTree as xml

import harness
from harness import Case, tutti

ALGORITHMS = [("all_reduce", "ring"), ("all_reduce", "tree:3*2"), ("all_reduce", "double_binary_tree"),
              ("all_reduce", "direct"), ("broadcast", "chain*3"), ("reduce", "all_pairs"), ("all_gather", "bruck"),
              ("reduce_scatter", "circulant"), ("scatter", "tree"), ("gather", "direct"), ("all_to_all", "pairwise"),
              ("barrier", "dissemination"), ("scan", "chain*3"), ("exclusive_scan", "circulant")]


class Goal:
    """A schedule, read as LogGOPSim's txt2bin reads it: one operation or dependency a line, labels known before."""

    OPERATION = re.compile(r"(\w+): (?:(send|recv) (\d+)b (?:to|from) (\d+) tag (\d+)|(calc) (\d+))$")
    WAIT = re.compile(r"(\w+) (requires|irequires) (\w+)$")

    def __init__(self, text):
        lines = [line for line in text.splitlines() if line]
        head = re.fullmatch(r"num_ranks (\d+)", lines[0])
        assert head, lines[0]
        self.ranks = int(head[1])
        self.operations = {}  # (rank, label) -> kind, bytes, peer, tag
        self.waits = []       # ((rank, label), (rank, label)): the first waits for the second
        rank = None
        begun = []
        for line in lines[1:]:
            if rank is None:
                match = re.fullmatch(r"rank (\d+) \{", line)
                assert match, line
                rank = int(match[1])
                begun.append(rank)
            elif line == "}":
                rank = None
            else:
                self.read(rank, line)
        assert rank is None and begun == list(range(self.ranks)), begun

    def read(self, rank, line):
        wait = self.WAIT.fullmatch(line)
        if wait:
            first, second = (rank, wait[1]), (rank, wait[3])
            assert first in self.operations and second in self.operations, line
            self.waits.append((first, second))
            return
        found = self.OPERATION.fullmatch(line)
        assert found, line
        assert (rank, found[1]) not in self.operations, line
        kind, size, peer, tag = found[2] or found[6], int(found[3] or found[7]), found[4], found[5]
        self.operations[rank, found[1]] = (kind, size, None if peer is None else int(peer),
                                           None if tag is None else int(tag))

    def messages(self):
        """(sender, receiver, tag) -> bytes on either side; a key twice is an ambiguous match."""
        sides = {"send": {}, "recv": {}}
        for (rank, _), (kind, size, peer, tag) in self.operations.items():
            if kind == "calc":
                continue
            key = (rank, peer, tag) if kind == "send" else (peer, rank, tag)
            assert key not in sides[kind], f"two {kind}s of {key}"
            sides[kind][key] = size
        return sides

    def is_acyclic(self):
        """With a message as an edge from its send to its receive: whether everything can be done."""
        after = collections.defaultdict(list)
        missing = collections.Counter()
        ends = collections.defaultdict(dict)
        for at, (kind, _, peer, tag) in self.operations.items():
            if kind != "calc":
                key = (at[0], peer, tag) if kind == "send" else (peer, at[0], tag)
                ends[key][kind] = at
        for later, earlier in self.waits + [(end["recv"], end["send"]) for end in ends.values()]:
            after[earlier].append(later)
            missing[later] += 1
        ready = [at for at in self.operations if not missing[at]]
        for at in ready:
            for later in after[at]:
                missing[later] -= 1
                if not missing[later]:
                    ready.append(later)
        return len(ready) == len(self.operations)


class WriteGoal(Case):
    def goal(self, *arguments):
        path = self.folder / "schedule.goal"
        done = tutti("plan", *arguments, "--goal", path)
        self.assertEqual(done.code, 0, done)
        return Goal(path.read_text())

    def test_messages_meet_and_nothing_waits_in_a_circle(self):
        self.assertEqual({collective for collective, _ in ALGORITHMS}, {*harness.collectives()})
        for collective, algorithm in ALGORITHMS:
            for ranks in (2, 5, 8, 13):
                with self.subTest(collective=collective, algorithm=algorithm, ranks=ranks):
                    goal = self.goal(collective, "--algo", algorithm, "-n", str(ranks), "--bytes", "1000003")
                    sides = goal.messages()
                    self.assertEqual(sides["send"], sides["recv"])
                    self.assertGreater(len(sides["send"]), 0)
                    self.assertTrue(goal.is_acyclic())

    def test_a_ring_of_four_sends_its_bytes_in_the_order_of_its_links(self):
        goal = self.goal("all_reduce", "--algo", "ring", "-n", "4", "--bytes", "4096")
        sends = [goal.messages()["send"][0, 1, tag] for tag in range(6)]
        self.assertEqual(sends, [1024] * 6)
        kinds = collections.Counter(kind for kind, *_ in goal.operations.values())
        self.assertEqual(kinds, {"send": 24, "recv": 24, "calc": 12})

    def test_a_barrier_carries_nothing(self):
        goal = self.goal("barrier", "--algo", "dissemination", "-n", "8")
        self.assertEqual(set(goal.messages()["send"].values()), {1})

    def test_reductions_take_the_time_that_was_said(self):
        text = tutti("plan", "all_reduce", "--algo", "ring", "-n", "2", "--bytes", "2K", "--goal", "-",
                     "--goal-calc", "2.5").out
        self.assertEqual(re.findall(r"calc (\d+)", text), ["2560", "2560"])


class WriteMsccl(Case):
    def test_the_file_has_what_the_runtime_asks_for(self):
        path = self.folder / "tree.xml"
        done = tutti("plan", "all_reduce", "--algo", "tree:3", "-n", "6", "--msccl", path)
        self.assertEqual(done.code, 0, done)
        algo = xml.parse(path).getroot()
        self.assertEqual((algo.tag, algo.get("coll"), algo.get("ngpus")), ("algo", "allreduce", "6"))
        for name in ("name", "proto", "nchannels", "nchunksperloop", "inplace", "outofplace", "minBytes", "maxBytes"):
            self.assertIsNotNone(algo.get(name), name)
        self.assertEqual([gpu.get("id") for gpu in algo], [str(rank) for rank in range(6)])
        for gpu in algo:
            self.assertEqual([tb.get("id") for tb in gpu], [str(i) for i in range(len(gpu))])
            self.check_waits(gpu)

    def check_waits(self, gpu):
        """Whoever is waited for says so; nobody else does."""
        steps = {(tb.get("id"), step.get("s")): step for tb in gpu for step in tb}
        waited = {(step.get("depid"), step.get("deps")) for step in steps.values()} - {("-1", "-1")}
        self.assertEqual(waited, {at for at, step in steps.items() if step.get("hasdep") == "1"})

    def test_what_msccl_cannot_say_is_refused(self):
        for collective in ("barrier", "scan"):
            done = tutti("plan", collective, "-n", "4", "--msccl", self.folder / "none.xml")
            self.assertEqual(done.code, 5, done)
            self.assertSays(done.err, f"MSCCL has no collective {collective}")
            self.assertFalse((self.folder / "none.xml").exists())

    def test_what_its_runtime_would_refuse_is_said(self):
        done = tutti("plan", "all_gather", "--algo", "ring", "-n", "300", "--msccl", self.folder / "ring.xml")
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.err, "will refuse .*ring.xml: gpu 0 thread block 0 has 299 steps, the runtime takes 256")


if __name__ == "__main__":
    harness.main()
