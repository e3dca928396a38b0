"""Parsed input options of the command line: ``edge=PATH?columns=3,4&weight=2``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path
from urllib.parse import unquote

from gpu_wcoj.errors import InputFileError, UsageError, listed, nearest

ColumnName = int | str
"""A column of a file: its position, counted from 0, or its name."""

FORMATS = ("parquet", "arrow", "json", "csv", "tsv", "text")
SEPARATORS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|", "colon": ":", "space": " "}
"""Names of separators. A space stands for any run of blanks and tabs."""

TEXT_TYPES = ("int64", "float64", "string")
STANDARD_INPUT = "/dev/stdin"
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:/")
_SHAPE = "RELATION=PATH or RELATION=PATH?option=value&option=value"


@dataclass(frozen=True)
class InputSpec:
    """An input file, its relation, and the options for reading it.

    Attributes
    ----------
    relation
        The relation of the program.
    path
        The file; a ``~`` at its start is the home folder.
    format
        One of `FORMATS`, or None to go by the content and the ending of the name.
    columns
        The columns that make up the rows, in the relation's order; None for all that are neither weight nor tick.
    weight, tick
        The column of weights, and the column whose value changes where a new tick starts; None if there is none.
    separator
        One character between the fields of a text file; a space stands for any run of blanks.
    header
        Whether the first line of a text file names the columns; None to find out.
    skip
        Lines of a text file to leave out at its start.
    types
        One of `TEXT_TYPES` for each of `columns` of a text file, or None to find out; None to find out for all.
    declared
        Where a program names a text file itself: the names and types of the columns that it declares, if any.
        Messages then speak of those, and of parameters of ``.input``; a header with none of these names is passed over.
    expected
        Names and types, as Arrow spells them, that the program has for the columns of a file that the command line
        names. They tell a first line of names from a row, and a header with just these names in another order
        puts the columns in theirs.
    more
        Further files with rows of the relation, which follow those of `path`.
    """

    relation: str
    path: Path
    format: str | None = None
    columns: tuple[ColumnName, ...] | None = None
    weight: ColumnName | None = None
    tick: ColumnName | None = None
    separator: str | None = None
    header: bool | None = None
    skip: int = 0
    types: tuple[str | None, ...] | None = None
    declared: tuple[tuple[str, str | None], ...] | None = None
    expected: tuple[tuple[str, str | None], ...] = ()
    more: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return f"{self.relation}={self.path}"


def parse_input(text: str) -> InputSpec:
    r"""Parse ``RELATION=PATH?option=value&...``.

    Options stand after the last ``?``; ``%2C``, ``%26`` and the like stand for a character that would otherwise
    separate. What follows the ``=`` is a path without options where a file of just that name is there, and ``-`` is
    standard input. The options are ``columns``, ``weight``, ``tick`` (columns by position from 0, or by name), ``sep``,
    ``header``, ``skip``, ``types`` (text files only) and ``format``.

    Raises
    ------
    UsageError
        If a part is missing, or an option is unknown, given twice or has a value that is not allowed.

    Examples
    --------
    >>> spec = parse_input("edge=f.tsv.gz?columns=3,4&weight=2&tick=0&sep=tab&header=no&skip=1")
    >>> spec.relation, str(spec.path), spec.columns, spec.weight, spec.tick
    ('edge', 'f.tsv.gz', (3, 4), 2, 0)
    >>> spec.separator, spec.header, spec.skip
    ('\t', False, 1)
    """
    relation, equals, location = text.partition("=")
    path, _, query = location.rpartition("?") if "?" in location and not _is_there(location) else (location, "", "")
    if not equals or not relation or not path:
        raise UsageError(f"'{text}' does not say which file feeds which relation.\n  Write {_SHAPE}.")
    fields: dict[str, object] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if name not in _OPTIONS:
            raise UsageError(
                f"'{text}' has an unknown option '{name}'.\n"
                f"  There is no file '{location}', and the options are: {listed(_OPTIONS)}.{nearest(name, _OPTIONS)}"
            )
        field, convert = _OPTIONS[name]
        if field in fields:
            raise UsageError(f"'{text}' gives option '{name}' twice.\n  Give it once.")
        try:
            fields[field] = convert(value)
        except ValueError as error:
            raise UsageError(f"'{text}': option '{name}' cannot be {unquote(value)!r}.\n  {error}") from None
    path = STANDARD_INPUT if path == "-" else path
    spec = InputSpec(relation, Path(os.path.expanduser(path)), **fields)  # type: ignore[arg-type]  # one converter per field
    if spec.types is not None and (spec.columns is None or len(spec.types) != len(spec.columns)):
        column_count = "no columns" if spec.columns is None else f"{len(spec.columns)} columns"
        raise UsageError(
            f"'{text}' has {len(spec.types)} types and {column_count}.\n  Give one type for each of 'columns'."
        )
    return spec


def _files_of(path: Path) -> list[Path]:
    """Return the files of a folder or a pattern by their names, and any other path as it is.

    Files whose names begin with a dot or an underscore are left out, as those that Spark writes beside its rows.
    """
    if _ADDRESS.match(str(path)) and not _is_there(str(path)):
        raise UsageError(
            f"'{path}' is not a file of this machine.\n  Copy it first, or read it with Polars or DuckDB and pass the "
            "rows in Python."
        )
    is_pattern = not _is_there(str(path)) and any(char in str(path) for char in "*[")
    if not is_pattern and not os.path.isdir(path):
        return [path]
    found = sorted(glob(str(path), recursive=True)) if is_pattern else sorted(map(str, path.iterdir()))
    files = [Path(name) for name in found if not os.path.isdir(name)]
    files = [file for file in files if not file.name.startswith((".", "_"))]
    if not files:
        what = f"no file matches '{path}'" if is_pattern else f"the folder '{path}' has no files"
        raise InputFileError(f"{what}.\n  Name a file, a folder with files, or a pattern such as 'part-*.csv'.")
    return files


def united(specs: Iterable[InputSpec]) -> tuple[InputSpec, ...]:
    """Return one spec for each relation, with all its files.

    A folder stands for its files, and a pattern such as ``part-*.csv`` for those whose names it matches, in the order
    of the names. Files of one relation follow one another.

    Raises
    ------
    UsageError
        If the files of a relation have different options, or are not on this machine.
    InputFileError
        If there is no file in a folder, or none that a pattern matches.
    """
    by_relation: dict[str, InputSpec] = {}
    for named in specs:
        first, *more = _files_of(named.path)
        spec = replace(named, path=first, more=tuple(more))
        before = by_relation.setdefault(spec.relation, spec)
        if before is spec:
            continue
        if replace(before, path=spec.path, more=spec.more) != spec:
            pairs = [(name, getattr(before, field), getattr(spec, field)) for name, (field, _) in _OPTIONS.items()]
            different = [f"got {name}={left!r} and {right!r}" for name, left, right in pairs if left != right]
            raise UsageError(
                f"'{before}' and '{spec}' have different options: {', '.join(different)}.\n"
                "  Files of one relation are read in the same way. Give all of them the same options."
            )
        by_relation[spec.relation] = replace(before, more=(*before.more, spec.path, *spec.more))
    return tuple(by_relation.values())


def _is_there(path: str) -> bool:
    return os.path.exists(os.path.expanduser(path))  # Path's raise where a name is too long, or a user unknown


def _column(text: str) -> ColumnName:
    name = unquote(text)
    if not name:
        raise ValueError("Give the column's position, counted from 0, or its name.")
    return int(name) if name.isascii() and name.isdigit() else name


def _columns(text: str) -> tuple[ColumnName, ...]:
    return tuple(_column(part) for part in text.split(","))


def _separator(text: str) -> str:
    name = unquote(text)
    separator = SEPARATORS.get(name, name)
    if len(separator) != 1 or not separator.isascii() or separator in '\r\n"\0':
        raise ValueError(f"Give one of {listed(SEPARATORS)}, or one other character.")
    return separator


def _header(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("Give 'yes' or 'no'.")
    return text == "yes"


def _skip(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError("Give a number of lines, 0 or more.")
    return int(text)


def _format(text: str) -> str:
    if text not in FORMATS:
        raise ValueError(f"Give one of {listed(FORMATS)}.{nearest(text, FORMATS)}")
    return text


def _types(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in TEXT_TYPES]:
        raise ValueError(f"'{unknown[0]}' is none of {listed(TEXT_TYPES)}.{nearest(unknown[0], TEXT_TYPES)}")
    return names


_OPTIONS: dict[str, tuple[str, Callable[[str], object]]] = {
    "columns": ("columns", _columns),
    "weight": ("weight", _column),
    "tick": ("tick", _column),
    "sep": ("separator", _separator),
    "header": ("header", _header),
    "skip": ("skip", _skip),
    "types": ("types", _types),
    "format": ("format", _format),
}
