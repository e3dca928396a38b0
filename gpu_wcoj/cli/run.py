"""One run of a program over files: its ticks, their reports, and the totals."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, Self

from cyclopts import Parameter

from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.checkpoint.checkpoint import Checkpoint, Replay, restored
from gpu_wcoj.checkpoint.state import Definition
from gpu_wcoj.cli import FLAG
from gpu_wcoj.cli.answers import (
    STANDARD_OUTPUT,
    TABLE_ROWS,
    AnswerRows,
    ChangeLines,
    PrintedRelation,
    PrintOptions,
    TableFormat,
    as_shown,
    check_format,
    check_limit,
    print_relation,
    print_rows,
    write_answer,
)
from gpu_wcoj.cli.source import (
    EngineOptions,
    FileOptions,
    MatchOptions,
    MotifProgram,
    ProgramSource,
    TextOptions,
    check_files,
    check_sources,
    check_tick_rows,
    counts_of,
    expecting,
    files_of_program,
    outputs_of,
    parse_files,
    printed_of,
)
from gpu_wcoj.destination import replacing
from gpu_wcoj.errors import UsageError, counted
from gpu_wcoj.explain.render import Format
from gpu_wcoj.files.formats import SEPARATORS, form_of_name, is_facts
from gpu_wcoj.files.output import ChangeWriter, OutputSpec, write_whole
from gpu_wcoj.files.reader import DEFAULT_TICK_ROWS, Reader, as_declared, columns_of, open_input, read_table, ticks
from gpu_wcoj.files.record_batch import memory_budget
from gpu_wcoj.files.spec import InputSpec
from gpu_wcoj.planner.catalog import FILE, Catalog
from gpu_wcoj.program import ChangeCount, Program, TickReport
from gpu_wcoj.query.ir import Declaration
from gpu_wcoj.result import Result
from gpu_wcoj.units import format_bytes

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import RenderableType
    from rich.live import Live
    from rich.progress import Progress, TaskID


# The command ``gpu-wcoj run``: a program over files, tick by tick.


_PROGRAM: Final = Parameter(help="A file with the text of the program; - is standard input.")


_FACTS: Final = Parameter(name=("--facts", "-F"))
_RESULTS: Final = Parameter(name=("--results", "-D"), allow_leading_hyphen=True)


@Parameter(name="*")
@dataclass(frozen=True)
class FolderOptions:
    """The folders of the files that are read and written."""

    facts: Annotated[Path | None, _FACTS] = None
    """The folder of the files of .input lines, by default that of the program."""
    results: Annotated[Path | None, _RESULTS] = None
    """The folder of the files of .output lines, by default that of the program; - prints the relations."""
    output: Path | None = None
    """A folder for the changes of every tick, as RELATION/tick-000000000.parquet with a weight and a tick column; or -
    for standard output, as lines of csv, tsv or json."""

    @property
    def prints_all(self) -> bool:
        """Return whether all relations are printed."""
        return self.results in (Path("-"), STANDARD_OUTPUT)


def run(
    program: Annotated[Path | None, _PROGRAM] = None,
    /,
    *,
    text_options: TextOptions | None = None,
    file_options: FileOptions | None = None,
    engine_options: EngineOptions | None = None,
    match_options: MatchOptions | None = None,
    print_options: PrintOptions | None = None,
    count: Annotated[bool, FLAG] = False,
    folders: FolderOptions | None = None,
    checkpoint: Path | None = None,
    json: Annotated[bool, FLAG] = False,
) -> int:
    """Run a program over files: load the inputs as the first tick, then apply the changes.

    Parameters
    ----------
    count
        Count the answer without ever producing it.
    checkpoint
        A folder for the state after every tick: after a stop or a kill, the same command resumes there.
    json
        Print a line of JSON for each tick and a line at the end.
    """
    source = _source_of(program, text_options, file_options, match_options)
    files, printing = file_options or FileOptions(), print_options or PrintOptions()
    folders = folders or FolderOptions()
    output, results = folders.output, folders.results
    loaded, fed = source.loaded, source.fed
    check_tick_rows(files.tick_rows, fed)
    if count and output is not None:
        raise UsageError("--count produces no rows, so there is nothing for --output.\n  Leave out one of the two.")
    if (count or json) and printing != PrintOptions():
        raise UsageError.conflict("--format or --limit", "--count or --json", "Leave out one of the two.")
    check_limit(printing.limit)
    engine = source.program((engine_options or EngineOptions()).to_program_options())

    check_files(engine, loaded, fed)
    loaded, fed = expecting(engine, loaded), expecting(engine, fed)
    named_relations = {spec.relation for spec in (*loaded, *fed)}
    check_sources(engine, named_relations)
    folder = Path() if program is None else program.parent
    named, declared = files_of_program(engine, folders.facts or folder, named_relations, folders.facts is not None)
    if not named_relations and not engine.rules.directives and engine.inputs:
        raise UsageError(
            "there is nothing to run on.\n  Give --input RELATION=PATH, --changes RELATION=PATH, or both;"
            " or name files in the program, by lines .input."
        )
    if (count or json or output is not None) and results is not None:
        raise UsageError.conflict("-D", "--count, --json or --output", "Leave out one of the two.")
    written: tuple[OutputSpec, ...] = ()
    printed: tuple[PrintedRelation, ...] = ()
    if not count and output is None:
        if results is not None and not folders.prints_all:
            results.mkdir(parents=True, exist_ok=True)
        has_named_files = bool(named_relations) and results is None
        written = () if folders.prints_all else outputs_of(engine.rules, results or folder, has_named_files)
        printed = () if json else printed_of(engine.rules, folders.prints_all)
    if output != STANDARD_OUTPUT:
        check_format(printing.format, engine.outputs)
    job = Job(
        (*loaded, *named), fed, files.tick_rows, count, output, source.budget, json, checkpoint, declared, written,
        printing.format, printing.limit, printed,
    )  # fmt: skip
    totals = run_job(engine, job)
    return _tell_failures(counts_of(engine.rules), totals)


def _tell_failures(expected: Mapping[str, int], totals: Mapping[str, int]) -> int:
    """Print each relation with another number of rows than expected; return the exit status."""
    status = 0
    for name, count in expected.items():
        if totals.get(name, 0) != count:
            sys.stderr.write(
                f"test of '{name}' failed: it has {counted(totals.get(name, 0), 'row')}, expected {count:,}\n"
            )
            status = 1
    return status


def _refuse_named(output: str, relations: Sequence[str]) -> None:
    """Raise if a folder of output looks like an input, RELATION=PATH."""
    named, _, path = output.partition("=")
    if path and named in relations:
        remedy = "Name one folder: it gets one for each relation. For a single file, write .output in the program."
        raise UsageError.invalid_value("--output", output, "a folder, without the name of a relation", remedy)


def _source_of(
    program: Path | None,
    text_options: TextOptions | None,
    file_options: FileOptions | None,
    match_options: MatchOptions | None,
) -> ProgramSource:
    """Return the program that a command line names, with its files."""
    text, files = text_options or TextOptions(), file_options or FileOptions()
    return ProgramSource(
        program,
        None if text.text is None else "\n".join(text.text),
        text.language,
        text.dialect,
        parse_files(files.input),
        parse_files(files.changes),
        memory_budget(files.memory),
        (match_options or MatchOptions()).to_motif_options(),
    ).with_files_of_text()


# A progress bar for long work, shown on terminals only.


DELAY_SECONDS: Final = 0.5
"""Seconds of work before the bar appears."""

NARROW_COLUMNS: Final = 100
"""Terminal cells below which the bar leaves out the number of rows."""

LIVE_ROWS: Final = 5
"""Rows of answers above the bar."""


class LateBar:
    """A bar on standard error that appears after half a second, and only on a terminal.

    It shows what is done, the finished share and the remaining time if the total is known, the speed if `unit` has a
    name, the time since the start, and the first rows of the answers.

    Parameters
    ----------
    unit
        The counted unit, such as ``"rows"``; empty for a progress from 0 to 1.
    """

    def __init__(self, unit: str = "") -> None:
        self._unit = unit
        self._bar: Progress | None = None
        self._live: Live | None = None
        self._task: TaskID | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._is_over = False
        self._rows: list[str] = []

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            console = Console(stderr=True)
            text = (
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=max(8, min(40, console.width - 88))),
                TextColumn("{task.fields[amount]}", markup=False),
            )
            columns = (*text, TimeElapsedColumn(), TextColumn("{task.fields[left]}"), TimeRemainingColumn(compact=True))
            self._bar = Progress(*columns, console=console, auto_refresh=False)
            self._task = self._bar.add_task("loading", total=None, amount="", left="")
            self._live = Live(
                console=console, transient=True, refresh_per_second=5, get_renderable=self._render,
                redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            self._timer = threading.Timer(DELAY_SECONDS, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def update(
        self, what: str, done: float | None, total: float | None = 1.0, answer_rows: AnswerRows | None = None
    ) -> None:
        """Set the text and the progress; None for an unknown `done` or `total`."""
        if self._bar is None or self._task is None:
            return
        total = None if done is None else total
        self._bar.update(self._task, description=what, total=total, completed=done or 0.0)
        speed = self._bar.tasks[0].speed
        amount = [f"{int(100 * done / total)}%"] if done is not None and total else []
        if self._unit and done is not None:
            is_narrow = self._bar.console.width < NARROW_COLUMNS and bool(amount)
            amount += [] if is_narrow else [f"{done:,.0f} {self._unit}"]
            amount += [f"{speed:,.0f} {self._unit}/s"] if speed else []
        self._bar.update(self._task, amount=", ".join(amount), left="left:" if total else "")
        if answer_rows is not None:
            self._rows = answer_rows.lines(LIVE_ROWS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None and self._timer is not None:
            self._timer.cancel()
            with self._lock:
                self._is_over = True
                self._live.stop()

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        assert self._bar is not None
        lines = [Text(line, no_wrap=True, overflow="ellipsis") for line in self._rows]
        return Group(*lines, self._bar.get_renderable())

    def _show(self) -> None:
        with self._lock:
            if self._live is not None and not self._is_over:
                self._live.start()


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
    form
        The form in which the answers are printed at the end.
    limit
        Maximum rows of each answer that are printed; None for the default of the form.
    printed
        Relations that are printed as Soufflé prints them; then there is no summary.
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
    form: TableFormat = "table"
    limit: int | None = None
    printed: tuple[PrintedRelation, ...] = ()

    @property
    def n_shown(self) -> int:
        """Rows of each answer in tables."""
        if self.counts_only or self.prints_json or self.form != "table" or self.output == STANDARD_OUTPUT:
            return 0
        return TABLE_ROWS if self.limit is None else self.limit


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


def run_job(program: Runnable, job: Job) -> Mapping[str, int]:
    """Run `program` to the end of the files of `job`, reporting on standard output.

    Returns
    -------
    Mapping
        The number of rows of each output.

    Raises
    ------
    InputFileError, UsageError, MemoryBudgetError, OutputFileError
        Also every error of `Program.step`. Ticks before the failed one have been reported and written.
    """
    start = time.perf_counter()
    totals = _Totals(net=dict.fromkeys(program.outputs, 0))
    answer_rows = AnswerRows(job.n_shown)
    with ExitStack() as stack:
        replay = None if job.checkpoint is None else _resumed(program, job.checkpoint, stack)
        resumes_at = None
        if replay is not None:
            resumes_at = replay.done if replay.is_resumed else None
            totals = _Totals.from_json(replay.extra["totals"]) if replay.done else totals
        writer: ChangeWriter | ChangeLines | None = None
        if job.output is not None:
            run = None if replay is None else replay.name
            if resumes_at and replay is not None and not replay.extra.get("written"):
                raise UsageError.wrong_state(
                    "--output",
                    f"{counted(resumes_at, 'tick')} of the checkpoint ran without it, so their changes are in no file",
                    "Leave it out again; or start over with an empty folder and an empty checkpoint.",
                )
            _refuse_named(str(job.output), program.outputs)
            if job.output == STANDARD_OUTPUT:
                writer = ChangeLines(job.form, program.outputs)
            else:
                writer = ChangeWriter(job.output, program.outputs, resumes_at, run)
        bar = stack.enter_context(LateBar("rows"))
        bar.update("reading", None)
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
            ticks_text = _tick_text(totals, job, n_applied, n_total, n_loaded)
            bar.update(f"{ticks_text}: {_describe_joining()}", n_applied, n_total)
            tick_start = time.perf_counter()
            counts = _step(program, job, changes, totals.ticks, writer, answer_rows)
            tick = totals.ticks
            totals.add(counts, program.last_tick.ignored)
            if replay is not None:
                replay.commit({"totals": totals.to_json(), "written": writer is not None})
            if job.prints_json:
                _print_tick(tick, counts, time.perf_counter() - tick_start)
            n_applied += n_rows
            bar.update(f"{ticks_text}: reading", n_applied, n_total, answer_rows)
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
        _print_answers(program, job, totals, answer_rows)
        if job.form == "table" and job.output != STANDARD_OUTPUT and not job.printed:
            _print_table(totals, seconds)
    return totals.net


def _print_answers(program: Runnable, job: Job, totals: _Totals, answer_rows: AnswerRows) -> None:
    """Print the rows of the answers that are not written to files."""
    written = {result.relation for result in job.results}
    for printed in job.printed:
        answer = _answer_of(program, printed.relation)
        print_relation(printed, answer, _declaration_of(program, printed.relation))
        written.add(printed.relation)
    for name in program.outputs:
        if job.counts_only or name in written or job.output == STANDARD_OUTPUT or job.limit == 0:
            continue
        if job.form != "table":
            answer = _answer_of(program, name)
            answer = answer if job.limit is None else answer.limit(job.limit)
            write_answer(name, answer, job.form, len(program.outputs) > 1)
            continue
        rows, n_rows = answer_rows.rows(name), totals.net.get(name, 0)
        if len(rows) < min(job.n_shown, n_rows):
            rows = _answer_of(program, name).limit(job.n_shown).rows()
        columns, kinds = _columns_of(program, name)
        print_rows(name, columns, kinds, rows, n_rows)


def _declaration_of(program: Runnable, name: str) -> Declaration | None:
    """Return the declaration of a relation, if there is one."""
    assert isinstance(program, Program), "only programs name files"
    return next((one for one in program.rules.declarations if one.relation == name), None)


def _answer_of(program: Runnable, name: str) -> Result:
    """Return the complete answer of this name."""
    if isinstance(program, MotifProgram):
        return program.matches()
    assert isinstance(program, Program)
    return Result(program.relation(name))


def _columns_of(program: Runnable, name: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names and the types of the columns of an answer."""
    if isinstance(program, MotifProgram):
        names = program.columns
        return names, [""] * len(names)
    assert isinstance(program, Program)
    empty = program.empty(name)
    return empty.names, [column.type.label for column in empty.columns]


