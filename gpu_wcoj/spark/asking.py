"""Queries over DataFrames, in any of the languages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gpu_wcoj.errors import UsageError
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.languages import BAGS, Language, known_language, language_of, read
from gpu_wcoj.query.printed import as_datalog
from gpu_wcoj.query.rules import Rules

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

Tables = Mapping[str, Mapping[str, str | None]]
"""Per relation, its columns and their types, as Arrow calls them."""


def rules_of(
    program: str | Rules, language: Language | None, dialect: str, bag: bool | None, tables: Tables
) -> tuple[str | Rules, bool]:
    """A program over tables, and whether these are bags.

    Raises
    ------
    UsageError
        For a motif, and where the text's beginning may be that of two languages.
    GpuWcojError
        And as the parser of the language.
    """
    if isinstance(program, Rules):
        return program, bool(bag)
    found = language_of(program) if language is None else known_language(language)
    if found == "datalog":
        return program, bool(bag)
    if found == "motif":
        raise UsageError("a motif is no program over DataFrames.\n  Ask it by gpu_wcoj.find(motif, edges=frame).")
    reading = read(program, found, tables=tables, dialect=dialect)
    if reading.given:
        raise UsageError("a query in EDN that has arguments is asked by gpu_wcoj.view.\n  Leave out ':in'.")
    return reading.rules, found in BAGS if bag is None else bag


def names_in(program: str | Rules, language: Language | None) -> bool:
    """Whether the language goes by the names of columns, so that a program needs to be told of the tables."""
    if isinstance(program, Rules):
        return False
    return (language_of(program) if language is None else known_language(language)) in ("sql", "edn")


def columns_of(fields: Iterable[StructField], names: Sequence[str] | None = None) -> dict[str, str | None]:
    """Columns of a table and their types, None where they have none; of those that are named, if any are."""
    schema = to_arrow_schema(StructType([one for one in fields if names is None or one.name in names]))
    return {one.name: None if one.type == pa.null() else str(one.type) for one in schema}


def as_text(program: str | Rules, bag: bool) -> str:
    """The program as Datalog, which executors read.

    Raises
    ------
    UsageError
        If it has relations whose names Datalog cannot spell.
    """
    if isinstance(program, str):
        return program
    text = as_datalog(program, bag=bag)
    spelled = parse(text)
    for name in (*program.inputs, *program.outputs):
        if name not in (*spelled.inputs, *spelled.outputs):
            raise UsageError(
                f"the name of relation '{name}' is none that Datalog can spell, which is what cells are sent.\n"
                "  Give it a name of letters, digits and '_', or take layout='one'."
            )
    return text
