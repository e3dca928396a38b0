"""Explain a program on the content of files: rows, a checkpoint, or statistics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_wcoj.checkpoint.definition import Definition
from gpu_wcoj.cli.run import Job, feed_job
from gpu_wcoj.errors import UsageError
from gpu_wcoj.motifs import MotifProgram
from gpu_wcoj.planner.catalog import FILE, Catalog
from gpu_wcoj.program import Program

if TYPE_CHECKING:
    from gpu_wcoj.explain.rendering import Format


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
