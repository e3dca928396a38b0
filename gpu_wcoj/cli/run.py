"""One run of a program over files: its ticks, their reports, and the totals."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gpu_wcoj.errors import UsageError
from gpu_wcoj.files.declared import as_declared
from gpu_wcoj.files.output import ChangeWriter
from gpu_wcoj.files.reader import Reader, open_input, read_table
from gpu_wcoj.files.spec import InputSpec
from gpu_wcoj.files.ticks import ticks
from gpu_wcoj.files.whole import OutputSpec, write_whole
from gpu_wcoj.program import ChangeCount, Program, TickReport
from gpu_wcoj.progress import LateBar
from gpu_wcoj.units import format_bytes

if TYPE_CHECKING:
    import pyarrow as pa

    from gpu_wcoj.checkpoint.replay import Replay


class Runnable(Protocol):
    """The interface that a run needs of a program."""

    @property
    def analyze(self) -> bool:
        """True if ticks are measured."""
        ...

    @analyze.setter
    def analyze(self, value: bool) -> None: ...

    @property
    def bag(self) -> bool:
        """True if it has exact weights."""
        ...

    @property
    def inputs(self) -> tuple[str, ...]:
        """The relations that take rows."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """The relations whose changes a tick returns."""
        ...

    @property
    def last_tick(self) -> TickReport:
        """The report of the last tick."""
        ...

    def arity(self, relation: str, /) -> int:
        """Return the number of columns of a relation."""
        ...

    def step_counts(self, changes: Mapping[str, Any], /) -> Mapping[str, ChangeCount]:
        """Run a tick and count the changes."""
        ...

    def step_pieces(self, changes: Mapping[str, Any], sink: Callable[[str, Any], None], /) -> Mapping[str, ChangeCount]:
        """Run a tick and pass the changes to `sink`."""
        ...

    def load(self, changes: Mapping[str, Any], /) -> None:
        """Run a tick that only updates the state."""


@dataclass(frozen=True)
class Job:
    """The input files of a run and the form of its results.

    Attributes
    ----------
    inputs
        Files that are loaded whole, together, as the first tick.
    changes
        Files that are fed tick by tick.
    tick_rows
        Rows per tick if the files have no tick columns; None for the default.
    counts_only
        True if the answer is counted without being produced.
    output
        The folder for the changes of every tick, or None.
    budget
        Maximum bytes of rows in memory at one time.
    prints_json
        True to print a line of JSON for every tick and at the end; else a table at the end.
    checkpoint
        The folder for the state after every tick, or None. Ticks that it contains are skipped.
    declared
        Types of the rows of `inputs`, by relation; other relations have the types of their files.
    results
        Output files for complete relations after the last tick.
    """

    inputs: tuple[InputSpec, ...]
    changes: tuple[InputSpec, ...]
    tick_rows: int | None
    counts_only: bool
    output: Path | None
    budget: int
    prints_json: bool
    checkpoint: Path | None = None
    declared: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    results: tuple[OutputSpec, ...] = ()


@dataclass
class _Totals:
    """Totals of the ticks so far, by relation.

    None if single insertions and deletions are not counted.
    """

    ticks: int = 0
    net: dict[str, int] = field(default_factory=dict)
    inserted: dict[str, int | None] = field(default_factory=dict)
    deleted: dict[str, int | None] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> _Totals:
        return cls(**content)

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    def add(self, counts: Mapping[str, ChangeCount], ignored: Mapping[str, int]) -> None:
        self.ticks += 1
        for name, change in counts.items():
            self.net[name] = self.net.get(name, 0) + change.net
            self.inserted[name] = _plus(self.inserted.get(name, 0), change.inserted)
            self.deleted[name] = _plus(self.deleted.get(name, 0), change.deleted)
        for name, count in ignored.items():
            self.ignored[name] = self.ignored.get(name, 0) + count


def run_job(program: Runnable, job: Job) -> None:
    """Run `program` to the end of the files of `job`, reporting on standard output.

    Raises
    ------
    InputFileError, UsageError, MemoryBudgetError, OutputFileError
        Also every error of `Program.step`. Ticks before the failed one have been reported and written.
    """
    start = time.perf_counter()
    totals = _Totals(net=dict.fromkeys(program.outputs, 0))
    with ExitStack() as stack:
        replay = None if job.checkpoint is None else _resumed(program, job.checkpoint, stack)
        resumes_at = None
        if replay is not None:
            resumes_at = replay.done if replay.is_resumed else None
            totals = _Totals.from_json(replay.extra["totals"]) if replay.done else totals
        writer = None
        if job.output is not None:
            run = None if replay is None else replay.name
            if resumes_at and replay is not None and not replay.extra.get("written"):
                raise UsageError.wrong_state(
                    "--output",
                    f"{resumes_at:,} ticks of the checkpoint ran without it, so their changes are in no file",
                    "Leave it out again; or start over with an empty folder and an empty checkpoint.",
                )
            writer = ChangeWriter(job.output, program.outputs, resumes_at, run)
        bar = stack.enter_context(LateBar("rows"))
        readers: dict[str, Reader] = {}
        for spec in job.changes:
            reader = open_input(spec, program.arity(spec.relation), True, job.budget)
            readers[spec.relation] = stack.enter_context(closing(reader))
        n_applied, n_loaded = 0, None if job.inputs else 0
        for changes in _ticks(program, job, readers):
            n_rows = sum(table.num_rows for table in changes.values())
            n_loaded = n_rows if n_loaded is None else n_loaded
            n_total = _total(readers, n_loaded)
            if replay is not None and replay.is_done(changes):
                n_applied += n_rows
                bar.update("skipping ticks that are done", n_applied, n_total)
                continue
            bar.update(f"tick {totals.ticks + 1:,}", n_applied, n_total)
            tick_start = time.perf_counter()
            counts = _step(program, job, changes, totals.ticks, writer)
            tick = totals.ticks
            totals.add(counts, program.last_tick.ignored)
            if replay is not None:
                replay.commit({"totals": totals.to_json(), "written": writer is not None})
            if job.prints_json:
                _print_tick(tick, counts, time.perf_counter() - tick_start)
            n_applied += n_rows
            bar.update(f"tick {totals.ticks:,}", n_applied, n_total)
        if replay is not None:
            replay.finish()
        for result in job.results:
            bar.update(f"writing {result.relation}", None)
            _write_result(program, result)
    seconds = time.perf_counter() - start
    if job.prints_json:
        peak = peak_rss_bytes()
        _print_line({"total": totals.net, "ticks": totals.ticks, "seconds": round(seconds, 6), "peak_rss_bytes": peak})
    else:
        _print_table(totals, seconds)


def feed_job(program: Runnable, job: Job, analyze: bool) -> None:
    """Bring the program to the state at the end of the job's files, without output.

    Parameters
    ----------
    analyze
        True if the last tick is measured and computes its answers, as in a run; all others only update the state.

    Raises
    ------
    InputFileError, UsageError, MemoryBudgetError
        Also every error of `Program.step`.
    """
    with ExitStack() as stack:
        readers: dict[str, Reader] = {}
        for spec in job.changes:
            reader = open_input(spec, program.arity(spec.relation), True, job.budget)
            readers[spec.relation] = stack.enter_context(closing(reader))
        last_changes: dict[str, pa.Table] | None = None
        for changes in _ticks(program, job, readers):
            if last_changes is not None:
                program.load(last_changes)
            last_changes = changes
        if last_changes is not None and not analyze:
            program.load(last_changes)
        elif last_changes is not None:
            program.analyze = True
            _step(program, job, last_changes, 0, None)


def _resumed(program: Runnable, path: Path, stack: ExitStack) -> Replay:
    """Return the checkpoint after loading its state into the program."""
    if not isinstance(program, Program):
        raise UsageError.unsupported("a stored state of a motif", remedy="Leave out --checkpoint.")
    from gpu_wcoj.checkpoint import Checkpoint
    from gpu_wcoj.checkpoint.replay import Replay

    checkpoint = stack.enter_context(Checkpoint.open(path, program=program))
    checkpoint.restore(program)
    return Replay(checkpoint)


def _ticks(program: Runnable, job: Job, readers: Mapping[str, Reader]) -> Iterator[dict[str, pa.Table]]:
    if job.inputs or not readers:
        yield {spec.relation: _read_whole(program, job, spec) for spec in job.inputs}
    yield from ticks(readers, job.tick_rows, job.budget)


def _read_whole(program: Runnable, job: Job, spec: InputSpec) -> pa.Table:
    table = read_table(spec, program.arity(spec.relation), job.budget)
    return as_declared(table, spec, job.declared[spec.relation]) if spec.relation in job.declared else table


def _write_result(program: Runnable, spec: OutputSpec) -> None:
    assert isinstance(program, Program), "only programs name files"
    rows = program.relation(spec.relation)
    write_whole(spec, (rows if program.bag else rows.with_weight_name(None)).to_arrow())


def _step(
    program: Runnable, job: Job, changes: dict[str, pa.Table], tick: int, writer: ChangeWriter | None
) -> Mapping[str, ChangeCount]:
    if job.counts_only:
        return program.step_counts(changes)
    if writer is None:
        return program.step_pieces(changes, lambda _name, _piece: None)
    with writer.tick(tick):
        return program.step_pieces(changes, writer.write)


def _total(readers: Mapping[str, Reader], n_loaded: int) -> int | None:
    """Return the rows of all ticks, `n_loaded` of them in the first; None while unknown."""
    counts = [reader.n_rows for reader in readers.values()]
    return n_loaded + sum(count for count in counts if count is not None) if None not in counts else None


def _plus(total: int | None, more: int | None) -> int | None:
    return None if total is None or more is None else total + more


def _print_tick(tick: int, counts: Mapping[str, ChangeCount], seconds: float) -> None:
    changes: dict[str, dict[str, int]] = {}
    for name, change in counts.items():
        if change.inserted is None or change.deleted is None:
            changes[name] = {"net": change.net}
        else:
            changes[name] = {"inserted": change.inserted, "deleted": change.deleted}
    _print_line({"tick": tick, "changes": changes, "seconds": round(seconds, 6)})


def _print_line(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def _print_table(totals: _Totals, seconds: float) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table("relation", box=box.ROUNDED)
    for heading in ("inserted", "deleted", "total"):
        table.add_column(heading, justify="right")
    for name, net in totals.net.items():
        table.add_row(
            name,
            _format_count(totals.inserted.get(name, 0)),
            _format_count(totals.deleted.get(name, 0)),
            _format_count(net),
        )
    console = Console(highlight=False)
    console.print(table)
    ticks_text = "1 tick" if totals.ticks == 1 else f"{totals.ticks:,} ticks"
    console.print(f"{ticks_text} in {seconds:.2f} s, peak memory {format_bytes(peak_rss_bytes())}")
    for name, ignored in totals.ignored.items():
        if ignored:
            why = "present or absent already, or undone in their tick"
            console.print(f"{ignored:,} rows of '{name}' changed nothing: {why}")


def _format_count(count: int | None) -> str:
    return "not counted" if count is None else f"{count:,}"


def peak_rss_bytes() -> int:
    """Return the peak memory of this process, without the processes that read files.

    On Linux VmHWM is read first: ru_maxrss can be the size of the parent process that started this one.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
