"""One case from start to end: contenders are warmed up and loaded, their answers checked, and then their ticks timed.

Contenders of one group take their rounds in turn, A B C, B C A, C A B and so on, each in its own process. Strategies
of the engine whose times are unsettled take their rounds again, in further processes; see `bench.suite.again`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.suite.again import AGAIN, TAKEN_AGAIN, Allowance, unsettled
from bench.suite.catalogue import Made
from bench.suite.child import Task, opened
from bench.suite.judge import HASHED_ROWS, Expected
from bench.suite.process import Process, StoppedError
from bench.suite.record import Check, Record, Spread, Work
from bench.suite.registry import OWN, STRATEGIES

COUNTED_ROWS = 2_000_000
"""Contenders are asked for the number of rows of the whole answer where it is no larger."""
START_SECONDS = 120.0
"""For the start of a process and its small case, which may compile."""


@dataclass(frozen=True)
class Limits:
    """How long a contender may take.

    Attributes
    ----------
    limit
        Seconds after which one that loads, or takes a round, is stopped.
    budget
        Seconds of timed rounds, after which a process begins no further one.
    rounds
        Timed rounds of a process, at most.
    limit_bytes
        Of address space, for the contenders that are held to a share of it.
    """

    limit: float
    budget: float
    rounds: int
    threads: int = 1
    limit_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Run:
    """One contender at one case, as far as it has come."""

    contender: str
    process: Process
    about: dict[str, Any] = field(default_factory=dict)
    loaded: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    undone: dict[str, Any] | None = None
    rounds: list[dict[str, Any]] = field(default_factory=list)
    undo_rounds: list[dict[str, Any]] = field(default_factory=list)
    count: int | None = None
    digest: str | None = None
    check: Check | None = None
    stopped: str | None = None
    unfinished: float | None = None
    missing: bool = False
    is_first_only: bool = False

    @property
    def spent(self) -> float:
        """Seconds of the timed rounds."""
        rounds = (*self.rounds, *self.undo_rounds)
        return float(sum(sum(one["seconds"]) for one in rounds))


def measured(
    made: Made, tiny: Made, names: Sequence[str], limits: Limits, expected: Callable[[], Expected],
    say: Callable[[str], None], allowance: Allowance | None = None,
) -> tuple[list[Run], Expected]:  # fmt: skip
    """Let contenders take a case; what comes back says of each what it found, or why it did not.

    Parameters
    ----------
    expected
        Called once, while no contender works; not at all if none is left.
    say
        Takes the name of what is done now.
    allowance
        How long times may be taken again; without one, as long as that takes.

    Returns
    -------
    The runs, and what was expected, with what right contenders have added to it.
    """
    with started(made, tiny, names, limits) as runs:
        say("warm-up")
        warmed(runs, made, limits)
        wanted = timed(runs, made, limits, expected, say)
    again, allowance = _unsettled(runs), allowance or Allowance()
    for number in range(AGAIN if again else 0):
        if allowance.is_spent:
            for run in again:
                _note(run, TAKEN_AGAIN, f"{number} of {AGAIN} times, as the seconds for that were over")
            break
        with allowance.spending():
            with started(made, tiny, [run.contender for run in again], limits) as others:
                say("warm-up of processes that time it again")
                warmed(others, made, limits)
                timed(others, made, limits, lambda: wanted, say, number + 1)
            for run, other in zip(again, others, strict=True):
                _joined(run, other)
    return runs, wanted


def _note(run: Run, name: str, text: str) -> None:
    run.about["notes"] = {**run.about.get("notes", {}), name: text}


def _unsettled(runs: Sequence[Run]) -> list[Run]:
    """Those of the engine's strategies whose times have to be taken again."""
    ours = [run for run in _alive(runs) if run.contender in STRATEGIES and run.check and run.check.is_right]
    rounds = {run.contender: [sum(one["cpu_seconds"]) for one in run.rounds or [run.first]] for run in ours}
    work = {run.contender: Work(**run.first["work"]) for run in ours if run.first.get("work")}
    names = unsettled(rounds, work)
    return [run for run in ours if run.contender in names]


def _joined(run: Run, other: Run) -> None:
    """Add the rounds that another process has taken of the same contender; a wrong answer of it counts."""
    if other.check is not None and not other.check.is_right:
        run.check = other.check
    elif other.stopped is not None or other.check is None:
        _note(run, "a further process", other.stopped or "had no answer")
    else:
        run.is_first_only = run.is_first_only or not (run.rounds or other.rounds)
        run.rounds = [*(run.rounds or [run.first]), *(other.rounds or [other.first])]
        run.undo_rounds = [*run.undo_rounds, *other.undo_rounds]


