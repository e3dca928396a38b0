"""The command ``gpu-wcoj run``: a program over files, tick by tick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

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


def run(
    program: Annotated[Path | None, Parameter(help="A file with the text of the program.")] = None,
    /,
    *,
    text: Annotated[str | None, TEXT] = None,
    language: Annotated[Language | None, LANGUAGE] = None,
    dialect: Annotated[str, DIALECT] = "duckdb",
    input: Annotated[list[str] | None, FILES] = None,  # noqa: A002  # the option is called --input
    changes: Annotated[list[str] | None, FILES] = None,
    tick_rows: int | None = None,
    count: Annotated[bool, FLAG] = False,
    output: Path | None = None,
    checkpoint: Path | None = None,
    backend: Literal["auto", "cpu", "cuda"] = "auto",
    gpu_memory: str | None = None,
    route: str = "auto",
    threads: int | None = None,
    strategy: Literal["auto", "wcoj", "binary"] = "auto",
    bag: Annotated[bool, FLAG] = False,
    motif: Motif | None = None,
    memory: str | None = None,
    json: Annotated[bool, FLAG] = False,
) -> None:
    """Run a program over files: load the inputs as the first tick, then apply the changes.

    A file is given as RELATION=PATH?option=value&...: Parquet, Arrow IPC, CSV, TSV or whitespace text, gzipped or
    not. Options are columns=0,1 weight=2 tick=3 (columns by position from 0, or by name), sep=tab header=no skip=1
    types=int64,string (text only) and format=parquet|arrow|csv|tsv|text. PATH is - for standard input, which is text
    without names of columns unless format is set: edge=-?format=csv. Options follow the last ?; if a file with the
    complete name exists, ? and & are part of its name. Columns with names go by name if the relation has names, too:
    declared, or of an earlier file.

    A program can name its own files: .input edge(filename="edge.csv", delimiter=",") and
    .output path(filename="path.csv"). Without parameters, and if the command line names no file, .input edge reads
    edge.facts and .output path writes path.csv, with fields separated by tabs.

    Parameters
    ----------
    input
        A file that is loaded before all changes; once for each relation.
    changes
        A file whose rows follow in order, cut into ticks; once for each relation.
    tick_rows
        Rows of changes per tick, by default 1000; not for files with tick columns.
    count
        Count the answer without ever producing it.
    output
        A folder for the changes of every tick, as RELATION/tick-000000000.parquet with a weight and a tick column.
    checkpoint
        A folder for the state after every tick: after a stop or a kill, the same command resumes there.
    backend
        The place of the state and the joins; auto is the GPU if there is one, else the CPU.
    gpu_memory
        Maximum memory of the GPU, such as 8GB or 50%; by default all of it.
    route
        The place of ticks if the state is on a GPU: auto, device, cpu, or the changed rows from which they run on it.
    threads
        Number of threads of the joins.
    strategy
        The join strategy: wcoj joins all relations variable by variable, binary joins one relation after the other,
        and auto chooses by estimated costs.
    bag
        Keep exact weights instead of sets; SQL and motifs always do.
    motif
        Options for the matches of a motif.
    memory
        Maximum memory of rows that are read at one time, such as 4GB; by default half of the machine's memory.
    json
        Print a line of JSON for each tick and a line at the end.
    """
    from gpu_wcoj.asked import ProgramSource
    from gpu_wcoj.files.budget import memory_budget

    budget = memory_budget(memory)
    loaded = parse_files(input)
    fed = parse_files(changes)
    if not loaded and not fed and program is None and text is None:
        raise UsageError("there is nothing to run on.\n  Give --input RELATION=PATH, --changes RELATION=PATH, or both.")
    check_tick_rows(tick_rows, fed)
    if count and output is not None:
        raise UsageError("--count produces no rows, so there is nothing for --output.\n  Leave out one of the two.")
    source = ProgramSource(program, text, language, dialect, loaded, fed, budget, motif_options(motif))
    engine = source.program(
        bag=bag, backend=backend, gpu_memory=gpu_memory, threads=threads, strategy=strategy,
        route=int(route) if route.isdecimal() else route,
    )  # fmt: skip
    from gpu_wcoj.cli.run import Job, run_job
    from gpu_wcoj.cli.source import outputs_of

    check_files(engine, loaded, fed)
    loaded, fed = expecting(engine, loaded), expecting(engine, fed)
    named_relations = {spec.relation for spec in (*loaded, *fed)}
    check_sources(engine, named_relations)
    folder = Path() if program is None else program.parent
    named, declared = files_of_program(engine, folder, named_relations)
    if not named_relations and not engine.rules.directives and engine.inputs:
        raise UsageError(
            "there is nothing to run on.\n  Give --input RELATION=PATH, --changes RELATION=PATH, or both;"
            " or name files in the program, by lines .input."
        )
    results = () if count or output is not None else outputs_of(engine.rules, folder, bool(named_relations))
    inputs = (*loaded, *named)
    run_job(engine, Job(inputs, fed, tick_rows, count, output, budget, json, checkpoint, declared, results))
