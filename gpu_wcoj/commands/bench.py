"""The command ``gpu-wcoj bench``: a comparison of join strategies and of rival engines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from gpu_wcoj.errors import GpuWcojError, UsageError


def bench(
    *,
    suite: Literal["quick", "varied", "skewed", "large", "full", "tiny"] = "quick",
    strategy: Literal["wcoj", "binary", "auto"] | None = None,
    rivals: str = "all",
    report: Path | None = None,
    threads: int = 1,
    workloads: str = "",
    resume: bool = False,
    limit: float | None = None,
    rounds: int | None = None,
    hours: float | None = None,
) -> None:
    """Compare join strategies and rival engines; every answer is checked before it is timed.

    It needs the sources: what pip installs is the engine alone. Results are written after every case, so a run may be
    ended at any time.

    Parameters
    ----------
    suite
        quick takes four minutes on two processors, full some hours; varied takes some more than quick, varies
        changes, state and skew, and asks no rivals; skewed takes cyclic patterns from small states to larger ones;
        large takes up to a million insertions into states of millions; tiny only shows that everything runs.
    strategy
        One of the engine's; by default all of them, in turn.
    rivals
        Some of kept,duckdb,ladybug,graphblas,spark,dogs3; all or none. What is not installed is left out, and said.
    report
        A folder for the results as JSON, and for REPORT.md and report.html, made of all results there; by default
        there is no report, and results go to .run/bench of the sources.
    threads
        How many every contender may use.
    workloads
        Only these of the suite's, such as triangle,path3; random for the queries that chance writes.
    resume
        Go on with the results of a run that was ended, of the same commit and settings.
    limit
        Seconds that a contender may take to load, or for a round; the suite's own limits by default.
    rounds
        How often a contender is timed at each case, at most; as the suite says by default.
    hours
        No further case is begun after so many.
    """
    main_of_bench = _bench()
    lower_limits: list[tuple[str, float | None, float]] = [("threads", threads, 1), ("rounds", rounds, 1)]
    lower_limits += [("limit", limit, 0.001), ("hours", hours, 0.0)]
    for name, value, lowest in lower_limits:
        if value is not None and value < lowest:
            raise UsageError.invalid_value(f"--{name}", value, f"at least {lowest:g}")
    named = tuple(filter(None, workloads.split(",")))
    wrong = main_of_bench(
        suite, strategy, rivals, report, threads, named, resume=resume, limit=limit, rounds=rounds, hours=hours
    )
    if wrong:
        raise GpuWcojError(f"{wrong} answers were wrong, as the lines above say.\n  Please report it.")


def _bench() -> Callable[..., int]:
    """Return the main function of the benchmark in the sources of this package.

    Raises
    ------
    UsageError
        If the package was installed without them.
    """
    here = Path(__file__).resolve().parents[2]
    if not (here / "bench" / "suite").is_dir():
        raise UsageError(
            "the benchmark is not installed: it is a part of the sources, in the folder bench.\n"
            "  Get the sources of gpu_wcoj, and run 'make bench-suite' there."
        )
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))
    from bench.suite.command import main as run_suite

    return run_suite
