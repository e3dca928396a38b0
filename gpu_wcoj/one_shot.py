"""One-call queries: the answer is computed once, and no state is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.backend import BackendName
from gpu_wcoj.errors import SchemaError, UnknownRelationError, UsageError, entry_point
from gpu_wcoj.query.languages import BAGS, BY_NAME, check_language, language_of
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.program import Program
    from gpu_wcoj.query.ir import Rules
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
    """Return the answer of a program over tables, lists or arrays.

    It is a ZSet, or a dict of them if there are several outputs.

    Every column of a table is data, also a column called ``weight``. A `ZSet` keeps its weights. A missing relation is
    an error. Exports leave the answer's weights out if all are 1.

    Parameters
    ----------
    text
        A program in Datalog, SQL or EDN, or rules.
    relations
        Rows by relation; they may also be keywords, if no option has the relation's name.
    language
        ``"datalog"``, ``"sql"`` or ``"edn"``; by default detected from the beginning of the text, see
        `gpu_wcoj.query.languages.language_of`.
    dialect
        The dialect of SQL: duckdb, postgres, spark, or another of `gpu_wcoj.query.sql.compiler.DIALECTS`.
    arguments
        Arguments of a query in EDN: the values of ``:in`` other than relations, in order.
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
        if value is None or isinstance(value, (str, int, float)):  # these cannot be rows
            raise UsageError.with_parts(
                f"query has no option '{name}', and {value!r:.80} is not a table for a relation of that name",
                subject=name,
                got=value,
                remedy="Pass other options to gpu_wcoj.Program or gpu_wcoj.view.",
            )
    program, changes = prepare_query(
        text, merge_relations(relations, more), language, dialect, bag, arguments, backend=backend, threads=threads,
        single_tick=True,
    )  # fmt: skip
    answers = {name: hide_unit_weights(answer) for name, answer in program.answer(changes).items()}
    return next(iter(answers.values())) if len(answers) == 1 else answers


def merge_relations(relations: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the relations of a mapping and of keywords.

    Raises
    ------
    UsageError
        If `relations` is not a mapping, or a relation is in both.
    """
    if relations is not None and not isinstance(relations, Mapping):
        raise UsageError.wrong_type(
            "the argument 'relations'",
            relations,
            "a mapping from names to rows",
            "Give the relations as keywords, or in a dict.",
        )
    merged = dict(relations or {})
    for name, rows in more.items():
        if name in merged:
            raise UsageError.duplicate("the relation", name, remedy="Give it once.")
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
    """Return the program of a query and the changes of its first tick: the initial rows.

    Parameters
    ----------
    may_be_empty
        True if relations that the schema names, or a program in Datalog declares, may be left out.
    options
        Options of `Program`.

    Raises
    ------
    UnknownRelationError
        If a relation is missing.
    GpuWcojError
        Also every error of the language's parser and of `Program`.
    """
    from gpu_wcoj.engine.ingest import read_change
    from gpu_wcoj.program import Program
    from gpu_wcoj.query.check import check_required
    from gpu_wcoj.query.ir import Rules
    from gpu_wcoj.query.translation import read

    resolved_language: Language | None = None
    is_single = bool(options.get("single_tick"))
    text_relations: Mapping[str, Any] = {}
    if isinstance(text, Rules):
        rules = text
    elif isinstance(text, str):
        resolved_language = language_of(text) if language is None else check_language(language)
        tables: Mapping[str, Mapping[str, str | None]] = {}
        if resolved_language in BY_NAME:
            relations, tables = _tables(relations, options.get("schema") or {})
        try:
            reading = read(
                text, resolved_language, tables=tables, dialect=dialect, arguments=arguments, narrows=not is_single
            )
        except UnknownRelationError as error:
            raise _with_option_remedy(error, options) from None
        rules, text_relations = reading.rules, reading.facts
    else:
        raise UsageError.wrong_type("the query", text, "query text or Rules", "To run a file, pass its contents.")
    allowed = _declared(rules, options) if may_be_empty else set()
    available = {*relations, *text_relations, *allowed}
    remedy = "Give its rows, as {}=[...]" + (", or declare it with .decl or schema=." if may_be_empty else ".")
    try:
        check_required(rules, rules.inputs, available, remedy)  # before Program rejects a relation's rows as an option
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
        kinds = [types.type_of(name, column) for column in range(arity)]
        unread = _unread_columns(program, name) if is_single else None
        changes[name] = read_change(
            name, data, arity, declared, kinds, program.dictionaries, reserves_weight=False, unread=unread
        )
    return program, changes


def _unread_columns(program: Program, name: str) -> frozenset[int]:
    """Return the columns of an input that no rule reads.

    Columns of declared types are read, as their values have to be of these types.
    """
    core = program.subject.lowering.rules
    if name in program.heads or any(grouping.source == name for grouping in core.groupings):
        return frozenset()
    typed = {
        column
        for declaration in program.rules.declarations
        if declaration.relation == name and declaration.is_binding
        for column, kind in enumerate(declaration.types)
        if kind is not None
    }
    return core.unread(name) - typed


_NAMED = ("language", "dialect", "arguments", "bag")


def _with_option_remedy(error: UnknownRelationError, options: Mapping[str, Any]) -> UnknownRelationError:
    """Extend the error by a remedy if the missing relation has the name of an option."""
    if error.relation in (*_NAMED, *options):
        mapping_text = f"{{'{error.relation}': ...}}"
        remedy = f"pass the relations as a mapping, the second argument: {mapping_text}."
        error.args = (f"{error}\n  The keyword '{error.relation}' is an option: {remedy}",)
    return error


def hide_unit_weights(answer: ZSet) -> ZSet:
    """Return the answer; exports leave its weights out if all are 1."""
    return answer.with_weight_name(None) if bool(np.all(answer.weights == 1)) else answer


def _declared(rules: Rules, options: Mapping[str, Any]) -> set[str]:
    names = {*(options.get("schema") or {})} | {declaration.relation for declaration in rules.declarations}
    return names | {directive.relation for directive in rules.directives}


def _tables(
    relations: Mapping[str, Any], schema: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, dict[str, str | None]]]:
    """Return the relations in a re-readable form, and their columns' names and types.

    A schema overrides the types of the data.
    """
    from gpu_wcoj.arrow.table import columns_by_name, type_names
    from gpu_wcoj.query.datalog import declared_type

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
            raise SchemaError.missing(
                f"the schema of relation '{name}'",
                "names of columns",
                f"Give names and types: schema={{'{name}': {{'src': 'int64', ...}}}}.",
            )
    return columns, tables
