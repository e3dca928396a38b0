"""What ``gpu-wcoj bench`` and ``python -m bench.suite`` do."""

from __future__ import annotations

import contextlib
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from bench.rivals import dogs
from bench.suite.again import AGAIN, TAKEN_AGAIN
from bench.suite.ending import ending
from bench.suite.random_queries import RANDOM
from bench.suite.record import Comparison, Document, Record
from bench.suite.registry import RIVALS, STRATEGIES
from bench.suite.runner import Progress, SuiteRun
from bench.suite.store import Store
from bench.suite.suites import SUITES, Suite
from gpu_wcoj.cli.run import LateBar
from gpu_wcoj.errors import UsageError

SuiteName = Literal["quick", "varied", "skewed", "large", "full", "tiny"]
Strategy = Literal["wcoj", "binary", "auto"]
RESULTS = Path(__file__).parents[2] / ".run" / "bench"
"""Where the JSON goes if no folder is named; git ignores it."""
WITHIN, WITHIN_RANDOM = 1.15, 1.3
"""How many times as long as the better strategy ``auto`` may take."""


def main(
    suite: SuiteName = "quick",
    strategy: Strategy | None = None,
    rivals: str = "all",
    report: Path | None = None,
    threads: int = 1,
    workloads: Sequence[str] = (),
    *,
    resume: bool = False,
    limit: float | None = None,
    rounds: int | None = None,
    hours: float | None = None,
) -> int:
    """Run a suite, print what it finds, and write it as JSON; `gpu_wcoj.cli.main` says what the parameters are.

    Returns
    -------
    How many answers were wrong.

    Raises
    ------
    SystemExit
        After SIGINT or SIGTERM, when what there is has been written.
    """
    chosen = _chosen(SUITES[suite], workloads, limit, rounds)
    asked = {"all": tuple(RIVALS), "none": ()}.get(rivals, tuple(filter(None, rivals.split(","))))
    if unknown := sorted(set(asked) - set(RIVALS)):
        raise UsageError(f"there is no rival {', '.join(unknown)}.\n  The rivals are: {', '.join(RIVALS)}; all; none.")
    strategies = STRATEGIES if strategy is None else (strategy,)
    if "dogs3" in asked:
        with contextlib.suppress(dogs.NotBuiltError):  # its contender says what is missing
            dogs.build()
    print(f"suite {suite}: {len(chosen.specs)} cases, {', '.join((*strategies, *asked))}, {threads} thread(s) each")
    store = Store(report or RESULTS)
    with LateBar() as bar, ending() as end:
        seconds = math.inf if hours is None else hours * 3600
        progress = Progress(end.heeded(_logged(bar.update)), show, compare, store.write)
        run = SuiteRun(chosen, strategies, asked, threads, progress, seconds)
        if resume:
            _resume(run, store)
        try:
            document = run.run()
        except BaseException:
            if end.signal is None:
                raise
            document = replace(run.document, ended=f"{end.signal.name} ended it")
    store.write(document)
    conclude(document)
    print(f"Written to {store.path}")
    if report is not None:
        tell(report)
    if end.signal is not None:
        raise SystemExit(end.status)
    return len(wrong(document))


def _chosen(suite: Suite, workloads: Sequence[str], limit: float | None, rounds: int | None) -> Suite:
    """The suite as it is asked for."""
    if limit is not None:
        suite = replace(suite, limit=limit, rival_limit=limit)
    if rounds is not None:
        suite = replace(suite, rounds=rounds)
    if not workloads:
        return suite
    known = dict.fromkeys([spec.workload for spec in suite.specs] + [RANDOM] * bool(suite.random_queries))
    if unknown := sorted(set(workloads) - set(known)):
        raise UsageError(
            f"the suite '{suite.name}' has no workload {', '.join(unknown)}.\n  Its workloads are: {', '.join(known)}."
        )
    specs = tuple(spec for spec in suite.specs if spec.workload in workloads)
    return replace(suite, specs=specs, random_queries=suite.random_queries if RANDOM in workloads else 0)


def _resume(run: SuiteRun, store: Store) -> None:
    earlier = store.resumed(run.document)
    if earlier is None:
        print(f"{store.folder} holds nothing to resume of commit {run.document.machine['commit']}: it begins anew")
        return
    run.resume(earlier)
    print(f"resumes {store.path}, and skips the {len(earlier.done)} of {len(earlier.planned)} cases that it holds:")
    for name in earlier.done:
        print(f"  {name}")


