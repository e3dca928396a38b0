"""The files that a command names, with the names and types of its program."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_wcoj.errors import UnknownRelationError, UsageError

if TYPE_CHECKING:
    from gpu_wcoj.files.spec import InputSpec
    from gpu_wcoj.motifs import MotifProgram
    from gpu_wcoj.program import Program


def parse_files(files: Sequence[str] | None) -> tuple[InputSpec, ...]:
    """Parse the files of an option: ``RELATION=PATH?option=value``."""
    from gpu_wcoj.files.spec import parse_input

    return tuple(map(parse_input, files or ()))


def check_tick_rows(tick_rows: int | None, changes: Sequence[object]) -> None:
    """Raise for ticks without rows, and if there are no changes to divide."""
    if tick_rows is not None and tick_rows < 1:
        raise UsageError.invalid_value("--tick-rows", tick_rows, "an integer from 1 on")
    if tick_rows is not None and not changes:
        raise UsageError(
            "--tick-rows cuts the rows of --changes into ticks, and there are none; --input is one tick.\n"
            "  Give --changes RELATION=PATH, or leave out --tick-rows."
        )


def files_of_program(
    engine: Program | MotifProgram, folder: Path, named_relations: Collection[str]
) -> tuple[tuple[InputSpec, ...], dict[str, tuple[str | None, ...]]]:
    """Return the files that a program names, and the types that it declares for them."""
    from gpu_wcoj.cli.source import inputs_of

    named = tuple(spec for spec in inputs_of(engine.rules, folder, named_relations) if not _is_empty(spec.path))
    declared = {declaration.relation: declaration.types for declaration in engine.rules.declarations}
    return named, {spec.relation: declared[spec.relation] for spec in named if spec.relation in declared}


def check_files(program: Program | MotifProgram, loaded: Sequence[InputSpec], fed: Sequence[InputSpec]) -> None:
    """Raise for files of unknown relations, and for files that an option does not accept."""
    _check_relations(program, loaded, "--input")
    _check_relations(program, fed, "--changes")
    _check_pipes([*loaded, *fed])
    if ticked := [spec for spec in loaded if spec.tick is not None]:
        raise UsageError(
            f"'{ticked[0]}' has a tick column, but --input is one tick.\n  Use --changes, or leave it out."
        )


def expecting(program: Program | MotifProgram, specs: Sequence[InputSpec]) -> tuple[InputSpec, ...]:
    """Return the files with the program's column names and declared types."""
    from gpu_wcoj.motifs import MotifProgram

    columns: dict[str, tuple[tuple[str, str | None], ...]] = {}
    if isinstance(program, MotifProgram):
        columns = {name: tuple((column, None) for column in program.columns(name)) for name in program.inputs}
    else:
        for declaration in program.rules.declarations:
            types = declaration.types if declaration.is_binding else (None,) * len(declaration.columns)
            columns[declaration.relation] = tuple(zip(declaration.columns, types, strict=True))
    return tuple(replace(spec, expected=columns.get(spec.relation, ())) for spec in specs)


def check_sources(program: Program | MotifProgram, named_relations: Collection[str]) -> None:
    """Raise for a relation of a rule without a file, a declaration or an ``.input`` line."""
    from gpu_wcoj.query.check import check_required, unnamed_inputs

    remedy = "Give --input {0}=PATH or --changes {0}=PATH, or declare it with .decl if it has no rows."
    check_required(program.rules, unnamed_inputs(program.rules), named_relations, remedy)


def _is_empty(path: Path) -> bool:
    """Return True for a file of zero bytes: another program's output of an empty relation."""
    return path.is_file() and path.stat().st_size == 0


def _check_pipes(specs: Sequence[InputSpec]) -> None:
    """Raise for a pipe that is named twice: the second reader would find it empty."""
    pipes = [spec for spec in specs if spec.path.is_fifo()]
    for first, second in combinations(pipes, 2):
        if first.path.samefile(second.path):
            raise UsageError(
                f"'{first}' and '{second}' are the same pipe, which can be read once only.\n"
                "  Put the rows of one of them into a file."
            )


def _check_relations(program: Program | MotifProgram, specs: Sequence[InputSpec], option: str) -> None:
    seen: set[str] = set()
    for spec in specs:
        if spec.relation not in program.inputs:
            raise UnknownRelationError(spec.relation, program.inputs, "relations that the program reads")
        if spec.relation in seen:
            raise UsageError(f"{option} names relation '{spec.relation}' twice.\n  Put its rows into one file.")
        seen.add(spec.relation)