@contextmanager
def started(made: Made, tiny: Made, names: Sequence[str], limits: Limits) -> Generator[list[Run]]:
    """Let contenders start and warm up at the same time, as no time of this is kept; they are ended at the end."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-rows-")))
        made.stream.write(folder / "rows")
        tiny.stream.write(folder / "tiny")
        runs = []
        for name in names:
            task = Task(name, made.workload, made.case.how, limits.threads, folder / "rows", folder / "tiny")
            most = limits.limit_bytes.get(name)
            process = Process(opened, task, limits.threads, most, is_loaded=name in OWN)
            runs.append(Run(name, stack.enter_context(process)))
            runs[-1].process.tell("warm")
        yield runs
        for run in _alive(runs):
            run.process.tell("end")  # so that all of them are at it when the first is waited for


def warmed(runs: Sequence[Run], made: Made, limits: Limits) -> None:
    """Wait until all of them have warmed up."""
    deletes = any(len(change.deleted) for tick in made.stream.ticks for change in tick.values())
    for run in runs:
        _attempt(run, lambda run: run.about.update(run.process.hear(START_SECONDS + limits.limit)))
        if run.stopped is None and deletes and not run.about["takes_deletions"]:
            run.stopped = "takes no deletions"


def timed(
    runs: Sequence[Run], made: Made, limits: Limits, expected: Callable[[], Expected], say: Callable[[str], None],
    core: int = 0,
) -> Expected:  # fmt: skip
    """Let contenders that are warm load, answer, and take their rounds, one at a time; what comes back is expected.

    `core` is where the first round is taken; see `_timed_rounds`.
    """
    for run in _alive(runs):
        say(f"{run.contender} loads")
        _attempt(run, lambda run: run.loaded.update(run.process.ask("load", limits.limit)))
    wanted = expected() if _alive(runs) else Expected()
    for run in _alive(runs):
        say(f"{run.contender}, first round")
        _attempt(run, lambda run: _first_round(run, made, wanted, limits))
    wanted = settled(wanted, _alive(runs))
    say("timed rounds")
    _timed_rounds([run for run in _alive(runs) if run.check and run.check.is_right], made, limits, core)
    return wanted


def settled(expected: Expected, runs: Sequence[Run]) -> Expected:
    """Check every run; if nobody else knows the changes, the contenders that agree with all that is known say so.

    Where they do not agree with each other, and nobody else can tell who is right, none of them is.
    """
    agreeing = []
    for run in runs:
        message = _difference(expected, run)
        run.check = Check(message is None, expected.by, run.count, tuple(run.first["changes"]), message)
        if message is None:
            agreeing.append(run)
    if expected.changes is None and agreeing:
        first = agreeing[0]
        for run in agreeing[1:]:
            own = Expected(changes=first.check.changes if first.check else (), digest=first.digest)
            if (message := _difference(own, run)) is not None:
                for one in agreeing:
                    assert one.check is not None
                    text = f"{first.contender} and {run.contender} do not agree: {message}"
                    one.check = replace(one.check, is_right=False, message=text)
                return expected
        expected = replace(
            expected, changes=tuple(first.first["changes"]), digest=first.digest,
            by=(*expected.by, *(run.contender for run in agreeing)),
        )  # fmt: skip
    for run in agreeing:
        assert run.check is not None
        others = dict.fromkeys((*expected.by, *(one.contender for one in agreeing)))
        run.check = replace(run.check, by=tuple(name for name in others if name != run.contender))
    return expected


def record_of(run: Run, made: Made, threads: int, bound_rows: float | None, plan_seconds: float | None) -> Record:
    """What is kept of a run; no time of a wrong answer."""
    right = run.check is not None and run.check.is_right and run.stopped is None
    rounds = (run.rounds or [run.first]) if right else []
    undone = (run.undo_rounds or ([run.undone] if run.undone else [])) if right else []
    work = run.first.get("work")
    return Record(
        made.case, run.contender, threads, run.about.get("version"),
        seconds=Spread.of([value for one in rounds for value in one["seconds"]]),
        cpu_seconds=Spread.of([value for one in rounds for value in one["cpu_seconds"]]),
        undo_seconds=Spread.of([value for one in undone for value in one["seconds"]]),
        round_cpu_seconds=tuple(sum(one["cpu_seconds"]) for one in rounds),
        first_cpu_seconds=float(sum(run.first["cpu_seconds"])) if right else None,
        load_seconds=run.loaded.get("seconds") if right else None,
        first_only=right and (run.is_first_only or not run.rounds),
        peak_bytes=run.memory.get("peak_bytes"), before_bytes=run.loaded.get("before_bytes"),
        state_bytes=run.memory.get("state_bytes"),
        work=Work(**work) if work else None, bound_rows=bound_rows, plan_seconds=plan_seconds,
        check=run.check, stopped=run.stopped, unfinished_seconds=run.unfinished, notes=run.about.get("notes", {}),
    )  # fmt: skip


def _alive(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.stopped is None]


def _attempt(run: Run, what: Callable[[Run], None]) -> None:
    """Do something with a contender; if it is stopped, say so, and let the others go on."""
    try:
        what(run)
    except StoppedError as error:
        run.stopped = str(error)
        run.missing = error.kind == "MissingError"
        run.process.kill()


def _first_round(run: Run, made: Made, expected: Expected, limits: Limits) -> None:
    if expected.before is not None and expected.before <= COUNTED_ROWS:
        before = run.process.ask("count", limits.limit)["count"]
        if before != expected.before:
            run.first = {"changes": [], "seconds": [], "cpu_seconds": []}
            run.count = before
            return
    try:
        run.first = run.process.ask("forward", limits.limit)
    except StoppedError as error:
        run.unfinished = error.computed
        raise
    run.memory = run.process.ask("memory", limits.limit)
    if expected.after is not None and expected.after <= COUNTED_ROWS:
        run.count = run.process.ask("count", limits.limit)["count"]
        if expected.after <= HASHED_ROWS:
            run.digest = run.process.ask("digest", limits.limit)["digest"]
    run.unfinished = float(sum(run.first["cpu_seconds"]))  # where it is stopped while it takes the round back
    run.undone = _taken_back(run, made, limits)
    run.unfinished = None


def _taken_back(run: Run, made: Made, limits: Limits) -> dict[str, Any] | None:
    """Return to the state before the ticks; None where this was done by loading it again."""
    if run.about["takes_deletions"] and made.case.family != "arriving":
        return run.process.ask("back", limits.limit)
    run.process.ask("load", limits.limit)
    return None


def _difference(expected: Expected, run: Run) -> str | None:
    """What is wrong with a run's answers."""
    changes = tuple(run.first["changes"])
    if not changes and run.count is not None and run.count != expected.before:
        return f"{run.count:,} rows before the first tick; there are {expected.before:,}"
    if expected.changes is not None and changes != expected.changes:
        both = enumerate(zip(changes, expected.changes, strict=False))
        number, own, other = next(((i, a, b) for i, (a, b) in both if a != b), (0, len(changes), len(expected.changes)))
        return f"tick {number} changes the answer by {own:,} rows; it is {other:,}"
    if expected.total is not None and sum(changes) != expected.total:
        return f"the ticks change the answer by {sum(changes):,} rows; it is {expected.total:,}"
    if run.undone is not None and tuple(-one for one in reversed(run.undone["changes"])) != changes:
        return f"the ticks change the answer by {changes}, and taken back by {tuple(run.undone['changes'])}"
    if None not in (run.count, expected.after) and run.count != expected.after:
        return f"{run.count:,} rows after the last tick; there are {expected.after:,}"
    if None not in (run.digest, expected.digest) and run.digest != expected.digest:
        return f"the rows after the last tick have the hash {run.digest}; it is {expected.digest}"
    return None


