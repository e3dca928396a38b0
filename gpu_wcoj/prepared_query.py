"""Queries of any language over rows, read and ready to become programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from gpu_wcoj.arrow.table import columns_by_name, type_names
from gpu_wcoj.data.schema import declared_type
from gpu_wcoj.engine.ingest import read_change
from gpu_wcoj.engine.options import ProgramOptions, validate_flag, validate_schema
from gpu_wcoj.errors import SchemaError, UnknownRelationError, UsageError
from gpu_wcoj.program import Program
from gpu_wcoj.query.check import check_required
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.query.languages import BAGS, BY_NAME, Language, check_language, language_of
from gpu_wcoj.query.translation import read
from gpu_wcoj.user_functions import Function
from gpu_wcoj.zset.zset import ZSet


@dataclass(frozen=True)
class QuerySource:
    """A query as text, with all that its reading depends on, or rules.

    Attributes
    ----------
    text
        The text, or rules.
    language
        The language of the text; None to detect it.
    dialect
        The dialect of SQL.
    arguments
        The arguments of a query in EDN.
    bag
        True for exact weights; None if the language decides.
    functions
        Python functions that the text may call.
    """

    text: str | Rules
    language: Language | None = None
    dialect: str = "duckdb"
    arguments: Sequence[Any] = ()
    bag: bool | None = None
    functions: Sequence[Function] = ()


@dataclass(frozen=True, eq=False)
class PreparedQuery:
    """A query that has been read, and its relations.

    Attributes
    ----------
    rules
        The query in rules.
    bag
        True for exact weights.
    relations
        The rows of the relations, by name.
    facts
        Rows that the text contains, by relation.
    language
        The language of the text; None for rules.
    """

    rules: Rules
    bag: bool
    relations: Mapping[str, Any]
    facts: Mapping[str, Any]
    language: Language | None = None

    def start(self, options: ProgramOptions) -> tuple[Program, dict[str, Any]]:
        """Return the program and the changes of its first tick: the initial rows."""
        program = Program.from_options(self.rules, options)
        return program, self.initial_changes(program)

    def initial_changes(self, program: Program) -> dict[str, Any]:
        """Return the initial rows as changes of a program with these rules."""
        types = program.subject.ledger.state.types
        changes: dict[str, Any] = dict(self.facts)
        for name, data in self.relations.items():
            if isinstance(data, ZSet) or name not in program.inputs:
                changes[name] = data
                continue
            arity = program.arity(name)
            declared = program.declared.get(name)
            kinds = [types.type_of(name, column) for column in range(arity)]
            unread = _unread_columns(program, name) if program.options.single_tick else None
            changes[name] = read_change(
                name, data, arity, declared, kinds, program.dictionaries, reserves_weight=False, unread=unread
            )
        return changes


def _unread_columns(program: Program, name: str) -> frozenset[int]:
    """Return the columns of an input that no rule reads.

    Columns of declared types are read, as their values have to be of these types.
    """
    core = program.subject.lowering.rules
    if name in program.heads or any(helper.source == name for helper in core.helpers):
        return frozenset()
    typed = {
        column
        for declaration in program.rules.declarations
        if declaration.relation == name and declaration.is_binding
        for column, kind in enumerate(declaration.types)
        if kind is not None
    }
    return core.unread(name) - typed


def prepare_query(
    source: QuerySource,
    relations: Mapping[str, Any],
    entry: Callable[..., Any],
    *,
    schema: Mapping[str, Sequence[str] | Mapping[str, str]] | None = None,
    may_be_empty: bool = False,
    is_single: bool = False,
) -> PreparedQuery:
    """Read a query and compare its relations with those that there are.

    This comes before its options are validated: rows that are passed by a keyword which is an option are missing here.

    Parameters
    ----------
    entry
        The function that the user has called; a missing relation may have the name of one of its options.
    schema
        Types of columns by relation, which override those of the data.
    may_be_empty
        True if relations that the schema names, or a program in Datalog declares, may be left out.
    is_single
        True if the query is answered once, by a program with ``single_tick``.

    Raises
    ------
    UnknownRelationError
        If a relation is missing.
    GpuWcojError
        Also every error of the language's parser.
    """
    text, resolved_language = source.text, None
    facts: Mapping[str, Any] = {}
    types_by_relation = validate_schema("schema", schema) or {}
    if isinstance(text, Rules):
        rules = text
    elif isinstance(text, str):
        resolved_language = language_of(text) if source.language is None else check_language(source.language)
        tables: Mapping[str, Mapping[str, str | None]] = {}
        if resolved_language in BY_NAME:
            relations, tables = _tables(relations, types_by_relation)
        try:
            reading = read(
                text, resolved_language, tables=tables, dialect=source.dialect, arguments=source.arguments,
                is_single=is_single, functions=source.functions,
            )  # fmt: skip
        except UnknownRelationError as error:
            raise _with_option_remedy(error, entry) from None
        rules, facts = reading.rules, reading.facts
    else:
        raise UsageError.wrong_type("the query", text, "query text or Rules", "To run a file, pass its contents.")
    allowed = _declared(rules, types_by_relation) if may_be_empty else set()
    remedy = "Give its rows, as {}=[...]" + (", or declare it with .decl or schema=." if may_be_empty else ".")
    try:
        check_required(rules, rules.inputs, {*relations, *facts, *allowed}, remedy, source.functions)
    except UnknownRelationError as error:
        raise _with_option_remedy(error, entry) from None
    bag = resolved_language in BAGS if source.bag is None else validate_flag("bag", source.bag)
    return PreparedQuery(rules, bag, relations, facts, resolved_language)


def _with_option_remedy(error: UnknownRelationError, entry: Callable[..., Any]) -> UnknownRelationError:
    """Extend the error by a remedy if the missing relation has the name of an option."""
    if error.relation in signature(entry).parameters:
        mapping_text = f"{{'{error.relation}': ...}}"
        remedy = f"pass the relations as a mapping, the second argument: {mapping_text}."
        error.args = (f"{error}\n  The keyword '{error.relation}' is an option: {remedy}",)
    return error


def _declared(rules: Rules, schema: Mapping[str, Any]) -> set[str]:
    names = {*schema} | {declaration.relation for declaration in rules.declarations}
    return names | {directive.relation for directive in rules.directives}


def _tables(
    relations: Mapping[str, Any], schema: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, dict[str, str | None]]]:
    """Return the relations in a re-readable form, and their columns' names and types.

    A schema overrides the types of the data.
    """
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
