"""Two hosts for the price of one: network namespaces that only a pair of virtual cables joins.

Ranks of one namespace talk through shared memory, ranks of different ones only through TCP, and the cable can be cut.

    netns_test.py TUTTI JOIN        exit code 77 and a reason when this process may not make network namespaces
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

import harness
import namespaces
from harness import Case, Finished, start
from namespaces import ip
from sockets import tcp_listeners, unix_listeners

NAMES = [f"tutti-test-{os.getpid()}-{side}" for side in "ab"]
CABLES = [f"tt{os.getpid() % 1000000}{side}" for side in "ab"]
ADDRESSES = ["10.213.77.1", "10.213.77.2"]
SECRET = "known on both of these hosts"


def make_hosts():
    for name in NAMES:
        ip("netns", "add", name)
    ip("link", "add", CABLES[0], "netns", NAMES[0], "type", "veth", "peer", "name", CABLES[1], "netns", NAMES[1])
    for name, cable, address in zip(NAMES, CABLES, ADDRESSES):
        ip("-n", name, "address", "add", f"{address}/24", "dev", cable)
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "link", "set", cable, "up")


class TwoHosts(Case):
    def setUp(self):
        super().setUp()
        self.addCleanup(namespaces.remove, NAMES)
        make_hosts()

    def start_node(self, node, *words, options=(), host=ADDRESSES[0], **variables):
        return start("ip", "netns", "exec", NAMES[node], harness.PROGRAM, "run", "-n", "2", "--nnodes", "2",
                     "--node-rank", node, "--rdzv-endpoint", f"{host}:29411", *options, harness.JOIN, *words,
                     env={"TUTTI_SECRET": SECRET} | variables)

    def finish(self, nodes, limit=60):
        return [Finished(node, limit) for node in nodes]

    def test_a_trace_of_two_hosts_has_one_clock(self):
        file = self.folder / "t.json"
        nodes = [self.start_node(node, "--algorithm", "ring", TUTTI_TRACE_FILE=str(file)) for node in (0, 1)]
        for done in self.finish(nodes):
            self.assertEqual(done.code, 0, done)
        events = json.loads(file.read_text())["traceEvents"]
        ranks = {e["pid"]: e["args"] for e in events if e["name"] == "tutti_rank"}
        self.assertEqual([ranks[r]["uncertainty_ns"] for r in (0, 1)], [0, 0])
        for rank in (2, 3):  # two names of one machine: in truth there is no offset
            self.assertEqual(ranks[rank]["clock_of_rank"], 0)
            self.assertGreater(ranks[rank]["uncertainty_ns"], 0)
            self.assertLess(ranks[rank]["uncertainty_ns"], 50_000_000)
            self.assertLessEqual(abs(ranks[rank]["offset_ns"]), ranks[rank]["uncertainty_ns"])
        # An offset that was measured may be 0 by chance, but hardly two of them.
        self.assertNotEqual([ranks[r]["offset_ns"] for r in (2, 3)], [0, 0])
        starts = {e["id"]: e for e in events if e["ph"] == "s"}
        ends = {e["id"]: e for e in events if e["ph"] == "f"}
        self.assertEqual(len(starts) + len(ends), sum(e["ph"] in "sf" for e in events))  # no number is used twice
        self.assertEqual(set(starts), set(ends))
        across = 0
        for number, first in starts.items():
            last, said = ends[number], first["args"]
            self.assertEqual((first["pid"], last["pid"], last["args"]["received"]), (said["from"], said["to"], said["bytes"]))
            across += first["pid"] // 2 != last["pid"] // 2
        self.assertGreater(across, 0)

    def test_tcp_across_and_shared_memory_inside(self):
        for count in ("0", "1", "1000", "1000003"):
            with self.subTest(count=count):
                done = self.finish([self.start_node(n, "--count", count, "--transports") for n in range(2)])
                for node, one in enumerate(done):
                    self.assertEqual(one.code, 0, done)
                    first, second = 2 * node, 2 * node + 1
                    here = {first: "self shm", second: "shm self"}
                    for rank in (first, second):
                        self.assertIn(f"[{rank}] sum {0 if count == '0' else 10}", one.lines, done)
                        kinds = f"{here[rank]} tcp tcp" if node == 0 else f"tcp tcp {here[rank]}"
                        self.assertIn(f"[{rank}] transports {kinds}", one.lines, done)

    def test_every_algorithm_gives_the_right_sum(self):
        listed = harness.tutti("plan", "--list", "all_reduce").out
        self.assertIn("ring", listed)
        for algorithm in ("ring", "tree", "double_binary_tree", "circulant", "doubling", "direct", "direct_two_shot",
                          "chain", "hierarchical", "rails", "tree_of_chains", "all_pairs"):
            with self.subTest(algorithm=algorithm):
                done = self.finish([self.start_node(n, "--count", "70001", "--algorithm", algorithm) for n in range(2)])
                self.assertEqual([line for one in done for line in sorted(one.lines)],
                                 [f"[{rank}] sum 10" for rank in range(4)], done)

    def test_what_crosses_between_hosts_decides(self):
        # Four ranks on two hosts exchange one vector between them; in a ring it would be one and a half.
        for transport in ("", "tcp"):
            tell = {"TUTTI_DEBUG": "INFO", "TUTTI_DEBUG_SUBSYS": "TUNE"}
            nodes = [self.start_node(n, "--count", "1000003", TUTTI_TRANSPORT=transport, **tell) for n in range(2)]
            for one in self.finish(nodes):
                self.assertEqual(one.code, 0, one)
                self.assertSays(one.err, r"all_reduce of 4000012 bytes over hosts among 4 ranks: rails:2\*4\n")

    def test_ranks_of_two_hosts_listen_on_a_port_each(self):
        nodes = [self.start_node(n, "--repeat") for n in range(2)]
        for node in nodes:
            for _ in range(2):
                self.assertRegex(node.stdout.readline(), r"\[\d\] sum 10")
        ranks = [pid for pid in harness.processes_with(self.mark)
                 if b"TUTTI_RANK=" in pathlib.Path(f"/proc/{pid}/environ").read_bytes()]
        self.assertEqual(len(ranks), 4)
        for pid in ranks:
            self.assertRegex(tcp_listeners(pid)[0], r"^10\.213\.77\.[12]:")
            self.assertEqual((len(tcp_listeners(pid)), len(unix_listeners(pid))), (1, 1))
        for node in nodes:
            node.terminate()
        self.finish(nodes)

    def test_without_shared_memory_everything_goes_over_tcp(self):
        done = self.finish([self.start_node(n, "--transports", TUTTI_TRANSPORT="tcp") for n in range(2)])
        self.assertIn("[3] transports tcp tcp tcp self", done[1].lines, done)

    def test_connections_that_stay_on_this_machine_are_not_paced(self):
        available = pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
        if "cubic" not in available or "reno" not in available:
            self.skipTest("this kernel has no two congestion controls to choose from")
        for name in NAMES:
            subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno"],
                           check=True)
        for wish, found in ({}, "cubic"), ({"TUTTI_CONGESTION": "reno"}, "reno"):
            with self.subTest(wish=wish):
                done = self.finish([self.start_node(n, "--algorithm", "ring", "--count", "1000003", "--congestion",
                                                    TUTTI_TRANSPORT="tcp", **wish) for n in range(2)])
                for rank in range(4):
                    self.assertIn(f"[{rank}] congestion {found}", done[rank // 2].lines, done)

    def test_ranks_that_may_only_share_memory_are_told_that_they_cannot_reach_each_other(self):
        done = self.finish([self.start_node(n, TUTTI_TRANSPORT="shm", TUTTI_TIMEOUT="5") for n in range(2)])
        for one in done:
            self.assertEqual(one.code, 1, done)
        self.assertSays(done[0].err + done[1].err, "Allow tcp in the option `transport`, or in TUTTI_TRANSPORT")

    def test_without_a_secret_nothing_starts_unless_that_is_wanted(self):
        for one in self.finish([self.start_node(n, TUTTI_SECRET=None) for n in range(2)]):
            self.assertEqual(one.code, 6, one)
            self.assertSays(one.err, f"a store at {ADDRESSES[0]}:29411 could be read and changed by everybody",
                            "TUTTI_SECRET_FILE", "--insecure")
        for how in ({"options": ["--insecure"]}, {"TUTTI_INSECURE": "1"}):
            done = self.finish([self.start_node(n, TUTTI_SECRET=None, **how) for n in range(2)])
            self.assertEqual([one.code for one in done], [0, 0], done)
            self.assertSays(done[0].err, f"everybody who can reach {ADDRESSES[0]}:29411 can join this job")

    def test_a_node_with_another_secret_is_refused(self):
        # Node 1 first: it must find the store of node 0, and must not be let in.
        done = self.finish([self.start_node(n, TUTTI_SECRET=SECRET + "!" * n, TUTTI_TIMEOUT="5") for n in (1, 0)])
        self.assertNotEqual(done[0].code, 0, done)
        self.assertSays(done[0].err, "did not prove that it knows this job's secret")
        self.assertNotIn(SECRET, done[0].err + done[1].err)
        self.assertNotEqual(done[1].code, 0, done)

    def start_rank(self, rank, **variables):
        """As torchrun does: the store is the launcher's, and knows nothing of secrets."""
        return start("ip", "netns", "exec", NAMES[rank], harness.JOIN, "--transports",
                     env={"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29412",
                          "TORCHELASTIC_USE_AGENT_STORE": "True"} | variables)

    def test_in_a_foreign_store_ranks_of_several_hosts_are_warned_once_or_have_a_secret(self):
        store = start("ip", "netns", "exec", NAMES[0], harness.PROGRAM, "store", "--host", ADDRESSES[0],
                      "--port", "29412", "--insecure")
        try:
            self.assertIn("29412", store.stdout.readline())
            for job, (secrets, warnings) in enumerate((((None, None), 1), ((SECRET, SECRET), 0))):
                done = self.finish([self.start_rank(r, TUTTI_SECRET=secrets[r], TUTTI_JOB=str(job)) for r in range(2)])
                self.assertEqual([one.code for one in done], [0, 0], done)
                said = done[0].err + done[1].err
                self.assertEqual(said.count("whoever can reach this launcher's store can join the job"), warnings, done)
                self.assertNotIn(SECRET, said)
            done = self.finish([self.start_rank(r, TUTTI_SECRET=[SECRET, None][r], TUTTI_JOB="3") for r in range(2)])
            for rank, one in enumerate(done):
                self.assertEqual(one.code, 1, done)
                self.assertSays(one.err, f"rank {1 - rank} was started with another secret than rank {rank}")
        finally:
            store.terminate()
            store.communicate(timeout=10)

    def test_a_cut_cable_ends_all_ranks_in_time(self):
        nodes = [self.start_node(n, "--repeat", "--count", "100003", TUTTI_TIMEOUT="5") for n in range(2)]
        for node in nodes:
            for _ in range(2):
                self.assertRegex(node.stdout.readline(), r"\[\d\] sum 10")
        ip("-n", NAMES[0], "link", "set", CABLES[0], "down")
        for node, one in enumerate(self.finish(nodes, 30)):
            self.assertGreater(one.code, 0, one)
            self.assertSays(one.err, rf"\[[{2 * node}{2 * node + 1}]\] (timeout|peer_lost): all_reduce.* rank \d")

    def test_all_ranks_of_a_lost_host_are_given_up_at_once_the_coordinator_too(self):
        hosts = (0, 0, 0, 1, 0, 1)
        ranks = [start("ip", "netns", "exec", NAMES[host], harness.JOIN, "--shrink",
                       env={"TUTTI_SECRET": SECRET, "TUTTI_RANK": str(rank), "TUTTI_SIZE": str(len(hosts)),
                            "TUTTI_RDZV": f"tcp://{ADDRESSES[0]}:29413", "TUTTI_LOST_AFTER": "2", "TUTTI_TIMEOUT": "60"})
                 for rank, host in enumerate(hosts)]
        for rank in ranks:
            self.assertRegex(rank.stdout.readline(), "sum 21")
        ip("-n", NAMES[0], "link", "set", CABLES[0], "down")
        begin = time.monotonic()
        ends = {}
        for rank, one in sorted(enumerate(ranks), key=lambda pair: -hosts[pair[0]]):
            done = Finished(one, 60)
            ends[rank] = time.monotonic() - begin
            self.assertEqual((done.code, done.lines), (0, [f"survivors {hosts.count(hosts[rank])}"]), done)
        # One after the other the three before the survivors would take two seconds each, and the one between two more.
        self.assertLess(max(ends[3], ends[5]), 6.5, ends)


    def test_a_link_that_a_firewall_has_forgotten_is_named_as_such(self):
        self.forget_links(tls=0)

    def test_so_is_an_encrypted_one(self):
        self.forget_links(tls=1)

    def forget_links(self, tls):
        log = self.folder / "log-%r"
        # In a ring, ranks 1 and 2 talk over a port of one of them. In other plans perhaps only rank 0 talks across.
        nodes = [self.start_node(n, "--repeat", TUTTI_ALGO="ring", TUTTI_TIMEOUT="25", TUTTI_LOST_AFTER="1",
                                 TUTTI_TLS=str(tls), TUTTI_DEBUG="INFO", TUTTI_DEBUG_SUBSYS="NET", TUTTI_DEBUG_FILE=str(log))
                 for n in range(2)]
        for node in nodes:
            for _ in range(2):
                self.assertRegex(node.stdout.readline(), r"\[\d\] sum 10")
        # Connections to rank 0, the coordinator, go on, so that no process can be taken for dead.
        for rank in range(1, 4):
            text = pathlib.Path(str(log).replace("%r", str(rank))).read_text()
            port = re.search(r"accepts connections at \S*:(\d+)", text).group(1)
            for side in ("dport", "sport"):
                ip("-n", NAMES[0], "rule", "add", "ipproto", "tcp", side, port, "blackhole")
        said = "".join(one.err for one in self.finish(nodes, 24))
        self.assertSays(said, r"peer_lost: .*[Tt]he connection between ranks \d and \d is broken: what rank \d sent to rank")
        self.assertNotIn("timeout:", said)

    def test_a_host_of_one_family_gets_in_or_is_told_which_variable_helps(self):
        """The name of host 0 has two addresses, of which host 1 can reach one."""
        name = f"tutti-host-{os.getpid()}"
        hosts = f"127.0.0.1 localhost\nfd00:77::1 {name}\n{ADDRESSES[0]} {name}\n"
        for space in NAMES:
            folder = pathlib.Path("/etc/netns") / space  # what `ip netns exec` shows as /etc
            folder.mkdir(parents=True)
            self.addCleanup(shutil.rmtree, folder)
            (folder / "hosts").write_text(hosts)
        ip("-n", NAMES[0], "address", "add", "fd00:77::1/64", "dev", CABLES[0], "nodad")
        ip("netns", "exec", NAMES[1], "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
        done = self.finish([self.start_node(n, host=name, TUTTI_TIMEOUT="60") for n in range(2)], 40)
        for one in done:
            self.assertNotEqual(one.code, 0, one)
            self.assertSays(one.err, r"rank 2 \(.*\) cannot reach rank 0 .*\[fd00:77::1\].*an address of IPv6",
                            "TUTTI_SOCKET_FAMILY=AF_INET for all")
        done = self.finish([self.start_node(n, host=name, TUTTI_SOCKET_FAMILY="AF_INET") for n in range(2)])
        self.assertEqual([one.code for one in done], [0, 0], done)


if __name__ == "__main__":
    namespaces.main(TwoHosts, make_hosts, NAMES)
