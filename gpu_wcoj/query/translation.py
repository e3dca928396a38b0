"""Translation of a text to rules, whatever its language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_wcoj.errors import UnsupportedError, UsageError
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.query.languages import Language
from gpu_wcoj.query.projection import narrow_inputs
from gpu_wcoj.user_functions import Function


@dataclass(frozen=True)
class Reading:
    """Program of a text, with the rows that the text gives.

    Attributes
    ----------
    rules
        The program.
    given
        Rows of relations from the text or its arguments, loaded with the first tick.
    """

    rules: Rules
    facts: Mapping[str, Sequence[tuple[object, ...]]] = field(default_factory=dict)


def read(
    text: str,
    language: Language,
    *,
    tables: Mapping[str, Mapping[str, str | None]] | None = None,
    dialect: str = "duckdb",
    arguments: Sequence[Any] = (),
    source: str = "<text>",
    is_single: bool = False,
    functions: Sequence[Function] = (),
) -> Reading:
    """Translate a text of that language to rules.

    Parameters
    ----------
    tables
        For SQL and EDN, the columns of the relations with their types, None if unknown.
    dialect
        The dialect of an SQL text.
    arguments
        The arguments of an EDN query.
    source
        The name of the text in messages.
    is_single
        Whether the program is answered once. Then the answer of SQL keeps the order of ORDER BY, and joins read the
        tables themselves; narrowed copies pay if the state is kept.
    functions
        Python functions that a text in Datalog or SQL may call.

    Raises
    ------
    QuerySyntaxError, UnsupportedError, SchemaError
        If it cannot be read, names unknown relations or columns, or as the parser of the language raises.
    """
    if arguments and language != "edn":
        raise UsageError.with_parts("arguments are for queries in EDN", subject="arguments", remedy="Leave them out.")
    if functions and language not in ("datalog", "sql"):
        raise UsageError.with_parts(
            "functions are for queries in Datalog and SQL", subject="functions", remedy="Leave them out."
        )
    if language == "datalog":
        return Reading(parse(text, source=source, functions=functions))
    if language == "sql":
        from gpu_wcoj.query import sql

        try:
            rules = sql.parse(
                text, tables or {}, dialect=dialect, source=source, keeps_order=is_single, functions=functions
            )
        except UnsupportedError:
            if is_single:  # DuckDB may do it, if all tables are there
                sql.check_tables(text, tables or {}, dialect=dialect, functions=functions)
            raise
        return Reading(rules if is_single else narrow_inputs(rules))
    if language == "edn":
        from gpu_wcoj.query import edn

        relations = {
            name: edn.Relation(name, tuple(columns), tuple(columns.values()))
            for name, columns in (tables or {}).items()
        }
        query = edn.parse(text, relations, arguments=arguments, source=source)
        if query.shape in ("tuple", "scalar"):
            raise UnsupportedError(
                f"':find' asks for a {query.shape}, which is one row of all that there are.\n"
                "  Ask for all of them: leave out the '.', or the brackets; or ask a gpu_wcoj.datoms.Database."
            )
        return Reading(replace(query.rules, outputs=(query.output,)), query.input_rows)
    raise UsageError.invalid_value(
        "language", language, "'datalog', 'sql' or 'edn' for a program", "Use gpu_wcoj.find or gpu_wcoj.view."
    )
