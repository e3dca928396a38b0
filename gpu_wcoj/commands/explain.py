"""The command ``gpu-wcoj explain``: how a program is maintained."""

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
    given_files,
    named_files,
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
    """Print how a program is maintained: each delta path with its seed, its variables and their extenders.

    The plan depends on what the relations hold. Without files, nothing is known of them. Files are given as for run.

    Parameters
    ----------
    input
        A file that is loaded before all changes; once for each relation.
    changes
        A file whose rows follow in order, cut into ticks; once for each relation.
    tick_rows
        Rows of changes to a tick, 1000 if not said otherwise; not where the files have tick columns.
    stats
        A folder that says what relations hold: statistics that --save-stats wrote, or a checkpoint of the program.
    save_stats
        A folder for what the relations hold after all files, as statistics.json.
    analyze
        Also what the last tick did, measured: per level prefixes, bound on the work, proposals, survivors, bytes, time.
    bounds
        Also how many prefixes each level can have for one changed row at most, by linear programs (needs SciPy).
    count
        Let that tick count the answer without producing it.
    format
        As text, json, mermaid (a flowchart) or svg (a drawing); or as datalog, which is the program itself; in a
        motif's, a column _row numbers the rows of a table.
    output
        A file to write to, instead of the terminal.
    backend
        Where the state lives and the joins run; auto is the GPU where there is one, else the CPU.
    threads
        How many threads they use.
    strategy
        How relations are joined: auto, wcoj or binary, as for run.
    bag
        Keep exact weights instead of sets; SQL and motifs do so always.
    motif
        What is asked of the matches of a motif.
    memory
        How much memory the rows read at one time may take, such as 4GB; half of the machine's if not said otherwise.
    """
    from gpu_wcoj.asked import Asked
    from gpu_wcoj.files.budget import memory_budget

    budget = memory_budget(memory)
    loaded = given_files(input)
    fed = given_files(changes)
    check_tick_rows(tick_rows, fed)
    if count and not analyze:
        raise UsageError("--count says how the tick that --analyze explains is taken.\n  Add --analyze.")
    asked = Asked(program, text, language, dialect, loaded, fed, budget, motif_options(motif))
    engine = asked.program(bag=bag, backend=backend, threads=threads, strategy=strategy)
    from gpu_wcoj.analysis import explained
    from gpu_wcoj.runner import Job

    check_files(engine, loaded, fed)
    loaded, fed = expecting(engine, loaded), expecting(engine, fed)
    named: tuple[InputSpec, ...] = ()
    declared: dict[str, tuple[str | None, ...]] = {}
    if stats is None and (loaded or fed or analyze or save_stats is not None):
        folder = Path() if program is None else program.parent
        given = {spec.relation for spec in (*loaded, *fed)}
        named, declared = named_files(engine, folder, given)
        if given or named:
            check_sources(engine, given)
    job = Job((*loaded, *named), fed, tick_rows, count, None, budget, False, declared=declared)
    shown = explained(engine, job, stats, save_stats, analyze, bounds, format).rstrip("\n") + "\n"
    if output is None:
        sys.stdout.write(shown)
        return
    from gpu_wcoj.destination import replacing

    with replacing(output) as file:
        file.write(shown.encode())
