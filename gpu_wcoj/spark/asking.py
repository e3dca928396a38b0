"""Queries over DataFrames, in any of the languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import DecimalType

from gpu_wcoj.errors import UnsupportedTypeError, UsageError
from gpu_wcoj.incoming import column_order
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.languages import BAGS, Language, known_language, language_of
from gpu_wcoj.query.printed import as_datalog
from gpu_wcoj.query.rules import Rules
from gpu_wcoj.query.translation import read
from gpu_wcoj.schema import MOST_DIGITS
from gpu_wcoj.spark.types import arrow_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

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
    detected = language_of(program) if language is None else known_language(language)
    if detected == "datalog":
        return program, bool(bag)
    if detected == "motif":
        raise UsageError("a motif is no program over DataFrames.\n  Ask it by gpu_wcoj.find(motif, edges=frame).")
    reading = read(program, detected, tables=tables, dialect=dialect)
    if reading.given:
        raise UsageError("a query in EDN that has arguments is asked by gpu_wcoj.view.\n  Leave out ':in'.")
    return reading.rules, detected in BAGS if bag is None else bag


def names_in(program: str | Rules, language: Language | None) -> bool:
    """Whether the language goes by the names of columns, so that a program needs to be told of the tables."""
    if isinstance(program, Rules):
        return False
    return (language_of(program) if language is None else known_language(language)) in ("sql", "edn")


def columns_of(schema: StructType, names: Sequence[str] | None = None) -> dict[str, str | None]:
    """Return columns of a table and their types, None where the engine has no place for them: all, or those named."""
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
    """Return per relation the columns to leave out: those that the engine may have no place for, and no rule reads.

    Parameters
    ----------
    schemas, names
        Of the tables, and which of their columns make up the rows.
    may_leave_out
        Whether the answers are the same without columns that are not read.

    Returns
    -------
    The columns' names by where they stand in the relation.

    Raises
    ------
    UnsupportedTypeError
        If there is no place for a column that has to stay.
    ArityError, ColumnError
        If the table has other columns than the relation.
    """
    declared = {declaration.relation: declaration.columns for declaration in rules.declarations}
    unused: dict[str, dict[int, str]] = {}
    for relation, columns in names.items():
        if relation not in rules.inputs or len(columns) != rules.arity[relation]:
            continue  # which is refused elsewhere
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
                is_wide = isinstance(kind, DecimalType) and kind.precision > MOST_DIGITS
                if is_wide and position in unread and len(unread) < len(columns):
                    leaving[position] = name
        if leaving:
            unused[relation] = leaving
    return unused


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
