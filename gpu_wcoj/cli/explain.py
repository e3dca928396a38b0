"""The command ``gpu-wcoj explain``: the plan of a program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from gpu_wcoj.commands.files import (
    check_files,
    check_sources,
    check_tick_rows,
    expecting,
    files_of_program,
    parse_files,
)
from gpu_wcoj.commands.options import DIALECT, FILES, FLAG, LANGUAGE, TEXT, Motif, motif_options
from gpu_wcoj.errors import UsageError
from gpu_wcoj.query.languages import Language

if TYPE_CHECKING:
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
    from gpu_wcoj.asked import ProgramSource
    from gpu_wcoj.files.budget import memory_budget

    budget = memory_budget(memory)
    loaded = parse_files(input)
    fed = parse_files(changes)
    check_tick_rows(tick_rows, fed)
    if count and not analyze:
        raise UsageError.missing("--count", "--analyze", "Add --analyze.")
    source = ProgramSource(program, text, language, dialect, loaded, fed, budget, motif_options(motif))
    engine = source.program(bag=bag, backend=backend, threads=threads, strategy=strategy)
    from gpu_wcoj.analysis import explained
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
