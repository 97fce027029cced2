"""The same program under launchers of others, each really run: mpirun, Slurm with two virtual nodes, torchrun.

    launchers_test.py TUTTI JOIN mpirun|slurm|torchrun      exit code 77 and a reason when the launcher is not here

torchrun is looked for in PATH; TESTED_TORCHRUN=/path/of/venv/bin/torchrun names another.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import harness
from harness import Case, Finished, free_port, run, start, wait_until

SKIP = 77
TORCHRUN = os.environ.get("TESTED_TORCHRUN") or shutil.which("torchrun") or ""


class Launched(Case):
    def assertSums(self, done, ranks, transports=None):
        """Every rank printed the right sum, and says how it reaches the others."""
        self.assertEqual(done.code, 0, done)
        expected = f"sum {ranks * (ranks + 1) // 2}"
        self.assertEqual(sum(line.endswith(expected) for line in done.lines), ranks, done)
        for line in done.lines:
            if "transports" not in line:
                continue
            kinds = line.split("transports")[1].split()
            self.assertEqual(kinds.count("self"), 1, done)
            self.assertLessEqual(set(kinds), transports or {"self", "shm"}, done)


class Mpirun(Launched):
    def mpirun(self, *words, env=None):
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return run("mpirun", "--oversubscribe", *words, env=root | (env or {}), limit=60)

    def test_ranks_of_one_host_need_nothing_else(self):
        for ranks in (1, 2, 5):
            with self.subTest(ranks=ranks):
                self.assertSums(self.mpirun("-n", ranks, harness.JOIN, "--transports"), ranks)

    def test_two_jobs_of_one_host_do_not_meet(self):
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        jobs = [start("mpirun", "--oversubscribe", "-n", n, harness.JOIN, env=root) for n in (2, 3)]
        for process, ranks in zip(jobs, (2, 3)):
            self.assertSums(Finished(process, 60), ranks)

    def test_an_address_may_be_given(self):
        port = free_port()
        self.assertSums(self.mpirun("-n", "3", "-x", "TUTTI_RDZV", harness.JOIN,
                                    env={"TUTTI_RDZV": f"tcp://127.0.0.1:{port}"}), 3)

    def test_a_failure_is_passed_on(self):
        done = self.mpirun("-n", "2", harness.JOIN, "--algorithm", "rnig")
        self.assertNotEqual(done.code, 0)
        self.assertSays(done.err, 'Did you mean "ring"')


class Torchrun(Launched):
    def torchrun(self, *words, program=None):
        return start(TORCHRUN, "--no-python", *words, program or harness.JOIN, "--transports")

    def test_ranks_join_the_store_of_the_agent(self):
        self.assertSums(Finished(self.torchrun("--standalone", "--nproc-per-node", "4"), 120), 4)

    def test_two_agents_with_a_fixed_master(self):
        port = free_port()
        agents = [self.torchrun("--nnodes", "2", "--node-rank", node, "--nproc-per-node", "2", "--master-addr",
                                "127.0.0.1", "--master-port", port) for node in range(2)]
        done = [Finished(agent, 120) for agent in agents]
        self.assertEqual([one.code for one in done], [0, 0], done)
        self.assertEqual(sum("sum 10" in line for one in done for line in one.lines), 4, done)

    def test_a_restart_does_not_read_what_the_first_attempt_left(self):
        witness = self.folder / "failed-once"
        script = self.folder / "program"
        script.write_text(f'#!/bin/sh\n"{os.path.abspath(harness.JOIN)}" || exit\n'
                          f'[ "$RANK" != 1 ] || [ -e {witness} ] || {{ touch {witness}; exit 3; }}\n')
        script.chmod(0o755)
        done = Finished(self.torchrun("--standalone", "--nproc-per-node", "2", "--max-restarts", "1",
                                      program=script), 120)
        self.assertEqual(done.code, 0, done)
        self.assertTrue(witness.exists())
        self.assertEqual(sum("sum 3" in line for line in done.lines), 4, done)

    def test_torch_programs_run_under_tutti_run(self):
        program = self.folder / "program.py"
        program.write_text("import torch, torch.distributed as d\n"
                           "d.init_process_group('gloo')\n"
                           "t = torch.full((3,), d.get_rank() + 1.0)\n"
                           "d.all_reduce(t)\n"
                           "print('torch', t[0].item())\n"
                           "d.destroy_process_group()\n")
        python = pathlib.Path(TORCHRUN).with_name("python")
        done = run(harness.PROGRAM, "run", "-n", "3", "--timeout", "110", python, program, limit=120)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(sorted(done.lines), [f"[{rank}] torch 6.0" for rank in range(3)], done)


class Cluster:
    """Slurm of our own in a temporary folder: munged, slurmctld and two slurmd that call themselves n0 and n1.

    It has a network namespace of its own, where both have an address that is not loopback's: ranks of several nodes
    rightly refuse to meet at one that is.
    """

    ADDRESS = "10.83.0.1"

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm-"))
        self.daemons = []
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self.network = f"tutti-slurm-{os.getpid()}"
        self.write_configuration()

    def within(self, *words):
        return ["nsenter", f"--net=/run/netns/{self.network}", *words]

    def make_network(self):
        subprocess.run(["ip", "netns", "add", self.network], check=True)
        for words in ("link add nodes type veth peer name other", f"address add {self.ADDRESS}/24 dev nodes",
                      "link set lo up", "link set nodes up", "link set other up"):
            subprocess.run(["ip", "-n", self.network, *words.split()], check=True)

    def write_configuration(self):
        folder, host = self.folder, socket.gethostname()
        control, first, second = (free_port() for _ in range(3))
        (folder / "key").write_bytes(os.urandom(128))
        (folder / "key").chmod(0o400)
        (folder / "state").mkdir()
        nodes = "".join(f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4\n"
                        for i, port in enumerate((first, second)))
        (folder / "slurm.conf").write_text(f"""
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmctldPort={control}
SlurmctldPidFile={folder}/ctl.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmdPidFile={folder}/d.%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=2
{nodes}PartitionName=all Nodes=n[0-1] Default=YES State=UP
""")

    def spawn(self, *words):
        with open(self.folder / f"{pathlib.Path(words[0]).name}-{len(self.daemons)}.log", "wb") as log:
            self.daemons.append(subprocess.Popen(
                self.within(*map(str, words)), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=os.environ | self.environment, start_new_session=True))

    def start(self):
        folder = self.folder
        self.make_network()
        self.spawn("munged", "--foreground", "--force", f"--key-file={folder}/key", f"--socket={folder}/munge.socket",
                   f"--pid-file={folder}/munge.pid", f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munge.log")
        if not wait_until((folder / "munge.socket").exists):
            raise RuntimeError("munged did not start: " + self.logs())
        self.spawn("slurmctld", "-D", "-f", folder / "slurm.conf")
        # A cluster's name service knows its nodes; here a view of /etc/hosts that only these daemons and their jobs have.
        hosts = pathlib.Path("/etc/hosts").read_text()
        (folder / "hosts").write_text(hosts + "".join(f"\n{self.ADDRESS} {node}\n" for node in ("n0", "n1")))
        for node in ("n0", "n1"):
            self.spawn("unshare", "--mount", "sh", "-c",
                       f"mount --bind {folder}/hosts /etc/hosts && exec slurmd -D -N {node} -f {folder}/slurm.conf")
        if not wait_until(self.is_ready, 20):
            raise RuntimeError("the nodes did not become idle: " + self.logs())

    def is_ready(self):
        states = subprocess.run(self.within("sinfo", "-h", "-N", "-o", "%T"), env=os.environ | self.environment,
                                capture_output=True, text=True, check=False).stdout.split()
        return states == ["idle", "idle"]

    def logs(self):
        return "\n".join(f"{p.name}: {p.read_text(errors='replace')[-1500:]}" for p in self.folder.glob("*.log"))

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        subprocess.run(["ip", "netns", "delete", self.network], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class Slurm(Launched):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def srun(self, *words, **options):
        secret = {"TUTTI_SECRET": "what several nodes need"}
        return run(*self.cluster.within("srun", *words), env=self.cluster.environment | secret, limit=60, **options)

    def test_ranks_of_one_node_and_of_two_find_each_other(self):
        for shape in (["-N1", "-n3"], ["-N2", "-n2"], ["-N2", "-n5"]):
            with self.subTest(shape=shape):
                done = self.srun(*shape, harness.JOIN, "--transports")
                self.assertSums(done, int(shape[1][2:]), {"self", "shm", "tcp"})

    def test_an_address_may_be_given(self):
        port = free_port()
        done = self.srun("-N2", "-n4", "--export", f"ALL,TUTTI_RDZV=tcp://127.0.0.1:{port}", harness.JOIN)
        self.assertSums(done, 4)

    def test_a_batch_script_without_srun_is_rank_0_of_1(self):
        script = self.folder / "job.sh"
        output = self.folder / "output"
        script.write_text(f"#!/bin/sh\nexec {os.path.abspath(harness.JOIN)}\n")
        done = run(*self.cluster.within("sbatch", "--wait", "-N2", "-n4", "-o", output, script),
                   env=self.cluster.environment, limit=60)
        self.assertEqual(done.code, 0, (done, output.read_text()))
        self.assertEqual(output.read_text(), "sum 1\n")

    def test_tutti_run_in_an_allocation(self):
        endpoint = f"127.0.0.1:{free_port()}"
        done = self.srun("-N2", "--ntasks-per-node=1", "sh", "-c",
                         f"{os.path.abspath(harness.PROGRAM)} run -n 2 --nnodes 2 --node-rank $SLURM_PROCID "
                         f"--rdzv-endpoint {endpoint} {os.path.abspath(harness.JOIN)}")
        self.assertSums(done, 4)

    def test_a_failing_rank_ends_the_others_and_the_code_is_passed_on(self):
        done = self.srun("-N1", "-n2", harness.JOIN, "--algorithm", "rnig")
        self.assertEqual(done.code, 1, done)
        self.assertSays(done.err, 'Did you mean "ring"')


def missing(which):
    """Why this launcher cannot be tested here, or nothing."""
    if which == "mpirun":
        return "" if shutil.which("mpirun") else "no mpirun (apt-get install openmpi-bin)"
    if which == "torchrun":
        return "" if TORCHRUN else "no torchrun in PATH or TESTED_TORCHRUN (pip install torch)"
    absent = [name for name in ("munged", "slurmctld", "slurmd", "srun", "unshare") if not shutil.which(name)]
    if absent:
        return f"no {', '.join(absent)} (apt-get install slurm-wlm)"
    return "" if os.geteuid() == 0 else "slurmd needs root"


def main():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    cases = {"mpirun": Mpirun, "torchrun": Torchrun, "slurm": Slurm}
    harness.PROGRAM, harness.JOIN, which = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
    reason = missing(which)
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIP)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(cases[which])
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())


if __name__ == "__main__":
    main()
