"""The command ``gpu-wcoj explain``: the plan of a program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from gpu_wcoj.checkpoint.state import Definition
from gpu_wcoj.cli import FLAG
from gpu_wcoj.cli.run import Job, feed_job
from gpu_wcoj.cli.source import (
    DIALECT,
    FILES,
    LANGUAGE,
    TEXT,
    Motif,
    MotifProgram,
    check_files,
    check_sources,
    check_tick_rows,
    expecting,
    files_of_program,
    motif_options,
    parse_files,
)
from gpu_wcoj.errors import UsageError
from gpu_wcoj.planner.catalog import FILE, Catalog
from gpu_wcoj.program import Program
from gpu_wcoj.query.languages import Language

if TYPE_CHECKING:
    from gpu_wcoj.explain.render import Format
    from gpu_wcoj.files.spec import InputSpec


_AS = Parameter(name=("--format", "--as"))


def explain(
    program: Annotated[Path | None, Parameter(help="A file with the text of the program.")] = None,
    /,
    *,
    text: Annotated[str | None, TEXT] = None,
    language: Annotated[Language | None, LANGUAGE] = None,
    dialect: Annotated[str, DIALECT] = "duckdb",
    input: Annotated[list[str] | None, FILES] = None,  # noqa: A002  # the option is called --input
    changes: Annotated[list[str] | None, FILES] = None,
    tick_rows: int | None = None,
    stats: Path | None = None,
    save_stats: Path | None = None,
    analyze: Annotated[bool, FLAG] = False,
    bounds: Annotated[bool, FLAG] = False,
    count: Annotated[bool, FLAG] = False,
    format: Annotated[Literal["text", "json", "mermaid", "svg", "datalog"], _AS] = "text",  # noqa: A002  # its name
    output: Path | None = None,
    backend: Literal["auto", "cpu", "cuda"] = "auto",
    threads: int | None = None,
    strategy: Literal["auto", "wcoj", "binary"] = "auto",
    bag: Annotated[bool, FLAG] = False,
    motif: Motif | None = None,
    memory: str | None = None,
) -> None:
    """Print the plan of a program: each delta path with its seed, variables and extenders.

    The plan depends on the rows of the relations; without files it uses no statistics. Files have the form as for run.

    Parameters
    ----------
    input
        A file that is loaded before all changes; once for each relation.
    changes
        A file whose rows follow in order, cut into ticks; once for each relation.
    tick_rows
        Rows of changes per tick, by default 1000; not for files with tick columns.
    stats
        A folder with statistics of the relations, written by --save-stats, or with a checkpoint of the program.
    save_stats
        A folder for the statistics of the relations after all files, as statistics.json.
    analyze
        Add measurements of the last tick: per level prefixes, bound on the work, proposals, survivors, bytes, time.
    bounds
        Add the maximum prefixes of each level for one changed row, by linear programs (needs SciPy).
    count
        Let that tick count the answer without producing it.
    format
        text, json, mermaid (a flowchart) or svg (a drawing); or datalog, which is the program itself. For a motif, a
        column _row numbers the rows of a table.
    output
        A file to write to, instead of the terminal.
    backend
        The place of the state and the joins; auto is the GPU if there is one, else the CPU.
    threads
        Number of threads of the joins.
    strategy
        The join strategy: auto, wcoj or binary, as for run.
    bag
        Keep exact weights instead of sets; SQL and motifs always do.
    motif
        Options for the matches of a motif.
    memory
        Maximum memory of rows that are read at one time, such as 4GB; by default half of the machine's memory.
    """
    from gpu_wcoj.cli.source import ProgramSource
    from gpu_wcoj.files.record_batch import memory_budget

    budget = memory_budget(memory)
    loaded = parse_files(input)
    fed = parse_files(changes)
    check_tick_rows(tick_rows, fed)
    if count and not analyze:
        raise UsageError.missing("--count", "--analyze", "Add --analyze.")
    source = ProgramSource(program, text, language, dialect, loaded, fed, budget, motif_options(motif))
    engine = source.program(bag=bag, backend=backend, threads=threads, strategy=strategy)
    from gpu_wcoj.cli.run import Job

    check_files(engine, loaded, fed)
    loaded, fed = expecting(engine, loaded), expecting(engine, fed)
    named: tuple[InputSpec, ...] = ()
    declared: dict[str, tuple[str | None, ...]] = {}
    if stats is None and (loaded or fed or analyze or save_stats is not None):
        folder = Path() if program is None else program.parent
        named_relations = {spec.relation for spec in (*loaded, *fed)}
        named, declared = files_of_program(engine, folder, named_relations)
        if named_relations or named:
            check_sources(engine, named_relations)
    job = Job((*loaded, *named), fed, tick_rows, count, None, budget, False, declared=declared)
    explanation = explained(engine, job, stats, save_stats, analyze, bounds, format).rstrip("\n") + "\n"
    if output is None:
        sys.stdout.write(explanation)
        return
    from gpu_wcoj.destination import replacing

    with replacing(output) as file:
        file.write(explanation.encode())


# Explain a program on the content of files: rows, a checkpoint, or statistics.


def explained(
    program: Program | MotifProgram,
    job: Job,
    stats: Path | None,
    save_stats: Path | None,
    analyze: bool,
    bounds: bool,
    form: Format,
) -> str:
    """Return the program's plan after the files of the job were read.

    Parameters
    ----------
    stats
        A folder with statistics, or with a checkpoint of the program, where its state is to come from.
    save_stats
        A folder for the statistics of the state.
    analyze
        Whether the last tick is measured and explained.
    bounds
        Whether levels are bounded.

    Raises
    ------
    UsageError
        If these do not go together.
    CheckpointError, SchemaError, InputFileError
        If a file is not what it should be.
    """
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
    options: dict[str, Any] = {"backend": program.backend, "threads": program.threads, "strategy": program.strategy}
    restored = Program.restore(folder, **options)
    Definition.from_subject(restored.subject).check(Definition.from_subject(program.subject), folder)
    return restored


def _save(program: Program, folder: Path) -> None:
    """Write the statistics of the relations in the state."""
    lowered = program.subject.ledger.lowered
    if lowered is None:
        raise UsageError.missing("--save-stats", "a state with rows", "Give --input RELATION=PATH.")
    widths = {name: shape.width for name, shape in lowered.shapes.items()}
    Catalog.of_circuit(lowered.circuit, widths, program.subject.lowering.arity).write(folder)
