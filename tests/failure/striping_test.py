"""Links over several connections and several networks: two namespaces that two pairs of virtual cables join.

What each cable has carried is counted, so nothing is timed.

    striping_test.py TUTTI JOIN        exit code 77 and a reason when this process may not make network namespaces
"""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

import harness
import namespaces
from harness import Case, Finished, start
from namespaces import ip

NAMES = [f"tutti-stripes-{os.getpid()}-{side}" for side in "ab"]
CABLES = [f"ts{os.getpid() % 100000}{place}" for place in "xy"]  # the same name on both sides
SECRET = "known on both of these hosts"
COUNT = 4_000_000  # floats that a rank sends and receives in each all_reduce


def make_hosts():
    for name in NAMES:
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    for place, cable in enumerate(CABLES):
        ip("link", "add", cable, "netns", NAMES[0], "type", "veth", "peer", "name", cable, "netns", NAMES[1])
        for side, name in enumerate(NAMES):
            ip("-n", name, "address", "add", f"10.213.{78 + place}.{side + 1}/24", "dev", cable)
            ip("-n", name, "link", "set", cable, "up")


def carried():
    """Bytes that each cable has carried from and to the first host."""
    files = [f"/sys/class/net/{cable}/statistics/{way}_bytes" for cable in CABLES for way in ("tx", "rx")]
    done = subprocess.run(["ip", "netns", "exec", NAMES[0], "cat", *files], capture_output=True, text=True, check=True)
    counts = [int(line) for line in done.stdout.split()]
    return [sum(counts[:2]), sum(counts[2:])]


class TwoCables(Case):
    def setUp(self):
        super().setUp()
        self.addCleanup(namespaces.remove, NAMES)
        make_hosts()

    def start_node(self, node, *words, **variables):
        return start("ip", "netns", "exec", NAMES[node], harness.PROGRAM, "run", "-n", "1", "--nnodes", "2",
                     "--node-rank", node, "--rdzv-endpoint", "10.213.78.1:29415", harness.JOIN, *words,
                     env={"TUTTI_SECRET": SECRET} | variables)

    def share_of_the_second_cable(self, *different, **variables):
        """Of the bytes of an all_reduce, whose result is checked; with variables that are different on each node."""
        before = carried()
        nodes = [self.start_node(node, "--count", str(COUNT), "--algorithm", "ring",
                                 **variables, **(different[node] if different else {})) for node in range(2)]
        self.said = ""
        for node in nodes:
            done = Finished(node, 60)
            self.assertEqual((done.code, done.lines), (0, [f"[{nodes.index(node)}] sum 3"]), done)
            self.said += done.err
        first, second = (after - b for after, b in zip(carried(), before))
        self.assertGreater(first + second, 8 * COUNT)  # each rank of two sends all of its elements once in a ring
        return second / (first + second)

    def test_connections_are_dealt_to_the_cables_that_are_named(self):
        both = ",".join(CABLES)
        for expected, variables in ((0, {}),
                                    (0, {"TUTTI_SOCKET_IFNAME": both}),
                                    (0, {"TUTTI_TCP_CONNECTIONS": "2"}),
                                    (1 / 2, {"TUTTI_TCP_CONNECTIONS": "2", "TUTTI_SOCKET_IFNAME": both}),
                                    (1 / 3, {"TUTTI_TCP_CONNECTIONS": "3", "TUTTI_SOCKET_IFNAME": both}),
                                    (1 / 2, {"TUTTI_TCP_CONNECTIONS": "2", "TUTTI_SOCKET_IFNAME": both,
                                             "TUTTI_TLS": "1"})):
            with self.subTest(variables=variables):
                self.assertAlmostEqual(self.share_of_the_second_cable(**variables), expected, delta=0.05)

    def test_a_rank_that_opens_one_connection_accepts_them_on_all_cables_that_it_names(self):
        # Either rank may be the first to connect, and decides then. It is almost always the lower one.
        shares = []
        while len(shares) < 5 and max(shares, default=0) < 0.45:
            shares.append(self.share_of_the_second_cable({"TUTTI_TCP_CONNECTIONS": "2"}, {},
                                                         TUTTI_SOCKET_IFNAME=",".join(CABLES)))
        self.assertAlmostEqual(shares[-1], 1 / 2, delta=0.05, msg=shares)

    def test_connections_use_only_the_cables_that_both_ranks_name_and_the_others_are_told(self):
        both = ",".join(CABLES)
        on_both, on_one = r"at 10\.213\.78\.{0}:\d+,10\.213\.79\.{0}:\d+", r"at 10\.213\.78\.{0}:\d+"
        told = r"rank 0 accepts connections {} and rank 1 \(host .*\) {}: a link uses no more"
        for names, complaint in (((both, CABLES[0]), told.format(on_both.format(1), on_one.format(2))),
                                 ((CABLES[0], both), told.format(on_one.format(1), on_both.format(2))),
                                 ((f"{CABLES[0]},absent",) * 2, "TUTTI_SOCKET_IFNAME names absent, where this host")):
            with self.subTest(names=names):
                share = self.share_of_the_second_cable(*({"TUTTI_SOCKET_IFNAME": of_node} for of_node in names),
                                                       TUTTI_TCP_CONNECTIONS="2")
                self.assertAlmostEqual(share, 0, delta=0.05)
                self.assertSays(self.said, complaint)

    def test_when_one_of_two_connections_breaks_both_ranks_name_each_other(self):
        # A launcher would end the other rank before it can say anything.
        nodes = [start("ip", "netns", "exec", NAMES[node], harness.JOIN, "--repeat", "--count", "1000003",
                       env={"TUTTI_RANK": str(node), "TUTTI_SIZE": "2", "TUTTI_RDZV": "tcp://10.213.78.1:29415",
                            "TUTTI_SECRET": SECRET, "TUTTI_TCP_CONNECTIONS": "2",
                            "TUTTI_SOCKET_IFNAME": ",".join(CABLES), "TUTTI_TIMEOUT": "25", "TUTTI_LOST_AFTER": "1"})
                 for node in range(2)]
        for node in nodes:
            self.assertRegex(node.stdout.readline(), "sum 3")
        # The failure detector uses the first cable, so that no process can be taken for dead.
        ip("-n", NAMES[0], "link", "set", CABLES[1], "down")
        for rank, done in enumerate([Finished(node, 24) for node in nodes]):
            with self.subTest(rank=rank):
                self.assertSays(done.err, r"peer_lost: .*[Tt]he connection between ranks (0 and 1|1 and 0) is broken: "
                                          r"what rank \d sent to rank")
                self.assertNotIn("timeout:", done.err)


if __name__ == "__main__":
    namespaces.main(TwoCables, make_hosts, NAMES)
