"""A whole run: every case of a suite, the strategies in turn and then each rival, to one document."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bench.engine import machine
from bench.suite import chance
from bench.suite.bounding import bound_rows
from bench.suite.catalogue import Made, Spec, made, tiny
from bench.suite.comparison import compared
from bench.suite.contender import MissingError
from bench.suite.harness import Limits, Run, measured, record_of
from bench.suite.judge import Expected, judge
from bench.suite.memory import held_bytes
from bench.suite.planning import plan_seconds, planning
from bench.suite.record import Comparison, Document, Order, Record
from bench.suite.registry import HELD, RIVALS, STRATEGIES
from bench.suite.suites import Suite

LIBRARIES = ("numpy", "pyarrow", "numba", "llvmlite")
OPTIONAL = ("scipy", "duckdb", "python-graphblas", "suitesparse-graphblas", "ladybug", "pyspark")


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
    """

    say: Callable[[str, float], None]
    show: Callable[[Record], None]
    compare: Callable[[Comparison], None]


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
    """

    suite: Suite
    strategies: Sequence[str]
    rivals: Sequence[str]
    threads: int
    progress: Progress
    records: list[Record] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def run(self) -> Document:
        """Run all cases."""
        begin = time.monotonic()
        described = machine.describe(LIBRARIES, OPTIONAL)
        described["threads"] = self.threads
        suite = self.suite
        seeds = range(1, suite.random_queries + 1) if set(self.strategies) == set(STRATEGIES) else ()
        parts = len(suite.specs) + (10 if seeds else 0)
        for number, spec in enumerate(suite.specs):
            self.case(spec, number / parts)
        for one in chance.comparisons(
            seeds, suite.random_size, self.threads, suite.limit,
            lambda seed: self.progress.say(f"random query {seed}", (len(suite.specs) + 10 * seed / len(seeds)) / parts),
        ):  # fmt: skip
            self.comparisons.append(one)
            self.progress.compare(one)
        self.progress.say("planning", 1.0)
        texts = [chance.query_of(seed).text for seed in range(1, (suite.random_queries or 20) + 1)]
        return Document(
            described, suite.name, 1, tuple(self.records), tuple(self.comparisons), planning(texts),
            time.monotonic() - begin, self.missing,
        )  # fmt: skip

    def case(self, spec: Spec, share: float) -> None:
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
            self.progress.say(f"{case.case.key}: {text}", share)

        def judged() -> Expected:
            say("another engine counts")
            return judge(workload, case.stream, case.known, self.suite.judge_limit)

        limits = Limits(self.suite.limit, self.suite.budget, self.suite.rounds, self.threads)
        runs, expected = measured(case, small, self.strategies, limits, judged, say)
        for run in runs:
            self._take(record_of(run, case, self.threads, bound, plan), run)
        if set(self.strategies) == set(STRATEGIES):
            found = _comparison(runs, case)
            self.comparisons.append(found)
            self.progress.compare(found)
        for rival in self.rivals:
            if spec.rivals is None or rival in spec.rivals:
                for name in RIVALS[rival]:
                    if name not in self.missing:
                        expected = self._rival(spec, name, expected, bound, say)

    def _rival(
        self, spec: Spec, name: str, expected: Expected, bound: float | None, say: Callable[[str], None]
    ) -> Expected:
        """One contender of a rival, by both orders of vertices where that makes a difference."""
        suite = self.suite
        held = held_bytes() if name in HELD else None
        limits = Limits(suite.rival_limit, suite.budget, suite.rounds, self.threads, held)
        orders: list[Order] = ["generated"]
        for order in orders:
            case, small = made(spec, order), made(tiny(spec), order)
            wanted = expected if order == "generated" else replace(expected, digest=None)
            (run,), found = measured(
                case, small, [name], limits, lambda: wanted, lambda text: say(f"{name}, {text}")  # noqa: B023
            )  # fmt: skip
            if order == "generated":
                expected = found
            self._take(record_of(run, case, self.threads, bound, None), run)
            depends = case.workload.depends_on_order and run.about.get("depends_on_order", False)
            if depends and order == "generated" and not run.missing:
                orders.append("degree")
        return expected

    def _take(self, record: Record, run: Run) -> None:
        if run.missing:
            self.missing[run.contender] = run.stopped or ""
        else:
            self.records.append(record)
            self.progress.show(record)


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
