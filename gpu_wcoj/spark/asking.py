"""Programs over DataFrames in Datalog, SQL or EDN: rules, columns and types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import DecimalType

from gpu_wcoj.data.schema import MAX_DIGITS
from gpu_wcoj.engine.ingest import column_order
from gpu_wcoj.errors import UnsupportedTypeError, UsageError
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.languages import BAGS, Language, check_language, language_of
from gpu_wcoj.query.printer import as_datalog
from gpu_wcoj.query.rules import Rules
from gpu_wcoj.query.translation import read
from gpu_wcoj.spark.types import arrow_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Tables = Mapping[str, Mapping[str, str | None]]
"""Per relation, its columns and their Arrow type names; None for a type that the engine does not support."""


def rules_of(
    program: str | Rules, language: Language | None, dialect: str, bag: bool | None, tables: Tables
) -> tuple[str | Rules, bool]:
    """Return a program over tables as text or rules, and whether its relations are bags.

    Raises
    ------
    UsageError
        For a motif, and if the first words are valid in two languages.
    GpuWcojError
        The errors of the language's parser.
    """
    if isinstance(program, Rules):
        return program, bool(bag)
    detected = language_of(program) if language is None else check_language(language)
    if detected == "datalog":
        return program, bool(bag)
    if detected == "motif":
        raise UsageError.unsupported(
            "a motif as a program over DataFrames", remedy="Call gpu_wcoj.find(motif, edges=frame)."
        )
    reading = read(program, detected, tables=tables, dialect=dialect)
    if reading.facts:
        raise UsageError.unsupported(
            "an EDN query with arguments over DataFrames", remedy="Leave out ':in', or call gpu_wcoj.view."
        )
    return reading.rules, detected in BAGS if bag is None else bag


def names_in(program: str | Rules, language: Language | None) -> bool:
    """Return whether the language refers to columns by name, so that compiling needs the tables."""
    if isinstance(program, Rules):
        return False
    return (language_of(program) if language is None else check_language(language)) in ("sql", "edn")


def columns_of(schema: StructType, names: Sequence[str] | None = None) -> dict[str, str | None]:
    """Return columns of a table and their types, None for types without support.

    All columns are returned, or those in `names`.
    """
    types: dict[str, str | None] = {}
    for name in schema.names if names is None else names:
        try:
            kind = arrow_type(schema[name].dataType)
        except UnsupportedTypeError:
            types[name] = None
        else:
            types[name] = None if kind == pa.null() else str(kind)
    return types


def unread_columns(
    rules: Rules, schemas: Mapping[str, StructType], names: Mapping[str, Sequence[str]], may_leave_out: bool
) -> dict[str, dict[int, str]]:
    """Return, per relation, columns that no rule reads and whose types may be unsupported.

    These columns are to be left out of the rows.

    Parameters
    ----------
    schemas, names
        The schemas of the tables, and the columns of their rows.
    may_leave_out
        Whether leaving out columns that are not read keeps the answers.

    Returns
    -------
    The columns' names by their positions in the relation.

    Raises
    ------
    UnsupportedTypeError
        If a column that has to stay has an unsupported type.
    ArityError, ColumnError
        If the table has other columns than the relation.
    """
    declared = {declaration.relation: declaration.columns for declaration in rules.declarations}
    unused: dict[str, dict[int, str]] = {}
    for relation, columns in names.items():
        if relation not in rules.inputs or len(columns) != rules.arity[relation]:
            continue  # reported elsewhere
        unread = rules.unread(relation) if may_leave_out else frozenset()
        leaving = {}
        for position, i in enumerate(column_order(relation, columns, declared.get(relation))):
            kind, name = schemas[relation][columns[i]].dataType, columns[i]
            try:
                arrow_type(kind)
            except UnsupportedTypeError as error:
                if position not in unread or len(unread) == len(columns):
                    raise UnsupportedTypeError(f"relation '{relation}', column '{name}': {error}") from None
                leaving[position] = name
            else:
                is_wide = isinstance(kind, DecimalType) and kind.precision > MAX_DIGITS
                if is_wide and position in unread and len(unread) < len(columns):
                    leaving[position] = name
        if leaving:
            unused[relation] = leaving
    return unused


def as_text(program: str | Rules, bag: bool) -> str:
    """Return the program as Datalog text, which executors parse.

    Raises
    ------
    UsageError
        If names of relations cannot be written in Datalog.
    """
    if isinstance(program, str):
        return program
    text = as_datalog(program, bag=bag)
    spelled = parse(text)
    for name in (*program.inputs, *program.outputs):
        if name not in (*spelled.inputs, *spelled.outputs):
            raise UsageError.unsupported(
                f"the relation name '{name}' on cells",
                "cells receive the program as Datalog, which cannot spell this name",
                "Rename the relation with letters, digits and '_', or use layout='one'.",
            )
    return text
