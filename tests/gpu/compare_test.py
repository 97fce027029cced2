#!/usr/bin/env python3
"""compare_test.py TUTTI FAKE_DRIVER_FOLDER KERNELS_ON_FAKE RIVALS_FOLDER CLASS: `tutti bench --on gpu --against ...` on the
fake driver, with libraries that are made up (MadeUp), with tutti's own side and the limit (Built), or NCCL (Nccl). Exit code
77 and a reason where the programs for it were not built."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import harness
from harness import Case, run, tutti
from rival_stage import LAUNCHER, Stage, script

harness.PROGRAM, DRIVER, KERNELS = sys.argv[1:4]
RIVALS, CLASS = pathlib.Path(sys.argv[4]), sys.argv[5]
POINT = ("-b", "1K", "-e", "1K", "--repetitions", "1")


class MadeUp(Stage):
    def setUp(self):
        super().setUp()
        for name in ("nccl", "torch-gloo"):
            (self.folder / "peers" / name / "bin").mkdir(parents=True)
            script(self.folder / "peers" / name / "bin/python", LAUNCHER)
        self.side("nccl", time="4.0", slow="as-shipped")
        self.side("torch-gloo", time="8.0", slow="one-shot")

    def bench(self, *words, rivals="torch-gloo,nccl,torch-symm", driver=DRIVER, **env):
        return tutti("bench", *words, "--against", rivals, "--rivals-dir", self.folder, "--on", "gpu", "--peers-dir",
                     self.folder / "peers", env=dict(LD_LIBRARY_PATH=driver, **env))

    def test_the_libraries_of_gpus_stand_beside_the_limit(self):
        done = self.bench("all_reduce", *POINT, "--csv", self.folder / "rows.csv")
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, r"# the GPU is fake GPU \(1 GPU\), driver: fake",
                        r"#collective +trans.* tutti +torch-tutti +torch-gloo +nccl +torch-symm +limit",
                        r"all_reduce +gpu +2 +1 KiB +single +2.00 +8.00 +8.00 +4.00 +8.00 +1.00 +2.00 +2.00")
        self.assertIn("# the GPU is fake GPU (1 GPU), driver: fake", (self.folder / "rows.csv").read_text())
        self.assertEqual({(row["transport"], row["side"], row["setting"]) for row in self.rows()},
                         {("gpu", "tutti", "plain"), ("gpu", "tutti", "windows"), ("gpu", "nccl", "few-blocks"),
                          ("gpu", "nccl", "as-shipped"), ("gpu", "torch-symm", "one-shot"),
                          ("gpu", "torch-symm", "two-shot"), ("gpu", "torch-gloo", "one-thread"),
                          ("gpu", "torch-gloo", "one-thread+bound"), ("gpu", "torch-gloo", "as-shipped"),
                          ("gpu", "torch-tutti", "tutti"), ("gpu", "torch-tutti", "tutti-free"), ("gpu", "limit", "model")})

    def test_rows_of_other_gpus_are_refused(self):
        words = ("all_reduce", *POINT, "--csv", self.folder / "rows.csv")
        self.assertEqual(self.bench(*words).code, 0)
        done = self.bench(*words, FAKE_CUDA_DEVICES="2")
        self.assertEqual(done.code, 6, done)
        self.assertSays(done.err, r"rows of the GPU that is fake GPU \(1 GPU\), driver: fake, but the one here is")

    def test_who_does_not_take_gpus_or_the_host_is_left_out_with_the_reason(self):
        done = self.bench("broadcast", *POINT, rivals="torch-symm,nccl")
        self.assertSays(done.out, "torch-symm has no broadcast and is left out there")
        done = super().bench("all_reduce", *POINT, "--peers-dir", self.folder / "peers", rivals="nccl")
        self.assertSays(done.err, r"nccl is left out: it is compared on memory of GPUs only \(--on gpu\)")

    def test_wrong_wishes_and_no_gpu_are_told_in_one_sentence(self):
        for words, reason in ((("barrier",), "a barrier has no memory that could be on a GPU"),
                              (("all_reduce", "--transport", "tcp"), "--transport has no meaning with --against and --on gpu")):
            self.assertSays(self.bench(*words, *POINT).err, reason)
        done = self.bench("all_reduce", *POINT, FAKE_CUDA_DEVICES="0")
        self.assertEqual(done.code, 5, done)
        self.assertRegex(done.err, r"\Atutti: bench: --on gpu needs a GPU: the NVIDIA driver finds no GPU;.*\n\Z")
        (self.folder / "peers/nccl/bin/python").unlink()
        self.assertSays(self.bench("all_reduce", *POINT).err, "nccl is not installed: .*tools/peers/install .*nccl")


class Built(Stage):
    def side_on_fake(self, name, *words, devices="1"):
        (self.folder / "meet").mkdir(exist_ok=True)
        return run(harness.PROGRAM, "run", "-n", "2", "--no-label", RIVALS / f"tutti-rival-{name}", "--folder", self.folder / "meet",
                   "--transport", "gpu", "--budget-ms", "2", "--sizes", "1024,65536", *words, limit=60,
                   env=dict(LD_LIBRARY_PATH=DRIVER, LD_PRELOAD=KERNELS, FAKE_CUDA_DEVICES=devices, TUTTI_TRANSPORT="shm"))

    def test_tuttis_calls_give_right_results(self):
        for setting in ("plain", "windows"):
            for call in ("all_reduce", "all_reduce_inplace", "broadcast", "all_gather", "reduce_scatter", "alltoall",
                         "reduce", "gather", "scatter", "scan", "sendrecv"):
                with self.subTest(setting=setting, call=call):
                    done = self.side_on_fake("self", "--setting", setting, "--call", call)
                    rows = [line.split() for line in done.out.splitlines() if line.startswith("row")]
                    self.assertEqual([(row[1], row[9]) for row in rows], [("1024", "0"), ("65536", "0")], done)

    def test_the_limit_is_the_time_of_the_least_bytes(self):
        def times(call, *words, ranks="4"):
            done = run(RIVALS / "tutti-rival-limit", "--folder", self.folder, "--transport", "gpu", "--ranks", ranks, "--sizes",
                       "1048576,4194304", "--call", call, *words, limit=60,
                       env=dict(LD_LIBRARY_PATH=DRIVER, LD_PRELOAD=KERNELS))
            return [float(line.split()[3]) for line in done.out.splitlines() if line.startswith("row")]
        # At a byte each nanosecond, 2NS, 2S and (N+1)S bytes.
        for call, ranks, each in (("all_reduce", "4", 8), ("all_reduce", "1", 2), ("gather", "4", 2), ("all_gather", "4", 5)):
            self.assertEqual(times(call, "--gpu-rate", "1", ranks=ranks),
                             [each * size / 1000 for size in (1048576, 4194304)], (call, ranks))
        # As measured: four times the time for four times S, at one rate.
        few, many = times("all_reduce")
        self.assertGreater(few, 0)
        self.assertAlmostEqual(many / few, 4, places=2)
        done = run(RIVALS / "tutti-rival-limit", "--folder", self.folder, "--transport", "gpu", "--ranks", "4", "--sizes", "4",
                   "--call", "all_reduce", limit=60, env=dict(LD_LIBRARY_PATH=DRIVER, FAKE_CUDA_DEVICES="2"))
        self.assertSays(done.err, "there is no limit for ranks on several GPUs: CUDA_VISIBLE_DEVICES=0")


class Nccl(Case):
    def test_nccl_tells_its_version_and_that_there_is_no_gpu(self):
        self.assertRegex(run(RIVALS / "tutti-rival-nccl", "--version", limit=60).out, r"\ANCCL \d+\.\d+\.\d+\n\Z")
        done = run(RIVALS / "tutti-rival-nccl", "--call", "all_reduce", "--sizes", "4", "--folder", self.folder, limit=60,
                   env=dict(RANK="0", WORLD_SIZE="2", LD_LIBRARY_PATH=DRIVER, FAKE_CUDA_DEVICES="0"))
        self.assertSays(done.err, "No GPU can be used: the NVIDIA driver finds no GPU")


NEEDED = {"MadeUp": [], "Built": ["tutti-rival-self", "tutti-rival-limit"], "Nccl": ["tutti-rival-nccl"]}

if __name__ == "__main__":
    lacking = [program for program in NEEDED[CLASS] if not (RIVALS / program).exists()]
    if lacking:
        print(f"skipped: no {lacking[0]} was built: it takes libopenmpi-dev, libmpich-dev or libgloo-dev, and for NCCL "
              "tools/peers/install nccl")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], CLASS])
