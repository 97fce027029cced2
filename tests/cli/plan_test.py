"""tutti plan: what it prints, proves and refuses."""

import json
import os
import pathlib
import re

import harness
import schema
from harness import Case, tutti

SCHEMA = json.loads((pathlib.Path(__file__).parents[2] / "cli/plan/plan.schema.json").read_text())


def plan(*arguments, **options):
    return tutti("plan", *arguments, **options)


class Show(Case):
    def test_both_trees_and_the_proof_of_24_ranks(self):
        done = plan("all_reduce", "--algo", "double_binary_tree", "-n", "24", "--check")
        self.assertEqual(done.code, 0, done)
        self.assertSays(done.out, r"Tree 1, blocks 0-11.*:\n  0\n  `- 16\n     \|- 8\n",
                        r"Tree 2, blocks 12-23.*:\n  23\n  `- 7\n     \|- 3\n", r"\nRank 0 of 24:",
                        r"\nProved for all 24 ranks:", r"no deadlock with 1\nmessage per link",
                        r"one after the other, as on one stream of a GPU, 1\s+slot per\s+link suffices",
                        r"\n92 messages, at most 10 one after the other, the busiest rank sends 2\.00 S")

    def test_all_ranks_are_shown_with_what_each_step_waits_for(self):
        done = plan("all_reduce", "--algo", "ring", "-n", "3", "--rank", "all")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(re.findall(r"^Rank (\d) of 3: 8 plan steps", done.out, re.M), ["0", "1", "2"], done)
        self.assertSays(done.out, r"\n +2 +2  send output\[1\] to 1 +#1; behind #0\n", r"\n +1 +1  .* rank 2's #0\n")

    def test_of_many_ranks_the_first_is_shown_and_others_on_request(self):
        self.assertEqual(re.findall(r"^Rank (\d+) of", plan("barrier", "-n", "40").out, re.M), ["0"])
        self.assertEqual(re.findall(r"^Rank (\d+) of", plan("barrier", "-n", "40", "--rank", "39").out, re.M), ["39"])
        self.assertEqual(len(re.findall(r"^Rank (\d+) of", plan("barrier", "-n", "40", "--rank", "all").out, re.M)), 40)

    def test_radix_and_pipeline_are_part_of_the_name_or_options(self):
        short = plan("broadcast", "--algo", "tree:3*2", "-n", "9", "--root", "4")
        long = plan("broadcast", "--algo", "tree", "--radix", "3", "--pipeline", "2", "-n", "9", "--root", "4")
        self.assertEqual(short.out, long.out)
        self.assertSays(short.out, r"^broadcast by tree:3\*2 over 9 ranks, root 4:")

    def test_the_tuning_table_is_asked_and_can_be_another_one(self):
        done = plan("all_reduce", "-n", "8", "--bytes", "64K", "--transport", "shm", "--explain")
        self.assertSays(done.out, r"Chosen for all_reduce of 65536 bytes over 8 ranks by shm: \w+", r"\n  \* \w+ .*KiB")
        done = plan("all_reduce", "-n", "8", "--bytes", "64K", "--transport", "shm", "--oversubscribed", "--explain")
        self.assertSays(" ".join(done.out.split()), r"by shm, more ranks than cores: (\S+), by tuning_table\.inc:\d+: "
                        r"all_reduce shm \S+ \S+ \1 oversubscribed ")
        table = self.folder / "table"
        table.write_text("all_reduce * * * chain*3\n")
        done = plan("all_reduce", "-n", "8", env={"TUTTI_TUNING_FILE": str(table)})
        self.assertSays(done.out, r"^all_reduce by chain\*3 over 8 ranks")

    def test_a_barrier_has_no_bytes(self):
        table = self.folder / "table"
        table.write_text("barrier shm 2-8 0 tree:2\n")
        done = plan("barrier", "-n", "8", "--transport", "shm", "--explain", env={"TUTTI_TUNING_FILE": str(table)})
        self.assertSays(done.out, r"Chosen for barrier of 0 bytes over 8 ranks by shm: tree:2, by\s+\S*table:1", r"\* tree:2 .* S ")
        self.assertNotRegex(done.out, r"S = |KiB")
        done = tutti("simulate", "barrier", "-n", "8", "--regret", "--net", "100g")
        self.assertEqual(len(re.findall(r"(?m)^ +8 +0 ", done.out)), 1, done)

    def test_the_table_is_asked_for_several_hosts(self):
        done = plan("all_reduce", "-n", "8", "--hosts", "2", "--bytes", "1M", "--explain")
        self.assertSays(done.out, r"Chosen for all_reduce of 1048576 bytes over 8 ranks by hosts: rails:4/256K")
        self.assertEqual(plan("all_reduce", "-n", "8", "--hosts", "1").out, plan("all_reduce", "-n", "8").out)
        self.assertEqual(plan("all_reduce", "-n", "8", "--hosts", "8").out, plan("all_reduce", "-n", "8").out)
        for words in (["--hosts", "3"], ["--hosts", "0"]):
            done = plan("all_reduce", "-n", "8", *words)
            self.assertEqual(done.code, 6, done)
            self.assertSays(done.err, r"--hosts takes a number that divides the number of ranks \(-n 8\), not [03]")

    def test_a_topology_gives_domains_to_the_table_and_to_hierarchical(self):
        topology = self.folder / "topology"
        topology.write_text("rank 0-7 cache left\nrank 8-14 cache right\nrank 15 cache left\n")
        tiny = ("-n", "16", "--bytes", "4", "--transport", "shm")
        self.assertSays(plan("broadcast", *tiny).out, "^broadcast by direct over 16 ranks")
        self.assertSays(plan("broadcast", *tiny, "--topology", topology, "--check").out,
                        r"^broadcast by hierarchical:0-7\.15\+8-14 over 16 ranks", "Proved for all 16 ranks")
        named = plan("all_reduce", "--algo", "hierarchical", "-n", "16", "--topology", topology)
        self.assertSays(named.out, r"^all_reduce by hierarchical:0-7\.15\+8-14 over 16 ranks")
        self.assertEqual(plan("all_reduce", "--algo", "hierarchical:0-7.15+8-14", "-n", "16").out, named.out)
        for ranks, why in ((8, "divides 8 ranks into no domains"), (17, "divides 17 ranks into no domains")):
            self.assertSays(plan("barrier", "-n", ranks, "--topology", topology).err, why)
        topology.write_text("rank 0 cache left\nrank 0 cache right\n")
        self.assertSays(plan("barrier", "--topology", topology).err,
                        "topology:2: rank 0 has a place already, on a line before")
        self.assertSays(plan("barrier", "--algo", "hierarchical:3+1", "-n", "5").err,
                        r'"hierarchical:3\+1" has domains of 4 ranks, and there are 5')

    def test_names_and_sizes_are_those_of_bench(self):
        for alias, name in (("allreduce", "all_reduce"), ("bcast", "broadcast"), ("alltoall", "all_to_all")):
            self.assertSays(plan(alias, "-n", "2").out, rf"^{name} by ")
        self.assertEqual(plan("all_reduce", "--bytes", "1.5k", "--explain").out,
                         plan("all_reduce", "--bytes", "1536", "--explain").out)
        self.assertEqual(plan("--help").out.count("Usage:"), 1)

    def test_the_list_has_every_collective(self):
        described = SCHEMA["properties"]["collective"]["enum"]
        self.assertEqual(described, [*harness.collectives()])
        self.assertEqual(len(re.findall(r"^  \w", plan("scatter", "--list").out, re.M)), 2)

    def test_the_list_tells_all_parameters_of_names(self):
        done = plan("all_reduce", "--list").out
        self.assertSays(done, r"  hierarchical:K [^:]*; K\s+may\s+be\s+domains\n", r"chain\*8", r"/SIZE", r"chain/64K",
                        r"hierarchical:3\+1", r"hierarchical:0\.2\+1\.3")
        self.assertNotIn("may be domains", " ".join(plan("all_gather", "--list").out.split()))

    def test_json_tells_the_same(self):
        done = json.loads(plan("all_gather", "--algo", "ring", "-n", "4", "--rank", "all", "--json").out)
        self.assertTrue(done["verdict"]["ok"])
        self.assertEqual(done["verdict"]["in_order"], 1)
        self.assertEqual((done["blocks"], done["verdict"]["rounds"], len(done["plans"])), (4, 3, 4))
        step = done["plans"][2]["steps"][2]
        self.assertEqual((step["verb"], step["peer"], step["left"]["buffer"]), ("send", 3, "output"))
        self.assertIn("ring", [e["name"] for e in json.loads(plan("--list", "--json").out)])

    def test_json_names_a_table_whose_path_is_in_another_encoding(self):
        table = self.folder / os.fsdecode(b"caf\xe9")
        table.write_text("all_reduce * * * ring\n")
        done = plan("all_reduce", "-n", "4", "--json", env={"TUTTI_TUNING_FILE": str(table)})
        self.assertEqual(done.code, 0, done)
        self.assertIn("/caf\ufffd", json.loads(done.out)["why"])


