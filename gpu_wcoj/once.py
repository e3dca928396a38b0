"""One-call queries: the answer once, nothing kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.backend import BackendName
from gpu_wcoj.errors import SchemaError, UnknownRelationError, UsageError, entry_point
from gpu_wcoj.incoming import read_change
from gpu_wcoj.program import Program
from gpu_wcoj.query.checks import check_given
from gpu_wcoj.query.declared import declared_type
from gpu_wcoj.query.rules import Rules
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.query.languages import Language


@entry_point
def query(
    text: str | Rules,
    relations: Mapping[str, Any] | None = None,
    /,
    *,
    language: Language | None = None,
    dialect: str = "duckdb",
    arguments: Sequence[Any] = (),
    bag: bool | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
    **more: Any,
) -> ZSet | dict[str, ZSet]:
    """The answer of a program over tables, lists or arrays: a ZSet, or a dict of them if there are several outputs.

    Every column of a table is data, also one called ``weight``. A `ZSet` keeps its weights. Relations that are not
    given are refused. The answer's weights are left out of exports where all are 1.

    Parameters
    ----------
    text
        A program in Datalog, SQL or EDN, or rules.
    relations
        Rows by relation; they may stand as keywords as well, where no option has the relation's name.
    language
        ``"datalog"``, ``"sql"`` or ``"edn"``; by default what the text begins with tells, see
        `gpu_wcoj.query.languages.language_of`.
    dialect
        Of SQL: duckdb, postgres, spark, or another one of `gpu_wcoj.query.sql.parse.DIALECTS`.
    arguments
        Of a query in EDN: what ``:in`` names beside relations, in order.
    bag
        Exact weights instead of sets; by default for SQL only.
    backend, threads
        As for `Program`.

    Examples
    --------
    >>> query("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2), (2, 3)]).to_arrow().to_pydict()
    {'a': [1], 'c': [3]}
    """
    for name, value in more.items():
        if value is None or isinstance(value, (str, int, float)):  # which are no rows
            raise UsageError(
                f"query has no option '{name}', and {value!r:.80} is no table for a relation of that name.\n"
                "  Other options are those of gpu_wcoj.Program and gpu_wcoj.view."
            )
    program, changes = prepare_query(
        text, merge_relations(relations, more), language, dialect, bag, arguments, backend=backend, threads=threads
    )
    answers = {name: hide_unit_weights(answer) for name, answer in program.step(changes).items()}
    return next(iter(answers.values())) if len(answers) == 1 else answers


def merge_relations(relations: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Relations of a mapping and of keywords, together.

    Raises
    ------
    UsageError
        If it is no mapping, or a relation stands in both.
    """
    if relations is not None and not isinstance(relations, Mapping):
        raise UsageError(
            f"the relations are of type '{type(relations).__name__}'; a mapping from names to rows is allowed.\n"
            "  Give them as keywords, or in a dict."
        )
    merged = dict(relations or {})
    for name, rows in more.items():
        if name in merged:
            raise UsageError(f"the relation '{name}' is given twice.\n  Give it once.")
        merged[name] = rows
    return merged


def prepare_query(
    text: str | Rules,
    relations: Mapping[str, Any],
    language: Language | None,
    dialect: str,
    bag: bool | None,
    arguments: Sequence[Any] = (),
    *,
    may_be_empty: bool = False,
    **options: Any,
) -> tuple[Program, dict[str, Any]]:
    """The program of a query, and its first tick's changes: the rows that relations begin with.

    Parameters
    ----------
    may_be_empty
        Whether relations that the schema names, or the text of a program in Datalog declares, may be left out.
    options
        Those of `Program`.

    Raises
    ------
    UnknownRelationError
        If a relation is missing.
    GpuWcojError
        And whatever the parser of the language and `Program` raise.
    """
    from gpu_wcoj.query.languages import BAGS, BY_NAME, known_language, language_of
    from gpu_wcoj.query.translation import read

    resolved_language: Language | None = None
    text_relations: Mapping[str, Any] = {}
    if isinstance(text, Rules):
        rules = text
    elif isinstance(text, str):
        resolved_language = language_of(text) if language is None else known_language(language)
        tables: Mapping[str, Mapping[str, str | None]] = {}
        if resolved_language in BY_NAME:
            relations, tables = _tables(relations, options.get("schema") or {})
        try:
            reading = read(text, resolved_language, tables=tables, dialect=dialect, arguments=arguments)
        except UnknownRelationError as error:
            raise _with_option_remedy(error, options) from None
        rules, text_relations = reading.rules, reading.given
    else:
        raise UsageError(
            f"a query is text or Rules, and this is of type '{type(text).__name__}': {text!r:.80}.\n"
            "  Of a file, give the text."
        )
    allowed = _declared(rules, options) if may_be_empty else set()
    available = {*relations, *text_relations, *allowed}
    remedy = "Give its rows, as {}=[...]" + (", or declare it with .decl or schema=." if may_be_empty else ".")
    try:
        check_given(rules, rules.inputs, available, remedy)  # before a relation's rows are refused as an option's value
    except UnknownRelationError as error:
        raise _with_option_remedy(error, options) from None
    program = Program(rules, bag=resolved_language in BAGS if bag is None else bag, inputs=rules.inputs, **options)
    types = program.subject.ledger.state.types
    changes: dict[str, Any] = dict(text_relations)
    for name, data in relations.items():
        if isinstance(data, ZSet) or name not in program.inputs:
            changes[name] = data
            continue
        arity = program.arity(name)
        declared = program.declared.get(name)
        kinds = [types.of(name, column) for column in range(arity)]
        changes[name] = read_change(name, data, arity, declared, kinds, program.dictionaries, reserves_weight=False)
    return program, changes


_NAMED = ("language", "dialect", "arguments", "bag")


def _with_option_remedy(error: UnknownRelationError, options: Mapping[str, Any]) -> UnknownRelationError:
    """The error, with what to do where the relation that is missing has the name of an option."""
    if error.relation in (*_NAMED, *options):
        mapping_text = f"{{'{error.relation}': ...}}"
        what = f"'{error.relation}' is an option: give the relations as a mapping, the second argument: {mapping_text}."
        error.args = (f"{error}\n  As a keyword, {what}",)
    return error


def hide_unit_weights(answer: ZSet) -> ZSet:
    """The answer, its weights left out of exports where all are 1."""
    return answer.with_weight_name(None) if bool(np.all(answer.weights == 1)) else answer


def _declared(rules: Rules, options: Mapping[str, Any]) -> set[str]:
    names = {*(options.get("schema") or {})} | {declaration.relation for declaration in rules.declarations}
    return names | {directive.relation for directive in rules.directives}


def _tables(
    relations: Mapping[str, Any], schema: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, dict[str, str | None]]]:
    """The relations as what can be read more than once, and their columns' names and types; a schema goes first."""
    from gpu_wcoj.arrow.table import columns_by_name, type_names

    tables: dict[str, dict[str, str | None]] = {}
    columns: dict[str, Any] = {}
    for name, data in relations.items():
        if isinstance(data, ZSet):
            columns[name] = data
            tables[name] = {
                column_name: column.type.name for column_name, column in zip(data.names, data.columns, strict=True)
            }
        else:
            columns[name] = columns_by_name(data, f"relation '{name}'")
            tables[name] = type_names(columns[name], f"relation '{name}'")
    for name, kinds in schema.items():
        if isinstance(kinds, Mapping):
            tables[name] = {column_name: declared_type(str(kind)) for column_name, kind in kinds.items()}
        elif len(tables.get(name, ())) == len(kinds):
            tables[name] = dict(zip(tables[name], map(declared_type, map(str, kinds)), strict=True))
        else:
            raise SchemaError(
                f"the schema gives relation '{name}' types without names, and the query goes by names.\n"
                f"  Give both: schema={{'{name}': {{'src': 'int64', ...}}}}."
            )
    return columns, tables
