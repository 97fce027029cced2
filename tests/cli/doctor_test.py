"""tutti doctor: says what it found, what is wrong, and what to do; its exit code says whether jobs can run at all."""

import json
import pathlib
import re
import shutil
import subprocess
import unittest

import harness
from harness import Case, run, tutti

CHECKS = ["host", "boot id", "kernel", "instruction sets", "cores", "caches and NUMA",
          "memory", "open files", "locked memory",
          "TUTTI_ variables", "interfaces", "address for peers", "launcher", "TCP over loopback", "shared memory",
          "single copy", "waking a sleeper", "yielding the core", "GPUs", "CUDA toolkit"]


def may_make_name_spaces():
    return shutil.which("unshare") and subprocess.run(["unshare", "-n", "true"], capture_output=True,
                                                      check=False).returncode == 0


class Report(Case):
    def checks(self, done):
        return {check["what"]: check for check in json.loads(done.out)["checks"]}

    def test_every_check_is_one_line_and_what_is_not_ok_has_a_remedy(self):
        done = tutti("doctor", "-n", 1000)
        self.assertEqual(done.code, 0, done)
        found = []
        lines = iter(done.lines)
        for line in lines:
            level, what = re.fullmatch(r"(ok  |warn|FAIL)  ([^:]+): .+", line).groups()
            found.append(what)
            if level != "ok  ":
                self.assertRegex(next(lines), r"^      -> .+")
        self.assertEqual(found, CHECKS)

    def test_json_says_the_same(self):
        done = tutti("doctor", "--json")
        report = json.loads(done.out)
        self.assertEqual((done.code, report["good"]), (0, True), done)
        self.assertEqual([check["what"] for check in report["checks"]], CHECKS)
        for check in report["checks"]:
            self.assertEqual(check["remedy"] == "", check["level"] == "ok", check)

    def test_what_was_really_tried_works_here(self):
        checks = self.checks(tutti("doctor", "--json"))
        for what in ("TCP over loopback", "shared memory", "waking a sleeper"):
            self.assertEqual(checks[what]["level"], "ok", checks[what])
        self.assertSays(checks["TCP over loopback"]["found"], r"congestion control \w+ \(available: .*\w")
        self.assertSays(checks["waking a sleeper"]["found"], r"\d+\.\d us there and back")

    def test_faults_for_a_rank_of_a_job_are_no_fault_here(self):
        done = tutti("doctor", "--json", env={"TUTTI_INJECT": "kill:rank=2,op=5"})
        self.assertEqual(done.code, 0, done)
        done = tutti("doctor", "--json", env={"TUTTI_INJECT": "kill:rank=two,op=5"})
        self.assertEqual(done.code, 1, done)
        self.assertSays(self.checks(done)["TUTTI_ variables"]["found"], "TUTTI_INJECT")

    def test_more_ranks_than_cores_are_warned_of(self):
        cores = self.checks(tutti("doctor", "--json", "-n", 4096))["cores"]
        self.assertEqual(cores["level"], "warn", cores)
        self.assertSays(cores["remedy"], r"at most \d+ here")

    def test_too_few_descriptors_are_warned_of_with_the_command(self):
        done = run("sh", "-c", 'ulimit -n 100; exec "$0" doctor --json -n 200', harness.PROGRAM)
        files = self.checks(done)["open files"]
        self.assertEqual((files["level"], files["remedy"]), ("warn", "ulimit -n 1258"), done)
        self.assertSays(files["found"], r"limit 100 .* enough for 6 peers")
        done = run("sh", "-c", 'ulimit -n 100; exec "$0" doctor --json -n 200', harness.PROGRAM,
                   env={"TUTTI_TCP_CONNECTIONS": "4"})
        files = self.checks(done)["open files"]
        self.assertEqual(files["remedy"], f"ulimit -n {199 * 18 + 64}", done)

    def test_caches_and_nodes_are_those_of_the_system_or_of_a_file(self):
        def found(text):
            (self.folder / "topology").write_text(text)
            return self.checks(tutti("doctor", "--json", env={"TUTTI_TOPOLOGY": str(self.folder / "topology")}))[what]
        what = "caches and NUMA"
        self.assertSays(self.checks(tutti("doctor", "--json"))[what]["found"],
                        r"^last-level caches: (unknown|\d+ \(.+\)); NUMA nodes: (unknown|\d+ \(.+\))$")
        self.assertSays(found("core 0-4095 cache left node 7\n")["found"],
                        r"^last-level caches: 1 \(left\); NUMA nodes: 1 \(7\), as /.*topology says")
        bad = found("core 0-4095 left\n")
        self.assertEqual(bad["level"], "FAIL", bad)
        self.assertSays(bad["found"], r"topology:1: \"left\" is neither cache nor node")

    def test_what_every_job_would_stumble_over_fails(self):
        for variables, what, message in (
                ({"TUTTI_TIMEOT": "3"}, "TUTTI_ variables", 'Did you mean "TUTTI_TIMEOUT"'),
                ({"TUTTI_TIMEOUT": "x"}, "TUTTI_ variables", 'TUTTI_TIMEOUT is "x": not a positive number'),
                ({"TUTTI_ALGO": "rnig"}, "TUTTI_ variables", 'TUTTI_ALGO=rnig: .* Did you mean "ring"'),
                ({"TUTTI_TRANSPORT": "smh"}, "TUTTI_ variables", 'TUTTI_TRANSPORT is "smh": "smh" is not a transport'),
                ({"TUTTI_GPU_MODE": "foo"}, "TUTTI_ variables", 'TUTTI_GPU_MODE is "foo": not one of these'),
                ({"TUTTI_CONGESTION": "foo"}, "TUTTI_ variables", 'TUTTI_CONGESTION is "foo": not what this kernel'),
                ({"TUTTI_DEBUG_SUBSYS": "NETT"}, "TUTTI_ variables", '"NETT" is not a subsystem'),
                ({"TUTTI_DEBUG_FILE": "/tmp/%x"}, "TUTTI_ variables", '"%x" stands for nothing'),
                ({"TUTTI_TUNING_FILE": "/no/such"}, "TUTTI_ variables", 'TUTTI_TUNING_FILE is "/no/such": no such'),
                ({"TUTTI_PLAN_FILE": "/no/such"}, "TUTTI_ variables", 'TUTTI_PLAN_FILE is "/no/such": no such file'),
                ({"TUTTI_RDZV": "tcpx://a:1"}, "TUTTI_ variables", 'TUTTI_RDZV is "tcpx://a:1"; expected tcp://'),
                ({"TUTTI_RDZV": "tcp://a"}, "TUTTI_ variables", "TUTTI_RDZV"),
                ({"TUTTI_SECRET": "short"}, "TUTTI_ variables", "TUTTI_SECRET"),
                ({"TUTTI_TOPOLOGY": "/no/such"}, "caches and NUMA", 'TUTTI_TOPOLOGY is "/no/such": no such file'),
                ({"TUTTI_SOCKET_IFNAME": "=nosuch0"}, "address for peers", "no network interface matches"),
                ({"RANK": "0"}, "launcher", "RANK is set, but WORLD_SIZE is not")):
            with self.subTest(variables=variables):
                done = tutti("doctor", "--json", env=variables)
                self.assertEqual(done.code, 1, done)
                self.assertEqual(self.checks(done)[what]["level"], "FAIL", done)
                self.assertSays(self.checks(done)[what]["found"], message)

    def test_what_some_jobs_would_stumble_over_is_warned_of(self):
        for variables, what, message in (
                ({"TUTTI_RDZV": "tcp://nobody.invalid:1"}, "address for peers", r"on \w+; of the place .*nobody\.invalid"),
                ({"MASTER_ADDR": "nobody.invalid", "MASTER_PORT": "1"}, "address for peers", r"nobody\.invalid"),
                ({"TUTTI_RDZV": "tcp://127.0.0.1:1"}, "launcher", "TUTTI_RDZV is set, but no rank"),
                ({"TUTTI_TLS": "1"}, "TUTTI_ variables", "TUTTI_TLS=1 needs a secret")):
            with self.subTest(variables=variables):
                check = self.checks(tutti("doctor", "--json", env=variables))[what]
                self.assertEqual(check["level"], "warn", check)
                self.assertSays(check["found"], message)
        safe = self.checks(tutti("doctor", "--json", env={"TUTTI_TLS": "1", "TUTTI_SECRET": "a secret of 16 or more"}))
        self.assertEqual(safe["TUTTI_ variables"]["level"], "ok", safe)

    def test_the_route_is_that_to_the_place_where_ranks_meet(self):
        for variables in ({"TUTTI_RDZV": "tcp://127.0.0.1:1"}, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}):
            check = self.checks(tutti("doctor", "--json", env=variables))["address for peers"]
            self.assertEqual(check["found"], "127.0.0.1 on lo (the route to tcp://127.0.0.1:1)")

    def test_a_wrong_rendezvous_has_no_remedy_about_interfaces(self):
        checks = self.checks(tutti("doctor", "--json", env={"TUTTI_RDZV": "tcp://a"}))
        self.assertEqual(checks["address for peers"]["level"], "ok", checks)

    def test_what_a_launcher_lacks_is_not_contradicted_by_the_remedy(self):
        done = tutti("doctor", "--json", env={"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"})
        launcher = self.checks(done)["launcher"]
        self.assertSays(launcher["found"], "mpirun -x TUTTI_RDZV=tcp://host:port")
        self.assertSays(launcher["remedy"], "set the variables as this says")

    def test_an_empty_variable_counts_as_not_set(self):
        done = tutti("doctor", "--json", env={"RANK": "", "TUTTI_SOCKET_IFNAME": ""})
        self.assertEqual(self.checks(done)["launcher"]["level"], "ok", done)
        self.assertSays(self.checks(done)["launcher"]["found"], "none seen")
        self.assertEqual(self.checks(done)["address for peers"]["level"], "ok", done)

    @unittest.skipUnless(may_make_name_spaces(), "may not make name spaces")
    def test_a_host_without_loopback_fails(self):
        done = run("unshare", "-n", harness.PROGRAM, "doctor")
        self.assertEqual(done.code, 1, done)
        self.assertSays(done.out, r"\nFAIL  TCP over loopback: .*failed: .*\n      -> ip link set lo up")