class OnGpu(Case):
    SCHEMA = json.loads((pathlib.Path(__file__).parents[2] / "cli/plan/streams.schema.json").read_text())

    def test_the_commands_of_a_ring(self):
        done = plan("all_reduce", "--algo", "ring", "-n", "4", "--bytes", "4K", "--on", "gpu", "--rank", "all")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(re.findall(r"^Rank (\d) of 4: 3\d commands in 1 round", done.out, re.M), ["0", "1", "2", "3"], done)
        self.assertSays(done.out, r"each link 4 slots of 1 MiB", r"come to\s+their\s+ends\s+with 1 slot or\s+more",
                        r"\n +round +# +step +command\n",
                        r"\n +0 +0 +0  copy slot 0 to 1 \[0\.\.255\] = input\[768\.\.1023\]\n +0 +1 +0  signal_arrival 1 to 1\n",
                        r"wait_arrival 1 from 3\n.*  fold output\[512\.\.767\] = input\[512\.\.767\], slot 0 from 3 \[0\.\.255\]\n")

    def test_what_all_ranks_signal_is_what_they_wait_for(self):
        for words in ("all_reduce --algo double_binary_tree -n 5 --bytes 100K", "all_to_all --algo bruck -n 6 --bytes 60K",
                      "barrier -n 7", "scatter --algo tree -n 8 --root 3 --bytes 1M"):
            done = json.loads(plan(*words.split(), "--on", "gpu", "--rank", "all", "--slot", "4K", "--slots", "2", "--json").out)
            schema.validate(done, self.SCHEMA)
            sent, freed = {}, {}
            for stream in done["streams"]:
                for command in stream["commands"]:
                    if command["kind"] == "signal_arrival":
                        sent[(stream["rank"], command["peer"])] = command["value"]
                    if command["kind"] == "signal_credit":
                        freed[(command["peer"], stream["rank"])] = command["value"]
                    self.assertLessEqual(command.get("elements", 0), done["bytes"])
            self.assertEqual(sent, freed)
            self.assertGreater(len(sent), 0)
            waited = [command for stream in done["streams"] for command in stream["commands"] if command["kind"] == "wait_arrival"]
            self.assertEqual(len(waited), sum(sent.values()))

    def test_a_long_vector_goes_in_rounds(self):
        done = json.loads(plan("broadcast", "--algo", "tree", "-n", "4", "--bytes", "64K", "--on", "gpu", "--slot", "4K",
                               "--slots", "2", "--json", "--rank", "0").out)
        self.assertEqual((done["streams"][0]["rounds"], done["piece_elements"]), (16, 1024))
        self.assertEqual(done["streams"][0]["elements_sent"], 2 * 64 * 1024 // 4)
        slots = [place["slot"] for command in done["streams"][0]["commands"] for place in command.get("outputs", [])]
        self.assertEqual(set(slots), {0, 1})

    def test_ranks_that_use_each_others_memory(self):
        words = ("all_reduce", "--algo", "direct", "-n", "4", "--bytes", "4K", "--on", "gpu", "--rank", "all")
        done = plan(*words, "--gpus", "1")
        outputs = ", ".join(["output[0..1023]", *(f"output of {rank} [0..1023]" for rank in (1, 2, 3))])
        inputs = outputs.replace("output", "input")
        self.assertIn(f"  whole {outputs} = {inputs}\n", done.out)
        self.assertEqual(len(re.findall("  whole ", done.out)), 1, done)
        two = json.loads(plan(*words, "--gpus", "2", "--json").out)
        schema.validate(two, self.SCHEMA)
        self.assertEqual([stream["elements_read"] for stream in two["streams"]], [4096, 0, 4096, 0])
        self.assertEqual([stream["elements_written"] for stream in two["streams"]], [2048, 0, 2048, 0])
        self.assertNotIn("in_kernel", plan(*words, "--gpus", "4", "--json").out)
        self.assertNotIn("|", plan(*words, "--gpus", "4").out)
        on_request = dict(TUTTI_GPU_MODE="kernel")
        each = json.loads(plan(*words, "--gpus", "4", "--json", env=on_request).out)
        schema.validate(each, self.SCHEMA)
        for stream in each["streams"]:
            self.assertEqual([command["kind"] for command in stream["commands"] if command.get("in_kernel")],
                             ["signal_arrival"] * 3 + ["wait_arrival"] * 3 + ["whole"] + ["signal_credit"] * 3 + ["wait_credit"] * 3)
        self.assertIn("\n     0      0         | signal_arrival 1 to 1\n", plan(*words, "--gpus", "4", env=on_request).out)
        self.assertNotIn("|", plan(*words, "--gpus", "2", env=on_request).out)
        refused = plan("all_reduce", "--algo", "ring", "-n", "4", "--on", "gpu", "--gpus", "2")
        self.assertSays(refused.err, "by ring cannot run on 2 GPUs whose ranks use each other's memory: it takes more than")
        many = ("all_reduce", "--algo", "direct", "--bytes", "4K", "--on", "gpu", "--gpus", "1", "-n")
        self.assertIn("input of 15 [0..1023]\n", plan(*many, "16").out)
        for ranks in ("17", "256"):
            self.assertSays(plan(*many, ranks).err, f"by direct cannot run on 1 GPU whose ranks use each other's memory: {ranks} "
                            r"ranks are more than a kernel has inputs \(16\); take fewer ranks, or leave out --gpus")
        self.assertSays(plan(*words, "--gpus", "5").err, "on 5 GPUs whose ranks use each other's memory: there are 4 ranks")

    def test_a_plan_that_would_deadlock_is_refused(self):
        file = self.folder / "stuck.plan"
        ranks = [f"rank {rank}\nrecv {1 - rank} o{1 - rank}\nsend {1 - rank} i{rank}\ncopy o{rank} i{rank} after 1\n" for rank in (0, 1)]
        file.write_text("tutti-plans 1\nall_gather stuck ranks 2 root 0 pipeline 1\n" + "".join(ranks))
        self.assertSays(plan("--import", str(file), "--check").out, r"as on one stream of a GPU, they\s+deadlock\.")
        done = plan("--import", str(file), "--on", "gpu")
        self.assertNotEqual(done.code, 0, done)
        self.assertSays(done.err, "all_gather by stuck cannot run on streams with 4 slots per link: if each rank runs its "
                        "steps one after the other, they deadlock")

    def test_wrong_words(self):
        for words, says in (("--on tpu", '--on takes gpu, not "tpu"'), ("--on gpu --slots 0", "--slots takes 1 to 1024, not 0"),
                            ("--on gpu --gpus -1", "--gpus takes 1 or more, not -1"),
                            ("--on gpu --gpus 0", "--gpus takes 1 or more, not 0"),
                            ("--gpus 1", "--gpus belongs to --on"),
                            ("--slots 3", "--slots belongs to --on"), ("--slot 4K", "--slot belongs to --on"),
                            ("--goal-calc 1", "--goal-calc belongs to --goal"),
                            ("--goal - --goal-calc -1", "--goal-calc takes 0 to 1000000 ns, not -1"),
                            ("--goal - --goal-calc nan", "--goal-calc takes 0 to 1000000 ns, not nan"),
                            ("--on gpu --slot many", '--slot takes a size .* not "many"'),
                            ("--on gpu --slot 0", "a slot of 0 elements is too small: a message takes 1 or more"),
                            ("--on gpu --step 1", "--step excludes --on"),
                            ("--json --svg x.svg", "--svg excludes --json"), ("--json --save x", "--save excludes --json"),
                            ("--check --html x.html", "--check excludes --html"),
                            ("--on gpu -n 4096", "too large to look at together")):
            done = plan("all_reduce", "--algo", "ring", *words.split())
            self.assertNotEqual(done.code, 0, done)
            self.assertSays(done.err, says)


class Check(Case):
    def test_the_proof_is_told_also_beside_files_and_as_json(self):
        words = ("all_reduce", "--algo", "ring", "-n", "4", "--check")
        for option in ("--svg", "--goal", "--save"):
            done = plan(*words, option, self.folder / f"of{option}")
            self.assertEqual(done.code, 0, done)
            self.assertSays(done.out, r"\nProved for all 4 ranks:")
        done = plan(*words, "--goal", "-")
        self.assertEqual(done.out, plan(*words[:-1], "--goal", "-").out)
        self.assertSays(done.err, r"\nProved for all 4 ranks:")
        self.assertTrue(json.loads(plan(*words, "--json").out)["verdict"]["ok"])


class Refuse(Case):
    def refused(self, words, *says):
        done = plan(*words.split())
        self.assertEqual((done.code, done.out), (6, ""), done)
        self.assertSays(done.err, *says)

    def test_names_that_do_not_exist_offer_the_nearest(self):
        self.refused("all_reduc", 'Did you mean "all_reduce"')
        self.refused("all_reduce --algo rng", 'Did you mean "ring"')
        self.refused("all_reduce --alg ring", 'Did you mean "--algo"')
        self.refused("all_reduce --transport tpc", 'Did you mean "tcp"')

    def test_numbers_outside_their_range(self):
        self.refused("broadcast -n 0", "-n takes 1 to")
        self.refused("broadcast -n 4 --root 4", "--root 4 is outside 0 to 3")
        self.refused("broadcast -n 4 --rank 4", "--rank takes 0 to 3")
        self.refused("all_reduce --root 2", "--root has no effect: all_reduce has no root")
        self.refused(f"all_reduce --root 2 --html {self.folder}/page.html", "--root has no effect")
        self.refused(f"all_reduce --algo hierarchical:3+1 -n 4 --html {self.folder}/page.html",
                     "has the plans for 2 to 16 ranks, and hierarchical:3.1 is for 4 only; give hierarchical a radix")
        self.refused("broadcast --bytes 3Q", "--bytes takes a size")
        self.refused("broadcast --size -4", '--bytes takes a size .* not "-4"')
        self.refused("broadcast -n four", "four")

    def test_plans_that_would_take_gigabytes(self):
        for call in ("all_reduce --algo ring*4096", "broadcast --algo tree:4096*4096"):
            self.refused(f"{call} -n 4096", r"plan \S+\*4096 of a rank among 4096 would be too large to look at, with "
                         r"\d+ steps; take fewer ranks or a shorter")
        self.assertEqual(plan("broadcast", "--algo", "chain*512", "-n", "4096").code, 0)

    def test_rows_of_measured_points_that_lack_something(self):
        row = {"algorithm": "ring", "size": 8, "in_place": {"time": 3}}
        file = self.folder / "points.json"
        for text, says in (("{", "it is not JSON, or cut off"), ('{"results": []}', 'no "devices" in "config", which tell .*'),
                           ([row, {**row, "size": -8}], 'row 2 of its "results" has a wrong "size": it is no number of bytes'),
                           ([row, {**row, "algorithm": 7}], 'row 2 of its "results" has a wrong "algorithm": it is no name'),
                           ([{"size": 8}], 'row 1 of its "results" has no "algorithm"'), ([7], 'row 1 of its "results" has no "algorithm"'),
                           ([{"size": 8, "algorithm": "ring"}], 'row 1 .* has neither "in_place" nor "out_of_place"'),
                           ([{**row, "in_place": {}}], 'row 1 of its "results" has no "time" in "in_place"')):
            whole = {"config": {"devices": [0, 1]}, "tutti": {"collective": "all_reduce"}, "results": text}
            file.write_text(text if isinstance(text, str) else json.dumps(whole))
            self.refused(f"all_reduce --html {self.folder}/page.html --points {file}",
                         f"^tutti: plan: {file} was not written by tutti bench -J FILE: .*{says}$")
        for facts, says in (({}, 'was not written by tutti bench -J FILE: it has no "tutti", which tells what was measured'),
                            ({"tutti": {"version": "0.1"}},
                             f"^tutti: plan: {file}: an older tutti wrote it, which does not say what was measured; measure again$"),
                            ({"tutti": {"collective": 7}}, 'the "collective" in "tutti" is no name'),
                            ({"tutti": {"collective": "sendrecv"}}, 'the "collective" in "tutti" is none that has plans')):
            file.write_text(json.dumps({"config": {"devices": [0, 1]}, "results": [row], **facts}))
            self.refused(f"all_reduce --html {self.folder}/page.html --points {file}", says)
        self.refused(f"all_reduce --html {self.folder}/page.html --points {self.folder}", "cannot .*: it is a folder")
        self.assertFalse((self.folder / "page.html").exists())

    def test_what_an_algorithm_does_not_have(self):
        self.refused("all_reduce --algo ring --radix 3", "no radix")
        self.refused("all_reduce --algo doubling --pipeline 2", "gains nothing from a pipeline")

    def test_missing_and_superfluous_words(self):
        self.refused("", "which collective")
        self.refused("all_reduce ring", '"ring" is one word too many')


if __name__ == "__main__":
    harness.main()
