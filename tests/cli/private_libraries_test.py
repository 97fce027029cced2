"""tutti bench --against the libraries that tools/peers/install installs: made up, and with TEST_RIVALS=all real ones."""

import json
import os
import pathlib
import unittest
import xml.etree.ElementTree

import harness
from harness import Case, run, tutti
from rival_stage import CALLS, LAUNCHER, Measuring, Stage, rivals_here, script

INSTALL = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/peers/install"


class Private(Stage):
    """Libraries that tools/peers/install would have installed."""

    def setUp(self):
        super().setUp()
        for name, launcher in (("impi", "mpiexec.hydra"), ("openmpi5", "mpirun"), ("torch-gloo", "python")):
            (self.folder / "peers" / name / "bin").mkdir(parents=True)
            script(self.folder / "peers" / name / "bin" / launcher, LAUNCHER)
        self.side("impi", time="1.0", slow="as-shipped")
        self.side("openmpi5", time="4.0")

    def bench(self, *words, rivals="impi,openmpi5", **options):
        return super().bench(*words, "--peers-dir", self.folder / "peers", rivals=rivals, **options)

    def test_each_library_and_the_best_of_all_are_summed_up_at_their_best_and_as_shipped(self):
        done = self.bench("broadcast", "-b", "64", "-e", "1K", "-f", "16", "--repetitions", "1", "--csv",
                          self.folder / "rows.csv", "--svg", self.folder / "a.svg", "-J", self.folder / "a.json")
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, "# impi is impi 1.0", r"shm, impi \(impi 1.0\) +2 +0.50 +0.50 +2 +2 +4.50 +4.50 +0 +broad",
                        r"shm, openmpi5 \(openmpi5 1.0\) +2 +2.00 +2.00 +0 +2 +2.00 +2.00 +0 +broadcast, 2 ranks, ",
                        r"shm, the best of all +2 +0.50 +0.50 +2 +2 +2.00 +2.00 +0 ")
        libraries = json.loads((self.folder / "a.json").read_text())["libraries"]
        self.assertEqual([(one["library"], one["version"], one["best"]["geometric_mean"], one["best"]["below_1"])
                          for one in libraries], [("impi", "impi 1.0", 0.5, 2), ("openmpi5", "openmpi5 1.0", 2, 0),
                                                  ("best", None, 0.5, 2)])
        self.assertEqual(libraries[0]["as_shipped"]["worst"], 4.5)
        picture = xml.etree.ElementTree.parse(self.folder / "a.svg").getroot()
        captions = [text.text for text in picture.findall("{*}text")]
        self.assertRegex(captions.pop(-2), "^the processor is ")
        self.assertEqual(captions, ["Time of each library over tutti's:",
                                    "shm, impi: 0.50 in the mean, worst 0.50, below 1 2 of 2; as shipped 4.50",
                                    "shm, openmpi5: 2.00 in the mean, worst 2.00, below 1 0 of 2; as shipped 2.00",
                                    "shm, best: 0.50 in the mean, worst 0.50, below 1 2 of 2; as shipped 2.00",
                                    "impi is impi 1.0", "openmpi5 is openmpi5 1.0", "tutti is self 1.0"])
        self.assertEqual({(row["side"], row["setting"]) for row in self.rows() if row["side"] == "impi"},
                         {("impi", name) for name in ("shm", "shm+clx_avx512", "shm+skx_avx512", "shm+bdw_avx2",
                                                      "as-shipped")})
        summary = tutti("bench", "--summary", "broadcast", "-b", "64", "-e", "1K", "-f", "16", "--csv", self.folder / "rows.csv")
        self.assertSays(summary.out, r"shm, impi \(impi 1.0\) +2 +0.50 ")

    def test_what_is_not_installed_names_the_command_that_installs_it(self):
        done = self.bench("broadcast", rivals="impi,mpich5")
        self.assertEqual(done.code, 5, done)
        self.assertSays(done.err, "mpich5 is not installed: .*tools/peers/install .*mpich5; --peers-dir")
        (self.folder / "peers/impi/bin/mpiexec.hydra").unlink()
        done = self.bench("broadcast", rivals="impi")
        self.assertEqual(done.code, 5, done)
        self.assertSays(done.err, "there is no .*peers/impi/bin/mpiexec.hydra. .*tools/peers/install ")
        self.assertFalse((self.folder / "started").exists())

    def test_a_broken_library_is_left_out_and_the_others_are_compared(self):
        self.side("impi", version="echo no fabric today >&2; exit 3")
        words = ["broadcast", "-b", "64", "-e", "64", "--repetitions", "1"]
        done = self.bench(*words)
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, "impi is left out: it does not tell its version: exit code 3: no fabric today",
                        r"64 B +single +2.00 +4.00 +1.00 +2.00")
        done = self.bench(*words, rivals="impi")
        self.assertEqual(done.code, 5, done)
        self.assertSays(done.err, "no library is left")

    def test_a_file_takes_no_rows_of_another_version(self):
        words = ["broadcast", "-b", "64", "-e", "64", "--repetitions", "1", "--csv", self.folder / "rows.csv"]
        self.assertEqual(self.bench(*words).code, 0)
        before = len(self.started())
        self.side("impi", version="echo impi 2.0")
        done = self.bench(*words)
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, "rows of impi that is impi 1.0, but the one here is impi 2.0; give --csv another file")
        self.assertEqual(len(self.started()), before)

    def test_who_hangs_is_quoted(self):
        patience = 10 if harness.is_sanitized() else 5
        self.side("impi", before='echo "waiting for a friend" >&2; sleep 600')
        done = self.bench("scatter", "-b", "64", "-e", "64", "--repetitions", "1", "-T", patience)
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, r"64 B +single +2.00 +x +4.00 +1.00 .*impi: killed after \d+ s; its last output: waiting "
                        "for a friend")

    def test_torch_is_measured_over_gloo_and_over_tutti_where_that_is_installed(self):
        (self.folder / "peers/torch-gloo/bin/python").unlink()
        script(self.folder / "peers/torch-gloo/bin/python", '#!/bin/sh\nexec "$@"\n')
        self.side("torch-gloo", time="80.0", slow="tutti")
        words = ["broadcast", "-b", "64", "-e", "64", "--repetitions", "1"]
        for transport in ("tcp", "shm"):
            done = self.bench(*words, "--transport", transport, rivals="torch-gloo")
            self.assertEqual(done.code, 0, done)
            self.assertSays(done.out, "torch-tutti is torch-gloo 1.0", r"64 B +single +2.00 +9.00 +80.0 +1.00 +8.89 ")
            self.assertEqual("torch-gloo has no shared memory: with --transport shm it uses TCP" in done.out, transport == "shm", done)
        self.side("torch-gloo", time="80.0", version='[ "$2" != tutti ] || { echo "No module pytutti" >&2; exit 1; }; echo torch')
        done = self.bench(*words, rivals="torch-gloo")
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, "torch-tutti is left out: .*No module pytutti", r"64 B +single +2.00 +80.0 +1.00 +40.00 ")


    def test_a_library_that_takes_no_part_is_not_asked_for_its_version(self):
        (self.folder / "peers/torch-gloo/bin/python").unlink()
        script(self.folder / "peers/torch-gloo/bin/python", '#!/bin/sh\nexec "$@"\n')
        self.side("torch-gloo", version=f"touch {self.folder}/asked; echo torch")
        for call, asked in (("scan", False), ("broadcast", True)):
            done = self.bench(call, "--transport", "tcp", "-b", "64", "-e", "64", "--repetitions", "1",
                              rivals="openmpi5,torch-gloo")
            self.assertEqual(done.code, 0, done)
            self.assertEqual(((self.folder / "asked").exists(), "torch-gloo is torch" in done.out), (asked, asked), done)
            self.assertEqual("torch-gloo has no scan and is left out" in done.out, not asked, done)


