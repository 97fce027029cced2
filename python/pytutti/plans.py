"""Plans: what each rank does in a collective, as data.

    ring = pytutti.plan("all_reduce", "ring", ranks=4)
    ring.steps[0]                        # what rank 0 does
    ring.cost.sent, ring.bound.sent      # what the busiest rank sends, and the least that is possible, in vectors

The program `tutti` does the work: it proves, draws, times and writes plans. So Python and the engine that runs a plan
never disagree about it, and this module only asks.
"""

from __future__ import annotations

import csv
import functools
import json
import os
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from .errors import InvalidArgument
from .plan_steps import STEPS, Blocks, Step
from .program import program


class PlanError(InvalidArgument):
    """A plan is wrong, or does not exist. `problems` has the checker's words, one for each error that it found."""

    def __init__(self, text: str, problems: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Cost:
    """What a plan costs, or the least that any plan does. The busiest rank sends, receives and reduces so many vectors;
    the time is that of the model in `Plan.model`."""

    steps: int
    sent: float
    received: float
    reduced: float
    seconds: float


@dataclass(frozen=True)
class Message:
    """The step in which it arrives, if all messages take equally long, and its times under the model, in seconds."""

    source: int
    to: int
    blocks: tuple[int, ...]
    step: int
    begin: float
    end: float


@dataclass(frozen=True)
class Simulated:
    """A call on a modelled network: its time, and bus bandwidth in bytes per second."""

    algorithm: str
    ranks: int
    bytes: int
    seconds: float
    bus_bandwidth: float
    messages: int


class Drawing(str):
    """The text of an SVG picture, which notebooks show as a picture."""

    def _repr_svg_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"<Drawing: {len(self)} characters of SVG>"


def side_by_side(*drawings: str, width: int = 960) -> Drawing:
    """Pictures beside each other, as one picture that is so many pixels wide."""
    each = width / len(drawings)
    tall, inner = 0.0, ""
    for number, drawing in enumerate(drawings):
        found = re.match(r'<svg xmlns="\S+" (viewBox="0 0 ([\d.]+) ([\d.]+)") width="\S+" height="\S+"', drawing)
        if found is None:
            raise ValueError("side_by_side() takes pictures that Plan.draw() made")
        height = each * float(found[3]) / float(found[2])
        tall = max(tall, height)
        inner += f'<svg x="{number * each:g}" {found[1]} width="{each:g}" height="{height:.1f}"{drawing[found.end():]}'
    return Drawing(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {tall:.1f}" width="{width}" '
        f'height="{tall:.1f}">\n{inner}</svg>\n'
    )


# ---- Asking the program


def _run(words: Iterable[object], folder: str | None = None, may_be_wrong: bool = False) -> str:
    try:
        done = subprocess.run(
            [program(), *map(str, words)], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    except OSError as error:
        raise PlanError(
            f"cannot start {program()}: {error.strerror}. PYTUTTI_PROGRAM names another place; if it is not set, "
            "install the package again"
        ) from None
    if done.returncode != 0 and not (may_be_wrong and done.stdout):
        raise PlanError(done.stderr.strip().removeprefix("tutti: ") or f"{program()} ended with code {done.returncode}")
    return done.stdout


@overload
def algorithms(collective: str) -> dict[str, str]: ...


@overload
def algorithms(collective: None = None) -> dict[str, dict[str, str]]: ...


def algorithms(collective: str | None = None) -> dict[str, str] | dict[str, dict[str, str]]:
    """The catalogue: the algorithms of a collective by name, with the idea of each; without one by collective."""
    found: dict[str, dict[str, str]] = {}
    for one in json.loads(_run(["plan", *([collective] if collective else []), "--list", "--json"])):
        found.setdefault(one["collective"], {})[one["name"]] = one["idea"]
    return next(iter(found.values())) if collective else found


def plan(collective: str, name: str | None = None, ranks: int = 4, *, root: int = 0, **model: Any) -> Plan:
    """A plan of the catalogue, such as "ring", "tree:4" (radix 4) or "chain*8" (in 8 slices). Without a name it is the
    one that the tuning table chooses for TCP and a core per rank. `bytes`, `latency` and `bandwidth` are those of
    Plan.at()."""
    return Plan(_of_catalogue(collective, name, ranks, root), **model)


@dataclass(frozen=True)
class Source:
    """Where a plan comes from: words for `tutti plan`, or a file with its text. The lines of one that a Python program
    made were written at these `origins` in it."""

    words: tuple[object, ...] = ()
    file: str = ""
    text: str = ""
    origins: tuple[str, ...] = ()

    def ask(self, *words: object, command: str = "plan", may_be_wrong: bool = False) -> str:
        if not self.file:
            return self._ask([command, *self.words, *words], None, may_be_wrong)
        with tempfile.TemporaryDirectory(prefix="pytutti-") as folder:
            pathlib.Path(folder, self.file).write_text(self.text)
            return self._ask([command, "--import", self.file, *words], folder, may_be_wrong)  # errors name it

    def _ask(self, words: list[object], folder: str | None, may_be_wrong: bool) -> str:
        try:
            return _run(words, folder, may_be_wrong)
        except PlanError as error:
            raise PlanError(self.placed(str(error))) from None

    def placed(self, problem: str) -> str:
        """With lines of the program that wrote the plan, in place of lines of the file."""

        def placed(found: re.Match[str]) -> str:
            origin = self.origins[int(found[1] or found[2]) - 1]
            return (pathlib.Path(self.file).stem if found[1] else "") + (f" in {origin}" if origin else "")

        return re.sub(rf"^{re.escape(self.file)}:(\d+)| in line (\d+)", placed, problem) if self.origins else problem


def _of_catalogue(collective: str, name: str | None, ranks: int, root: int) -> Source:
    algorithm = ["--algo", name] if name is not None else []
    return Source((collective, *algorithm, "-n", ranks, *(("--root", root) if root else ())))


def _blocks(data: dict[str, Any]) -> Blocks:
    return Blocks(data["buffer"], data["first"], data["count"])


def _step(data: dict[str, Any]) -> Step:
    peer = [data["peer"]] if "peer" in data else []
    operands = [_blocks(data[key]) for key in ("dst", "left", "right") if key in data]
    step: Step = STEPS[data["verb"]](*peer, *operands, tuple(data["after"]))
    return step


class Plan:
    """What all ranks do in one collective: an algorithm over so many ranks, with one root. Nothing changes it.

    collective, name, ranks, root, pipeline
    blocks      of input and of output: `ranks * pipeline`
    steps       per rank its steps, of Send, Recv, RecvReduce, Copy and Reduce
    scratch     per rank and slot: the block that the slot is as large as
    problems    what the checker found wrong: nothing if the plan is right
    rounds      messages of which each needs the one before it, at most
    cost, bound, messages   None if the plan is wrong, or too large to be run
    model       the size of the vector, and what a message costs, in `cost` and in pictures
    """

    def __init__(
        self, source: Source, *, bytes: int | str = "1M", latency: float = 10, bandwidth: float = 1.25
    ) -> None:
        self.model = {"bytes": bytes, "latency": latency, "bandwidth": bandwidth}
        data = json.loads(source.ask("--json", "--rank", "all", *self._model_words(), may_be_wrong=True))
        self.collective: str = data["collective"]
        self.name: str = data["algorithm"]
        self.ranks: int = data["ranks"]
        self.root: int = data["root"]
        self.pipeline: int = data["pipeline"]
        # The table would choose anew for another size.
        self._source = source if source.file else _of_catalogue(self.collective, self.name, self.ranks, self.root)
        self.blocks: int = data["blocks"]
        self.steps: tuple[tuple[Step, ...], ...] = tuple(tuple(map(_step, one["steps"])) for one in data["plans"])
        self.scratch = tuple(tuple(one["scratch_like"]) for one in data["plans"])
        self.problems: tuple[str, ...] = tuple(map(source.placed, data["verdict"]["problems"]))
        self.rounds: int = data["verdict"]["rounds"]
        self.cost = self._cost(data.get("cost"))
        self.bound = self._cost(data.get("bounds"))
        self.messages = self._messages(data.get("messages"))

    def _model_words(self) -> list[object]:
        return [word for name, value in self.model.items() for word in (f"--{name}", value)]

    def _cost(self, data: dict[str, Any] | None) -> Cost | None:
        if data is None:
            return None
        sent, received, reduced = (data[f"{what}_blocks"] / self.blocks for what in ("sent", "received", "reduced"))
        return Cost(data["steps"], sent, received, reduced, data["microseconds"] / 1e6)

    def _messages(self, data: list[dict[str, Any]] | None) -> tuple[Message, ...] | None:
        if data is None:
            return None
        return tuple(
            Message(one["from"], one["to"], tuple(one["blocks"]), one["step"], one["begin"] / 1e6, one["end"] / 1e6)
            for one in data
        )

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Plan:
        """A plan from a file of plans, or from a program of MSCCL."""
        return Plan(Source(file=pathlib.Path(path).name, text=pathlib.Path(path).read_text()))

    def at(self, *, bytes: int | str = "1M", latency: float = 10, bandwidth: float = 1.25) -> Plan:
        """The same plan with costs and pictures for a vector of that size, such as "4M". In the model a message takes
        `latency` microseconds, and its bytes at `bandwidth` GB/s; a rank sends one at a time and receives one."""
        return Plan(self._source, bytes=bytes, latency=latency, bandwidth=bandwidth)

    def check(self) -> Plan:
        """Raises PlanError, with what is wrong and where, unless the plan is proved: sends match receives, every
        contribution arrives exactly once, no two steps race, in place and out of place, and nothing waits forever."""
        if self.problems:
            raise PlanError(
                f"{self.name} over {self.ranks} ranks is wrong:\n  " + "\n  ".join(self.problems), self.problems
            )
        return self

    def draw(self, step: int | None = None) -> Drawing:
        """A picture: who sends to whom (in that step, or in the first ones), when, and who has what after each step."""
        self.check()
        with tempfile.TemporaryDirectory(prefix="pytutti-") as folder:
            file = pathlib.Path(folder, "plan.svg")
            self._source.ask("--svg", file, *self._model_words(), *(["--step", step] if step is not None else []))
            return Drawing(file.read_text())

    def _repr_svg_(self) -> str | None:
        """For notebooks. Plans that are wrong or too large for a picture are shown as text."""
        try:
            return self.draw()
        except PlanError:
            return None

    def simulate(
        self,
        bytes: int | str | Iterable[int | str] = "1M",
        *,
        network: str | os.PathLike[str] = "100g",
        beside: str | Iterable[str] = (),
    ) -> list[Simulated]:
        """Times on a modelled network ("100g", "summit", or a file; docs/simulate.md) for each size, of this plan and
        of the algorithms `beside` it."""
        self.check()
        sizes = [bytes] if isinstance(bytes, (int, str)) else bytes
        others = [beside] if isinstance(beside, str) else [*beside]
        where = os.path.abspath(network) if os.path.exists(network) else network
        source = self._source
        if not source.file:  # all names are in one option
            source = _of_catalogue(self.collective, None, self.ranks, self.root)
            others = [self.name, *others]
        with tempfile.TemporaryDirectory(prefix="pytutti-") as folder:
            file = pathlib.Path(folder, "times.csv")
            algorithms = ["--algo", ",".join(others)] if others else []
            source.ask(
                *algorithms, "--size", ",".join(map(str, sizes)), "--net", where, "--csv", file, command="simulate"
            )
            rows = list(csv.DictReader(file.read_text().splitlines()))
        return [
            Simulated(
                row["algorithm"],
                int(row["ranks"]),
                int(row["bytes"]),
                float(row["seconds"]),
                float(row["bus_bytes_per_second"]),
                int(row["messages"]),
            )
            for row in rows
        ]

    @functools.cached_property
    def text(self) -> str:
        """The text of a file of plans (docs/interchange.md). One of the catalogue is called saved_NAME there."""
        self.check()
        return self._source.ask("--save", "-")

    def save(self, path: str | os.PathLike[str]) -> str:
        """Writes a file for `pytutti.connect(plan_file=...)`, TUTTI_PLAN_FILE and `tutti plan --import`. Returns its
        path, so that `run_threads(4, function, plan_file=plan.save("own.plan"))` runs the plan."""
        text = self.text
        pathlib.Path(path).write_text(text)
        return os.fspath(path)

    def __repr__(self) -> str:
        state = f"{self.cost.steps} steps" if self.cost else "wrong" if self.problems else "too large to be run"
        return f"<Plan {self.collective} by {self.name} over {self.ranks} ranks: {state}>"
