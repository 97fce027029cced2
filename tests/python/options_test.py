"""What connect() is given has an effect."""

import pathlib
import tempfile

import numpy
import pytutti
from support import Case, threads


class Options(Case):
    def test_a_table_and_the_order_of_ranks(self):
        def body(comm):
            ordered = comm.all_reduce(numpy.array([(1e8, 1, -1e8, 1)[comm.rank]], "f4"))[0] == 1
            return comm.chosen_algorithm("all_reduce", 4), bool(ordered)

        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder, "table")
            table.write_text("all_reduce * * * doubling\n")
            self.assertEqual(threads(4, body, tuning_file=table), [("doubling", False)] * 4)  # it adds pairs
            found = threads(4, body, tuning_file=table, deterministic=True)
            self.assertEqual([ordered for _, ordered in found], [True] * 4)

    def test_wrong_values_are_refused(self):
        for words, option in (
            ("give a second or more", {"lost_after": 0.5}),
            ("/nowhere/secret", {"secret_file": "/nowhere/secret"}),
            ("/nowhere/table", {"tuning_file": "/nowhere/table"}),
            ("/nowhere/plan", {"plan_file": "/nowhere/plan"}),
            ('"pigeons" is not a transport', {"transport": "pigeons"}),
        ):
            self.assert_fails(pytutti.InvalidArgument, words, pytutti.connect, 0, 1, **option)