class Install(Case):
    """tools/peers/install, as far as it goes without a network."""

    def test_it_says_what_it_would_do_and_what_it_does_not_know(self):
        for words, says in (([], "which library"), (["impl"], 'no library "impl"; there are impi '),
                            (["--build"], "--build needs a folder"), (["--dry"], 'no option "--dry"')):
            done = run(INSTALL, *words)
            self.assertEqual(done.code, 2, done)
            self.assertSays(done.err, says)
        done = run(INSTALL, "--dry-run", "--no-install", "--build", self.folder, "mpich5")
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, f"{self.folder}/ is not configured .*tools/peers/install --no-install --build")

    def test_it_asks_only_for_what_the_named_libraries_need(self):
        script(self.folder / "python3", '#!/bin/sh\ncase $* in *Python.h*) exit 1 ;; esac\n')
        for name, asks in (("impi", False), ("mpich5", False), ("torch-gloo", False), ("pytutti", True), ("all", True)):
            done = self.install("--dry-run", name)
            self.assertEqual("missing: python3-dev" in done.out, asks, done)
        script(self.folder / "python3", "#!/bin/sh\nexit 1\n")
        self.assertSays(self.install("--dry-run", "mpich5").out, "missing: python3-venv\n")

    def test_a_build_without_the_comparison_is_named_with_the_remedy(self):
        (self.folder / "build.ninja").write_text("")
        script(self.folder / "meson", "#!/bin/sh\n")
        for has_target in (True, False):
            script(self.folder / "ninja", f'#!/bin/sh\ncase $* in *"-t query"*) {"true" if has_target else "false"} ;; esac\n')
            done = self.install("--no-install", "-j", "2", "mpich5")
            self.assertEqual(done.code, 0 if has_target else 3, done)
            self.assertEqual(f"+ ninja -C {self.folder} -j 2 tutti rivals" in done.out, has_target, done)
            self.assertEqual(f"meson configure {self.folder} -Drivals=auto" in done.out, not has_target, done)

    def install(self, *words):
        """With the programs of this test's folder first."""
        return run(INSTALL, "--build", self.folder, *words, env={"PATH": f"{self.folder}:{os.environ['PATH']}"})