def _tick_text(totals: _Totals, job: Job, n_applied: int, n_total: int | None, n_loaded: int) -> str:
    """Describe the place of the next tick among all ticks.

    Their number is left out if it can be neither known nor estimated.
    """
    tick = totals.ticks + 1
    if n_total is None or not job.changes:
        return f"tick {tick:,}"
    if len(job.changes) == 1 and job.changes[0].tick is None:
        n_ticks = bool(job.inputs) + -(-(n_total - n_loaded) // (job.tick_rows or DEFAULT_TICK_ROWS))
        return f"tick {tick:,} of {n_ticks:,}"
    if n_applied <= n_loaded or tick < 3:
        return f"tick {tick:,}"
    n_fed = totals.ticks - bool(job.inputs)
    n_ticks = bool(job.inputs) + round(n_fed * (n_total - n_loaded) / (n_applied - n_loaded))
    return f"tick {tick:,} of about {max(n_ticks, tick):,}"


def _describe_joining() -> str:
    return "joining, kernels compile" if cpu_backend().is_interim else "joining"


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
            _step(program, job, last_changes, 0, None, AnswerRows(0))


def _resumed(program: Runnable, path: Path, stack: ExitStack) -> Replay:
    """Return the checkpoint after loading its state into the program."""
    if not isinstance(program, Program):
        raise UsageError.unsupported("a stored state of a motif", remedy="Leave out --checkpoint.")
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
    table = (rows if program.bag else rows.with_weight_name(None)).to_arrow()
    is_text = not spec.path.name.endswith(".parquet")
    shown = as_shown(table, _declaration_of(program, spec.relation)) if is_text and not program.bag else table
    write_whole(spec, shown, "Name a file that can, with filename= of .output.")


def _step(
    program: Runnable,
    job: Job,
    changes: dict[str, pa.Table],
    tick: int,
    writer: ChangeWriter | ChangeLines | None,
    answer_rows: AnswerRows,
) -> Mapping[str, ChangeCount]:
    if job.counts_only:
        return program.step_counts(changes)
    if writer is None:
        return program.step_pieces(changes, answer_rows.follow)

    def hand_out(name: str, piece: Any) -> None:
        writer.write(name, piece)
        answer_rows.follow(name, piece)

    with writer.tick(tick):
        return program.step_pieces(changes, hand_out)


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

    columns: dict[str, Mapping[str, int | None]] = {"total": totals.net}
    counted_changes = {"inserted": totals.inserted, "deleted": totals.deleted}
    if any(count is not None for counts in counted_changes.values() for count in counts.values()):
        columns = {**counted_changes, **columns}
    table = Table("relation", box=box.ROUNDED)
    for heading in columns:
        table.add_column(heading, justify="right")
    for name in totals.net:
        table.add_row(name, *(_format_count(counts.get(name, 0)) for counts in columns.values()))
    console = Console(highlight=False)
    console.print(table)
    peak = peak_rss_bytes()
    console.print(
        f"{counted(totals.ticks, 'tick')} in {seconds:.2f} s" + (f", peak memory {format_bytes(peak)}" if peak else "")
    )
    for name, ignored in totals.ignored.items():
        if ignored:
            why = "present or absent already, or undone in their tick"
            console.print(f"{counted(ignored, 'row')} of '{name}' changed nothing: {why}")


def _format_count(count: int | None) -> str:
    return "not counted" if count is None else f"{count:,}"


def peak_rss_bytes() -> int:
    """Return the peak memory of this process, without the processes that read files.

    It is 0 if unknown, as on Windows. On Linux VmHWM is read first: ru_maxrss can be the size of the parent process
    that started this one.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# The command ``gpu-wcoj explain``: the plan of a program.


_FORMAT = Parameter(
    name=("--format", "--as"),
    help=(
        "text, json, mermaid (a flowchart), svg (a drawing) or html (a page with the drawing and the text); or "
        "datalog, which is the program itself. For a motif, a column _row numbers the rows of a table."
    ),
)


@Parameter(name="*")
@dataclass(frozen=True)
class PlanOptions:
    """The content and the form of an explanation."""

    stats: Path | None = None
    """A folder with statistics of the relations, written by --save-stats, or with a checkpoint of the program."""
    save_stats: Path | None = None
    """A folder for the statistics of the relations after all files, as statistics.json."""
    analyze: Annotated[bool, FLAG] = False
    """Add measurements of the last tick: per level prefixes, bound on the work, proposals, survivors, bytes, time."""
    bounds: Annotated[bool, FLAG] = False
    """Add the maximum prefixes of each level for one changed row, by linear programs (needs SciPy)."""
    count: Annotated[bool, FLAG] = False
    """Let that tick count the answer without producing it."""
    format: Annotated[Format, _FORMAT] = "text"


def explain(
    program: Annotated[Path | None, _PROGRAM] = None,
    /,
    *,
    text_options: TextOptions | None = None,
    file_options: FileOptions | None = None,
    engine_options: EngineOptions | None = None,
    match_options: MatchOptions | None = None,
    plan_options: PlanOptions | None = None,
    output: Path | None = None,
) -> None:
    """Print the plan of a program: each delta path with its seed, variables and extenders.

    Parameters
    ----------
    output
        A file to write to, instead of the terminal.
    """
    source = _source_of(program, text_options, file_options, match_options)
    files, plan = file_options or FileOptions(), plan_options or PlanOptions()
    loaded, fed = source.loaded, source.fed
    check_tick_rows(files.tick_rows, fed)
    if plan.count and not plan.analyze:
        raise UsageError.missing("--count", "--analyze", "Add --analyze.")
    engine = source.program((engine_options or EngineOptions()).to_program_options())

    check_files(engine, loaded, fed)
    loaded, fed = expecting(engine, loaded), expecting(engine, fed)
    named: tuple[InputSpec, ...] = ()
    declared: dict[str, tuple[str | None, ...]] = {}
    if plan.stats is None and (loaded or fed or plan.analyze or plan.save_stats is not None):
        folder = Path() if program is None else program.parent
        named_relations = {spec.relation for spec in (*loaded, *fed)}
        named, declared = files_of_program(engine, folder, named_relations)
        if named_relations or named:
            check_sources(engine, named_relations)
    job = Job((*loaded, *named), fed, files.tick_rows, plan.count, None, source.budget, False, declared=declared)
    explanation = explained(engine, job, plan).rstrip("\n") + "\n"
    if output is None:
        sys.stdout.write(explanation)
        return
    with replacing(output) as file:
        file.write(explanation.encode())


# Explain a program on the content of files: rows, a checkpoint, or statistics.


def explained(program: Program | MotifProgram, job: Job, plan: PlanOptions) -> str:
    """Return the program's plan after the files of the job were read.

    Raises
    ------
    UsageError
        If the options do not go together.
    CheckpointError, SchemaError, InputFileError
        If a file is not what it should be.
    """
    stats, save_stats, analyze, bounds, form = plan.stats, plan.save_stats, plan.analyze, plan.bounds, plan.format
    if form == "datalog":  # reads only the column names that a language needs
        if stats is not None or save_stats is not None:
            raise UsageError.conflict("--format datalog", "statistics", "Leave out --stats and --save-stats.")
        return program.explain(analyze=analyze, bounds=bounds, format=form)
    has_files = bool(job.inputs or job.changes)
    has_statistics = stats is not None and (stats / FILE).is_file()
    if analyze and not has_files and program.inputs:
        instead = "Give --input RELATION=PATH, --changes RELATION=PATH, or both."
        if has_statistics:
            instead = "Statistics have no rows: leave out --stats, and give --input RELATION=PATH."
        elif stats is not None:
            instead = "Give --changes RELATION=PATH, for a tick behind those of the checkpoint."
        raise UsageError.missing("--analyze", "a tick to explain", instead)
    if stats is not None and has_statistics:
        if has_files or save_stats is not None:
            raise UsageError.with_parts(
                f"'{stats}' has statistics without rows, so no state can continue from it",
                subject=str(stats),
                remedy="Leave out --stats, or else --input, --changes and --save-stats.",
            )
        return program.explain(statistics=stats, bounds=bounds, format=form)
    if stats is not None:
        if job.inputs:
            raise UsageError.conflict(
                f"--stats '{stats}'", "--input", "Use --changes.", why="the first tick is part of the stored state"
            )
        program = _restored(_stored(program), stats)
    if has_files or analyze:
        feed_job(program, job, analyze)
    if save_stats is not None:
        _save(_stored(program), save_stats)
    return program.explain(analyze=analyze, bounds=bounds, format=form)


def _stored(program: Program | MotifProgram) -> Program:
    if isinstance(program, Program):
        return program
    raise UsageError.unsupported("a stored state of a motif", remedy="Leave out --stats and --save-stats.")


def _restored(program: Program, folder: Path) -> Program:
    """Return the same program in the state of a checkpoint, which is only read."""
    if not any(folder.glob("manifest-*.json")):
        raise UsageError.missing(
            f"'{folder}'", f"{FILE} or a checkpoint", "Give a folder written by --save-stats or Program.checkpoint."
        )
    stored_program = restored(folder, Program.from_options, program.options)
    Definition.from_subject(stored_program.subject).check(Definition.from_subject(program.subject), folder)
    return stored_program


def _save(program: Program, folder: Path) -> None:
    """Write the statistics of the relations in the state."""
    lowered = program.subject.ledger.lowered
    if lowered is None:
        raise UsageError.missing("--save-stats", "a state with rows", "Give --input RELATION=PATH.")
    widths = {name: shape.width for name, shape in lowered.shapes.items()}
    Catalog.of_circuit(lowered.circuit, widths, program.subject.lowering.arity).write(folder)


# The command ``gpu-wcoj convert``: rows of files in another format.


_FROM: Final = Parameter(help="The file, folder or pattern to read, with options as for run: PATH?option=value&...")
_TO: Final = Parameter(help="The file to write; its ending is .parquet, .csv, .tsv or .facts, of a text also with .gz.")


def convert(source: Annotated[str, _FROM], target: Annotated[Path, _TO], /, *, memory: str | None = None) -> None:
    """Write the rows of files to a file of another format.

    Parameters
    ----------
    memory
        Maximum memory of rows, such as 4GB; by default half of the machine's memory.
    """
    form = form_of_name(target)
    if form not in ("parquet", "csv", "tsv") or (form == "parquet" and target.suffix != ".parquet"):
        raise UsageError.unsupported(
            f"output '{target}'", remedy="Name a file that ends in .parquet, .csv, .tsv or .facts."
        )
    (spec,), budget = parse_files([f"rows={source}"]), memory_budget(memory)
    names = list(columns_of(spec, False, budget))
    table = read_table(spec, len(names), budget)
    table = table.rename_columns([*names, *table.column_names[len(names) :]])
    separator = SEPARATORS.get(form, "\t")
    write_whole(OutputSpec("rows", target, separator, header=not is_facts(target)), table)
    sys.stdout.write(f"{counted(table.num_rows, 'row')} of {', '.join(table.column_names)}\n")