def _logged(say: Callable[[str, float], None]) -> Callable[[str, float], None]:
    """Where nobody looks at a bar, a line says how far the run is, for who reads the log."""
    last = f"{0:.0%}"

    def both(what: str, share: float) -> None:
        nonlocal last
        say(what, share)
        if (shown := f"{share:.0%}") != last and not sys.stderr.isatty():
            print(what, flush=True)
        last = shown

    return both


def tell(folder: Path) -> None:
    """Write REPORT.md and report.html of all results in a folder, where matplotlib is installed."""
    try:
        from bench.suite.report import page
    except ImportError as error:
        print(f"There is no report, since a library is missing ({error}): pip install 'gpu_wcoj[bench]'")
        return
    for path in page.write(folder, page.read(folder)):
        print(f"Written to {path}")


def show(record: Record) -> None:
    """Print one line of a record."""
    what = f"{record.case.key:62} {record.contender:18}"
    if record.check is not None and not record.check.is_right:
        print(f"{what} WRONG: {record.check.message}", flush=True)
    elif record.seconds is None:
        print(f"{what} {record.stopped}", flush=True)
    else:
        spread = record.seconds
        work = "" if record.work is None else f", {(record.work.proposals or 0) / record.case.n_ticks:,.0f} proposals"
        memory = "" if record.peak_bytes is None else f", {record.peak_bytes / 1e6:,.0f} MB"
        by = record.check.by if record.check else ()
        print(
            f"{what} {_duration(spread.median):>8} ({_duration(spread.low)} to {_duration(spread.high)}){work}{memory}"
            f", right by {', '.join(by) or 'nobody'}",
            flush=True,
        )


def compare(comparison: Comparison) -> None:
    """Print one line of a comparison."""
    if comparison.ratio is None:
        stopped = "; ".join(f"{name}: {text}" for name, text in comparison.stopped.items())
        wrong = "" if comparison.check is None or comparison.check.is_right else comparison.check.message
        print(f"{_name(comparison):62} no ratio: {wrong or stopped}", flush=True)
        return
    medians = {name: statistics.median(rounds) for name, rounds in comparison.cpu_seconds.items() if rounds}
    times = ", ".join(f"{name} {_duration(seconds)}" for name, seconds in medians.items())
    work = "" if comparison.work_ratio is None else f", of work {comparison.work_ratio:.2f}"
    print(f"{_name(comparison):62} auto by the better one: {comparison.ratio:.2f}{work} ({times} a round)", flush=True)


def conclude(document: Document) -> None:
    """Print what the run says as a whole."""
    for name, reason in document.missing.items():
        print(f"{name} did not take part: {reason}")
    for text, random, within in (("workloads", False, WITHIN), ("random queries", True, WITHIN_RANDOM)):
        found = [one for one in document.comparisons if (one.case.family == RANDOM) == random]
        ratios = sorted((one.ratio, _name(one)) for one in found if one.ratio is not None)
        if ratios:
            above = sum(ratio > within for ratio, _ in ratios)
            worst = ", ".join(f"{ratio:.2f} ({name})" for ratio, name in ratios[:-4:-1])
            print(
                f"{text}: auto by the better strategy, median {statistics.median(ratio for ratio, _ in ratios):.2f}, "
                f"{above} of {len(ratios)} above {within}; the worst: {worst}"
            )
    if stopped := {record.case.key for record in document.records if TAKEN_AGAIN in record.notes}:
        print(
            f"unsettled times of {len(stopped)} cases were not taken again {AGAIN} times, as the seconds for that were "
            f"over; with --workloads they are: {', '.join(sorted({key.partition(',')[0] for key in stopped}))}"
        )
    planned = document.planning
    if planned is not None:
        print(
            f"planning: median {_duration(planned.seconds.median)}, at most {_duration(planned.seconds.most)}, "
            f"{planned.queries} queries of up to {planned.largest_atoms} atoms"
        )
    if document.ended is not None:
        left = document.left_out
        print(f"{document.ended}; {len(left)} of {len(document.planned)} cases are left out: {'; '.join(left)}")
    if failures := wrong(document):
        print(f"{len(failures)} WRONG ANSWERS: {'; '.join(failures)}")
    print(f"{document.seconds:.0f} s in all")


def wrong(document: Document) -> list[str]:
    """The contenders and cases whose answers are wrong."""
    found = [
        f"{one.contender} at {one.case.key}"
        for one in document.records
        if one.check is not None and not one.check.is_right
    ]
    found += [
        _name(one)
        for one in document.comparisons
        if one.case.family == RANDOM and one.check is not None and not one.check.is_right
    ]
    return found


def _name(comparison: Comparison) -> str:
    case = comparison.case
    return f"random query {case.seed}" if case.family == RANDOM else case.key


def _duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