@unittest.skipUnless(os.environ.get("TEST_RIVALS") == "all", "takes minutes: TEST_RIVALS=all")
class Real(Measuring):
    """Those that tools/peers/install installed."""

    def need(self, *names):
        peers = pathlib.Path(harness.PROGRAM).resolve().parent.parent / "build-peers"
        launchers = {"impi": "mpiexec.hydra", "openmpi5": "mpirun", "mpich5": "mpiexec", "torch-gloo": "python"}
        self.rivals = rivals_here({name: str(peers / name / "bin" / launchers[name]) for name in names})
        if not self.rivals:
            self.skipTest(f"tools/peers/install {' '.join(names)} was not run")

    def check_every_call(self, *words):
        rows = self.compare("--grid", "-g", "2", "-b", "4", "-e", "1K", *words, limit=280)
        for side in ["tutti", "limit", *self.rivals]:
            self.assertEqual({row["collective"] for row in rows if row["side"] == side}, CALLS, side)
        for rival in self.rivals:
            self.assertIn("as-shipped", {row["setting"] for row in rows if row["side"] == rival})

    def test_every_call_in_shared_memory_at_each_setting(self):
        self.need("impi", "openmpi5", "mpich5")
        self.check_every_call("--transport", "shm")

    def test_every_call_of_torch_distributed(self):
        self.need("torch-gloo")
        self.check_every_call("--transport", "tcp")

    def test_more_ranks_than_cores_over_tcp(self):
        self.need("openmpi5", "mpich5")
        rows = self.compare("all_reduce", "-g", "4", "-b", "4K", "-e", "4K", "--transport", "tcp")
        self.assertEqual({row["side"] for row in rows}, {"tutti", "limit", *self.rivals})


if __name__ == "__main__":
    harness.main()