class VariableTable(Case):
    def test_every_variable_is_listed_with_value_source_and_default(self):
        table = {row["name"]: row for row in json.loads(tutti("doctor", "--env", "--json").out)}
        self.assertIn("TUTTI_ALGO", table)
        for name, row in table.items():
            self.assertTrue(name.startswith("TUTTI_"), name)
            self.assertTrue(row["meaning"] and row["takes"] and row["default"], row)
        self.assertEqual((table["TUTTI_TIMEOUT"]["value"], table["TUTTI_TIMEOUT"]["source"]), ("20", "environment"))
        self.assertEqual((table["TUTTI_ISA"]["value"], table["TUTTI_ISA"]["source"]), (table["TUTTI_ISA"]["default"], "default"))

    def test_the_text_lists_the_same_variables(self):
        done = tutti("doctor", "--env")
        names = [row["name"] for row in json.loads(tutti("doctor", "--env", "--json").out)]
        self.assertEqual(re.findall(r"^(TUTTI_\w+) = ", done.out, re.M), names)
        self.assertSays(done.out, r"TUTTI_TIMEOUT = 20 \(from the environment; default: 300\)\n.*\n    takes: ",
                        r"TUTTI_SPIN = auto \(the default\)\n")

    def test_the_page_of_the_docs_is_the_same_table(self):
        root = pathlib.Path(__file__).resolve().parent.parent.parent
        written = run(root / "tools" / "environment_page", "--print", harness.PROGRAM).out
        self.assertEqual(written, (root / "docs" / "environment.md").read_text(),
                         "run tools/environment_page BUILD/tutti")

    def test_the_table_holds_the_variables_that_the_sources_read_and_no_others(self):
        root = pathlib.Path(__file__).resolve().parent.parent.parent
        read = set()
        for folder in ("lib", "transport", "rendezvous", "cli", "algorithms"):
            for path in (root / folder).rglob("*.cc"):
                if path.name != "environment.cc":
                    read |= set(re.findall(r'"(TUTTI_[A-Z_]*[A-Z])"', path.read_text()))
        self.assertEqual(read, {row["name"] for row in json.loads(tutti("doctor", "--env", "--json").out)})


if __name__ == "__main__":
    harness.main()
