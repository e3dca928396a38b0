"""A program explained by what is in files: rows, a checkpoint, or statistics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_wcoj.checkpoint.definition import Definition
from gpu_wcoj.errors import UsageError
from gpu_wcoj.motifs import MotifProgram
from gpu_wcoj.planner.known import FILE, Known
from gpu_wcoj.program import Program
from gpu_wcoj.runner import Job, feed_job

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
    """The program's plan after the job's files.

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
    if form == "datalog":  # of the files, no more than the columns that a language asks for
        if stats is not None or save_stats is not None:
            raise UsageError("the program as Datalog has no statistics.\n  Leave out --stats and --save-stats.")
        return program.explain(analyze=analyze, bounds=bounds, format=form)
    has_files = bool(job.inputs or job.changes)
    has_statistics = stats is not None and (stats / FILE).is_file()
    if analyze and not has_files and program.inputs:
        instead = "Give --input RELATION=PATH, --changes RELATION=PATH, or both."
        if has_statistics:
            instead = "Statistics have no rows: leave out --stats, and give --input RELATION=PATH."
        elif stats is not None:
            instead = "Give --changes RELATION=PATH, for a tick behind those of the checkpoint."
        raise UsageError(f"--analyze explains the last tick, and there is none.\n  {instead}")
    if stats is not None and has_statistics:
        if has_files or save_stats is not None:
            raise UsageError(
                f"'{stats}' has statistics without rows, so there is no state to go on from.\n"
                "  Leave out --stats, or else --input, --changes and --save-stats."
            )
        return program.explain(statistics=stats, bounds=bounds, format=form)
    if stats is not None:
        if job.inputs:
            raise UsageError(f"the state comes from '{stats}', so --input cannot be its first tick.\n  Use --changes.")
        program = _restored(_stored(program), stats)
    if has_files or analyze:
        feed_job(program, job, analyze)
    if save_stats is not None:
        _save(_stored(program), save_stats)
    return program.explain(analyze=analyze, bounds=bounds, format=form)


def _stored(program: Program | MotifProgram) -> Program:
    if isinstance(program, Program):
        return program
    raise UsageError("the state of a motif is not stored.\n  Leave out --stats and --save-stats.")


def _restored(program: Program, folder: Path) -> Program:
    """The same program in the state of a checkpoint, which is only read."""
    if not any(folder.glob("manifest-*.json")):
        raise UsageError(
            f"'{folder}' has no {FILE} and no checkpoint.\n"
            "  Give a folder that --save-stats or Program.checkpoint has written."
        )
    options: dict[str, Any] = {"backend": program.backend, "threads": program.threads, "strategy": program.strategy}
    restored = Program.restore(folder, **options)
    Definition.of(restored.subject).check(Definition.of(program.subject), folder)
    return restored


def _save(program: Program, folder: Path) -> None:
    """Write what the state's relations are known to hold."""
    lowered = program.subject.ledger.lowered
    if lowered is None:
        raise UsageError("there are no rows, so there are no statistics.\n  Give --input RELATION=PATH.")
    widths = {name: shape.width for name, shape in lowered.shapes.items()}
    Known.of_circuit(lowered.circuit, widths, program.subject.lowering.arity).write(folder)
