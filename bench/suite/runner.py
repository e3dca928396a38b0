"""A whole run: every case of a suite, the strategies in turn and then each rival, to one document."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bench.engine import machine
from bench.suite import chance
from bench.suite.again import Allowance
from bench.suite.bounding import bound_rows
from bench.suite.catalogue import WORKLOADS, Made, Spec, made, tiny
from bench.suite.comparison import compared
from bench.suite.contender import MissingError
from bench.suite.harness import Limits, Run, measured, record_of, started, timed, warmed
from bench.suite.judge import Expected, judge
from bench.suite.memory import held_bytes
from bench.suite.pace import Pace
from bench.suite.planning import plan_seconds, planning
from bench.suite.record import Comparison, Document, Order, Record
from bench.suite.registry import HELD, OWN, RIVALS, STRATEGIES
from bench.suite.store import sources
from bench.suite.suites import Suite

LIBRARIES = ("numpy", "pyarrow", "numba", "llvmlite")
OPTIONAL = ("scipy", "duckdb", "python-graphblas", "suitesparse-graphblas", "ladybug", "pyspark")
RANDOM_WEIGHT = 0.15
"""How long a query that chance writes takes beside one contender at a case."""


@dataclass(frozen=True)
class Progress:
    """What a run tells while it goes on.

    Attributes
    ----------
    say
        Takes what is done now, and the share of all cases that are done.
    show
        Takes each record when it is there,
    compare
        and each comparison.
    keep
        Takes the document, as far as it has come, whenever a case is done.
    """

    say: Callable[[str, float], None]
    show: Callable[[Record], None]
    compare: Callable[[Comparison], None]
    keep: Callable[[Document], None]


@dataclass
class SuiteRun:
    """One run of a suite.

    Attributes
    ----------
    strategies
        Of `STRATEGIES`; with all three there are comparisons, and random queries among them.
    rivals
        Of `RIVALS`.
    threads
        For each contender.
    seconds
        After which no further case is begun.
    """

    suite: Suite
    strategies: Sequence[str]
    rivals: Sequence[str]
    threads: int
    progress: Progress
    seconds: float = math.inf
    document: Document = field(init=False)
    allowance: Allowance = field(init=False)
    records: list[Record] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.allowance = Allowance(self.suite.again)
        described = machine.describe(LIBRARIES, OPTIONAL)
        described["threads"] = self.threads
        planned = (*(spec.name for spec in self.suite.specs), *map(_random, self._seeds()))
        self.document = Document(described, self.suite.name, 1, (), settings=self._settings(), planned=planned)

    def resume(self, earlier: Document) -> None:
        """Take over what another run of the same settings has done, so that `run` does the rest."""
        date = str(self.document.machine["date"])
        self.document = replace(earlier, ended=None, resumed=(*earlier.resumed, date))
        self.records, self.comparisons = list(earlier.records), list(earlier.comparisons)
        self.missing = dict(earlier.missing)

    def run(self) -> Document:
        """Run all cases that the document does not hold yet, as far as the time goes."""
        pace = Pace({name: self._weight(name) for name in self.document.planned}, dict(self.document.done))
        begin = time.monotonic()
        before = self.document.seconds

        def over() -> bool:
            return time.monotonic() - begin > self.seconds

        def done(name: str) -> None:
            pace.took(name)
            self.document = replace(
                self.document, records=tuple(self.records), comparisons=tuple(self.comparisons),
                missing=dict(self.missing), done=dict(pace.done), seconds=before + time.monotonic() - begin,
            )  # fmt: skip
            self.progress.keep(self.document)

        for spec in self.suite.specs:
            if spec.name not in pace.done and not over():
                pace.begin()
                self.case(spec, pace)
                done(spec.name)
        seeds = [seed for seed in self._seeds() if _random(seed) not in pace.done]
        compared = chance.comparisons(
            () if over() else seeds, self.suite.random_size, self.threads, self.suite.limit, self.suite.judge_limit,
            lambda seed: self.progress.say(pace.words(_random(seed)), pace.share),
        )  # fmt: skip
        with contextlib.closing(compared):
            pace.begin()
            for one in compared:
                self.comparisons.append(one)
                self.progress.compare(one)
                done(_random(one.case.seed))
                if over():
                    break
                pace.begin()
        if self.document.left_out:
            return replace(self.document, ended=f"the {self.seconds / 3600:g} hours were over")
        self.progress.say("planning", 1.0)
        texts = [chance.query_of(seed).text for seed in range(1, (self.suite.random_queries or 20) + 1)]
        return replace(
            self.document, planning=planning(texts), missing=dict(self.missing),
            seconds=before + time.monotonic() - begin,
        )  # fmt: skip

    def _seeds(self) -> range:
        return range(1, self.suite.random_queries + 1 if set(self.strategies) == set(STRATEGIES) else 1)

    def _settings(self) -> dict[str, Any]:
        suite = self.suite
        limits = ("limit", "rival_limit", "budget", "rounds", "judge_limit", "again")
        return {
            "strategies": list(self.strategies), "rivals": list(self.rivals), "threads": self.threads,
            **{name: getattr(suite, name) for name in limits}, "random size": asdict(suite.random_size),
            "sources": sources(),
        }  # fmt: skip

    def _weight(self, name: str) -> float:
        """How long a case may take beside others: by how many contenders take part."""
        spec = next((spec for spec in self.suite.specs if spec.name == name), None)
        if spec is None:
            return RANDOM_WEIGHT
        rivals = [rival for rival in self.rivals if spec.rivals is None or rival in spec.rivals]
        return float(len(self.strategies) + sum(len(RIVALS[rival]) for rival in rivals))

    def case(self, spec: Spec, pace: Pace) -> None:
        """The strategies on one case, and the rivals if it is for them."""
        try:
            case, small = made(spec), made(tiny(spec))
        except MissingError as error:
            self.missing[spec.workload] = str(error)
            return
        bound = bound_rows(case)
        workload = case.workload
        plan = plan_seconds(workload.text, bag=workload.bag)

        def say(text: str) -> None:
            self.progress.say(pace.words(f"{case.case.key}: {text}"), pace.share)

        def judged() -> Expected:
            say("another engine counts")
            return judge(workload, case.stream, case.known, self.suite.judge_limit)

        limits = Limits(self.suite.limit, self.suite.budget, self.suite.rounds, self.threads)
        runs, expected = measured(case, small, self.strategies, limits, judged, say, self.allowance)
        for run in runs:
            self._take(record_of(run, case, self.threads, bound, plan), run)
        if set(self.strategies) == set(STRATEGIES):
            found = _comparison(runs, case)
            self.comparisons.append(found)
            self.progress.compare(found)
        for rival in self.rivals:
            if spec.rivals is None or rival in spec.rivals:
                expected = self._rival(spec, RIVALS[rival], expected, bound, say)

    def _rival(
        self, spec: Spec, contenders: Sequence[str], expected: Expected, bound: float | None, say: Callable[[str], None]
    ) -> Expected:
        """A rival's contenders, by both orders of vertices where that makes a difference; all warm up together."""
        suite = self.suite
        names = [name for name in contenders if name not in self.missing]
        held = {name: held_bytes() for name in names if name in HELD}
        limits = Limits(suite.rival_limit, suite.budget, suite.rounds, self.threads, held)
        orders: tuple[Order, ...] = (
            ("generated", "degree") if WORKLOADS[spec.workload].depends_on_order else ("generated",)
        )
        with contextlib.ExitStack() as stack:
            begun: list[tuple[Made, Run]] = []
            for order in orders:
                case, small = made(spec, order), made(tiny(spec), order)
                runs = stack.enter_context(started(case, small, names, limits))
                begun += [(case, run) for run in runs]
            say(f"{', '.join(names)}, warm-up")
            for case, run in begun:
                warmed([run], case, limits)
            for name in names:
                for case, run in [one for one in begun if one[1].contender == name]:
                    expected = self._rival_timed(case, run, limits, expected, bound, say)
        return expected

    def _rival_timed(
        self, case: Made, run: Run, limits: Limits, expected: Expected, bound: float | None, say: Callable[[str], None]
    ) -> Expected:
        """One contender that is warm; by degrees only where it says that this makes a difference."""
        as_generated = case.case.vertex_order == "generated"
        if not as_generated and (run.missing or not run.about.get("depends_on_order", False)):
            return expected
        wanted = expected if as_generated else replace(expected, digest=None)
        found = timed([run], case, limits, lambda: wanted, lambda text: say(f"{run.contender}, {text}"))
        run.process.end()
        self._take(record_of(run, case, self.threads, bound, None), run)
        is_wrong = run.check is not None and not run.check.is_right and run.contender not in OWN
        if is_wrong and wanted.by and OWN.issuperset(wanted.by):
            self._doubt(case, run)
        return found if as_generated and run.check is not None else expected  # nothing was found where it never ran

    def _doubt(self, case: Made, run: Run) -> None:
        """Let the engine's records of a case be wrong, too, where other code disagrees with them and none agrees."""
        assert run.check is not None
        message = f"{run.contender} does not agree, and nobody else can tell: {run.check.message}"
        for at, record in enumerate(self.records):
            if record.case == case.case and record.contender in OWN and record.check is not None:
                self.records[at] = replace(record, check=replace(record.check, is_right=False, message=message))

    def _take(self, record: Record, run: Run) -> None:
        if run.missing:
            self.missing[run.contender] = run.stopped or ""
        else:
            self.records.append(record)
            self.progress.show(record)


def _random(seed: int) -> str:
    """The name of a query that chance writes."""
    return f"random query {seed}"


def _comparison(runs: Sequence[Run], case: Made) -> Comparison:
    records = {run.contender: record_of(run, case, 1, None, None) for run in runs}
    wrong = [run.check for run in runs if run.check is not None and not run.check.is_right]
    checks = [run.check for run in runs if run.check is not None]
    return compared(
        case.case,
        {name: record.round_cpu_seconds for name, record in records.items()},
        {name: record.work for name, record in records.items() if record.work is not None},
        next(iter((*wrong, *checks)), None),
        {run.contender: run.stopped for run in runs if run.stopped is not None},
    )