def _timed_rounds(runs: Sequence[Run], made: Made, limits: Limits, core: int) -> None:
    """Rounds of all of them in turn; those of one thread on one core, which others may slow down, and then the next."""
    for number in range(limits.rounds):
        going = [run for run in _alive(runs) if run.spent + _cost(run) <= limits.budget]
        if not going:
            return
        if len(runs) > 1 and limits.threads == 1:
            for run in going:
                run.process.to_core(core + number)
        turn = number % len(going)
        for run in (*going[turn:], *going[:turn]):
            _attempt(run, lambda run: _round(run, made, limits))


def _cost(run: Run) -> float:
    """Seconds that one more round is expected to take."""
    undone = run.undone["seconds"] if run.undone else [run.loaded["seconds"]]
    return float(sum(run.first["seconds"]) + sum(undone))


def _round(run: Run, made: Made, limits: Limits) -> None:
    found = run.process.ask("forward", limits.limit)
    if found["changes"] != run.first["changes"]:
        assert run.check is not None
        message = f"a later round found {found['changes']}, the first one {run.first['changes']}"
        run.check = replace(run.check, is_right=False, message=message)
        run.stopped = "its answers differ from round to round"
        run.process.kill()
        return
    run.rounds.append(found)
    undone = _taken_back(run, made, limits)
    if undone is not None:
        run.undo_rounds.append(undone)
