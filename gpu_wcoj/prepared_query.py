"""Queries of any language over rows, read and ready to become programs.

The relations of a query are the rows that are passed, and tables in the variables of the caller that it names.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from gpu_wcoj.arrow.table import columns_by_name, is_frame, type_names
from gpu_wcoj.data.schema import INTERVAL, NO_TYPE, DataType, declared_type
from gpu_wcoj.engine.ingest import are_numbered, merge_relations, read_change, with_file
from gpu_wcoj.engine.options import VIEW_KEYWORDS, ProgramOptions, validate_flag, validate_schema
from gpu_wcoj.errors import (
    EdnSyntaxError,
    SchemaError,
    UnknownRelationError,
    UnreadRelationWarning,
    UnsupportedError,
    UsageError,
    callers_frame,
    callers_level,
    nearest,
)
from gpu_wcoj.files.spec import files_of_text, named_files
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


@dataclass(frozen=True)
class LeftOut:
    """The columns of a table that a program does without.

    Attributes
    ----------
    columns
        The columns of the table.
    positions
        The positions of those that are left out.
    """

    columns: tuple[str, ...]
    positions: frozenset[int]

    def without(self, rows: Any, what: str) -> Any:
        """Return rows without these columns, which nothing looks at."""
        if isinstance(rows, ZSet):
            remaining = self._find_remaining(rows.names)
            columns = [rows.columns[i] for i in remaining]
            return ZSet.from_columns(
                [rows.names[i] for i in remaining], columns, rows.stored_weights, backend=rows.backend
            )
        columns_of_rows = columns_by_name(rows, what)
        names = list(columns_of_rows)
        return {names[i]: columns_of_rows[names[i]] for i in self._find_remaining(names)}

    def _find_remaining(self, names: Sequence[str]) -> list[int]:
        """Return the positions of the columns that stay; weights stay, too."""
        left_out = {self.columns[position] for position in self.positions}
        if are_numbered(names[: len(self.columns)]) and left_out.isdisjoint(names):
            return [i for i in range(len(names)) if i not in self.positions]
        return [i for i, name in enumerate(names) if name not in left_out]


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
    left_out
        Columns that are not part of the program, by relation: nothing reads them, and their types are not columns of
        numbers, texts or times.
    is_sql
        True for a query in SQL over bags, of which DuckDB may do a part.
    refusal
        The reason for which the engine does not answer a query in SQL, which then has no rules.
    """

    rules: Rules
    bag: bool
    relations: Mapping[str, Any]
    facts: Mapping[str, Any]
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    is_sql: bool = False
    refusal: UnsupportedError | None = None

    def start(self, options: ProgramOptions) -> tuple[Program, dict[str, Any]]:
        """Return the program and the changes of its first tick: the initial rows.

        Raises
        ------
        UnsupportedError
            If the engine does not answer the query.
        """
        if self.refusal is not None:
            raise self.refusal
        program = Program.from_options(self.rules, options)
        return program, self.initial_changes(program)

    def initial_changes(self, program: Program) -> dict[str, Any]:
        """Return the initial rows as changes of a program with these rules."""
        types = program.subject.ledger.state.types
        changes: dict[str, Any] = dict(self.facts)
        for name, data in self.relations.items():
            if name in self.left_out:
                data = self.left_out[name].without(data, f"relation '{name}'")
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


def passed_relations(
    text: Any, relations: Mapping[str, Any] | None, more: Mapping[str, Any], entry: Callable[..., Any]
) -> dict[str, Any]:
    """Return the relations that `gpu_wcoj.query` gets in a mapping and by keywords.

    `entry` is that function.

    Raises
    ------
    UsageError
        If a keyword cannot be rows and its name is not in the text, so that it is no option; and as `merge_relations`.
    """
    for name, value in more.items():
        if not (value is None or isinstance(value, (str, int, float))):  # these cannot be rows
            continue
        is_read = isinstance(text, str) and re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE)
        is_file = not isinstance(text, str) and isinstance(value, str) and named_files(name, value) is not None
        if not is_read and not is_file:
            hint = nearest(name, {*signature(entry).parameters} - {"text", "relations", "more"})
            raise UsageError.with_parts(
                f"query has no option '{name}', and {value!r:.80} is not a table or file for a relation of that name",
                subject=name,
                got=value,
                remedy=f"Pass other options to gpu_wcoj.Program or gpu_wcoj.view, and names of files that exist.{hint}",
            )
    return merge_relations(relations, more)


def prepare_query(
    source: QuerySource,
    relations: Mapping[str, Any],
    entry: Callable[..., Any],
    *,
    schema: Mapping[str, Sequence[str] | Mapping[str, str]] | None = None,
    scan: bool = True,
    is_single: bool = False,
    is_shared: bool = False,
) -> PreparedQuery:
    """Read a query and compare its relations with those that there are.

    This comes before its options are validated: rows that are passed by a keyword which is an option are missing here.

    Parameters
    ----------
    entry
        The function that the user has called; a missing relation may have the name of one of its options.
    schema
        Types of columns by relation, which override those of the data.
    scan
        Whether tables in the variables of the caller are relations, if the query reads relations of their names that
        are not passed.
    is_single
        True if the query is answered once, by a program with ``single_tick``; then a refusal of SQL is no error.
        Otherwise relations that the schema names, or a program in Datalog declares, may be left out.
    is_shared
        True if other queries read the relations, too: then all columns stay, and a relation that this query does not
        read gives no warning.

    Raises
    ------
    UnknownRelationError
        If a relation is missing; or if one is passed that the query does not read, and another one has no rows.
    GpuWcojError
        Also every error of the language's parser.
    """
    types_by_relation = validate_schema("schema", schema) or {}
    language = None
    if isinstance(source.text, str):
        language = language_of(source.text) if source.language is None else check_language(source.language)
    elif not isinstance(source.text, Rules):
        raise UsageError.wrong_type(
            "the query", source.text, "query text or Rules", "To run a file, pass its contents."
        )
    bag = language in BAGS if source.bag is None else _is_true(source.bag)
    needs_columns = language in BY_NAME or (bag and not is_single)
    rows = {name: _readable(name, data) if needs_columns else data for name, data in relations.items()}
    frame = callers_frame() if _is_true(scan) else None
    while True:
        tables = _tables(rows, types_by_relation, language in BY_NAME) if needs_columns else {}
        try:
            prepared = _prepared(source, language, bag, rows, tables, entry, types_by_relation, is_single, is_shared)
            for option, flag in (("bag", bag if source.bag is None else source.bag), ("scan", scan)):
                validate_flag(option, flag)
            return prepared
        except (UnknownRelationError, EdnSyntaxError) as error:
            name = error.relation
            table = None if frame is None or name in rows else _table_of_caller(name, frame)
            if table is None and frame is not None and language == "sql" and name not in rows:
                table = _table_of_text(name)
            if table is None:
                if frame is not None and (near := _table_near(name, frame)):
                    error.args = (f"{error}\n  Or did you mean the variable '{near}', which holds a table?",)
                    if isinstance(error, EdnSyntaxError):
                        error.msg = error.args[0]  # which tracebacks of syntax errors print
                raise
            rows[name] = _readable(name, table) if needs_columns else table


def _is_true(option: object) -> bool:
    """Return whether an option is True; before it is validated, it may also be a relation."""
    return isinstance(option, (bool, np.bool_)) and bool(option)


def tables_of_caller(names: Sequence[str]) -> dict[str, Any]:
    """Return the tables in variables of these names, of the caller or of its module."""
    frame = callers_frame()
    found = {} if frame is None else {name: _table_of_caller(name, frame) for name in names}
    return {name: table for name, table in found.items() if table is not None}


def _table_near(name: str, frame: FrameType) -> str:
    """Return the variable with a table whose name is nearest to a name; empty if none is near."""
    tables = [
        variable
        for variable, value in {**frame.f_globals, **frame.f_locals}.items()
        if variable != name and (isinstance(value, ZSet) or is_frame(value))
    ]
    near = get_close_matches(name, tables, n=1, cutoff=_SIMILARITY)
    return near[0] if near else ""


def _table_of_caller(name: str, frame: FrameType) -> Any:
    """Return the table in a variable of the caller or of its module; None without one."""
    places = [("a local variable", frame.f_locals)]
    while frame.f_code.co_name in _COMPREHENSIONS and frame.f_back is not None:
        frame = frame.f_back
        places.append(("a local variable", frame.f_locals))
    for place, variables in (*places, ("a global variable", frame.f_globals)):
        if name in variables:
            table = variables[name]
            if not isinstance(table, ZSet) and not is_frame(table):
                return None
            kind, code = type(table), frame.f_code
            _LOGGER.info(
                "relation '%s' is %s of the caller: a %s.%s (%s, line %s)", name, place, kind.__module__.split(".")[0],
                kind.__qualname__, code.co_filename, frame.f_lineno,
            )  # fmt: skip
            return table
    return None


def _table_of_text(name: str) -> Any:
    """Return the table of a file that SQL names in place of a relation; None without one."""
    spec = files_of_text(name)
    if spec is None:
        return None
    _LOGGER.info("relation '%s' is read from %s file(s)", name, 1 + len(spec.more))
    return with_file(name, Path(name).expanduser())


_LOGGER = logging.getLogger("gpu_wcoj")
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Names of code that has variables of its own inside of a function."""


def _prepared(
    source: QuerySource,
    language: Language | None,
    bag: bool,
    relations: Mapping[str, Any],
    tables: Mapping[str, Mapping[str, str | None]],
    entry: Callable[..., Any],
    schema: Mapping[str, Sequence[str] | Mapping[str, str]],
    is_single: bool,
    is_shared: bool,
) -> PreparedQuery:
    """Read a query with these relations, and no others."""
    facts: Mapping[str, Any] = {}
    if isinstance(source.text, Rules):
        rules = source.text
    else:
        assert language is not None
        try:
            reading = read(
                source.text, language, tables=tables if language in BY_NAME else {}, dialect=source.dialect,
                arguments=source.arguments, is_single=is_single, functions=source.functions,
            )  # fmt: skip
        except UnsupportedError as refusal:
            if not (is_single and bag and language == "sql"):
                raise
            return PreparedQuery(Rules(()), bag, relations, {}, is_sql=True, refusal=refusal.with_traceback(None))
        except UnknownRelationError as error:
            raise _with_option_remedy(error, entry) from None
        rules, facts = reading.rules, reading.facts
    allowed = set() if is_single else _declared(rules, schema)
    remedy = "Give its rows, as {}=[...]" + ("." if is_single else ", or declare it with .decl or schema=.")
    try:
        check_required(rules, rules.inputs, {*relations, *facts, *allowed}, remedy, source.functions)
    except UnknownRelationError as error:
        raise _with_option_remedy(error, entry) from None
    read_relations = dict(relations) if is_shared else _without_unread(rules, relations)
    left_out = {}
    if bag and not is_single and not is_shared:
        left_out = {name: left for name in tables if (left := _left_out(rules, name, tables[name])) is not None}
        rules = rules.without_columns({name: left.positions for name, left in left_out.items()})
    return PreparedQuery(rules, bag, read_relations, facts, left_out, is_sql=bag and language == "sql")


def _without_unread(rules: Rules, relations: Mapping[str, Any]) -> dict[str, Any]:
    """Return the relations that rules read, if all of these have rows; else all relations.

    A name near one of theirs gives a warning: it may be a misspelled one.
    """
    if not {*relations}.issuperset(rules.inputs):
        return dict(relations)
    unread = [name for name in relations if name not in rules.inputs and name not in rules.heads]
    for name in unread:
        hint = nearest(name, rules.inputs, _SIMILARITY)
        if hint:
            text = f"relation '{name}' is passed, and the query does not read it.{hint}"
            warnings.warn(text, UnreadRelationWarning, stacklevel=callers_level())
    return {name: rows for name, rows in relations.items() if name not in unread}


_SIMILARITY = 0.8
"""Similarity from which on a relation that is not read may be a misspelled one: ``edge`` and ``edges`` have 0.89."""


def _left_out(rules: Rules, name: str, types: Mapping[str, str | None]) -> LeftOut | None:
    """Return the columns that a program for bags can do without; None if there are none.

    These are columns that no rule reads, of types that are nested or not supported for all values.
    """
    if name not in rules.inputs or len(types) != rules.arity[name] or name in rules.heads:
        return None
    unread = rules.unread(name)
    if name in {helper.source for helper in rules.helpers}:
        return None
    positions = frozenset(
        position
        for position, kind in enumerate(types.values())
        if position in unread and (kind is None or kind == INTERVAL or DataType(kind).family == "nested")
    )
    return LeftOut(tuple(types), positions) if positions and len(positions) < len(types) else None


def _with_option_remedy(error: UnknownRelationError, entry: Callable[..., Any]) -> UnknownRelationError:
    """Extend the error of a missing relation by what the entry offers for it.

    The relation may have the name of an option; or views declare it by the option `schema`.
    """
    if error.is_alias:
        return error
    names = signature(entry).parameters
    if error.relation in names or ("options" in names and error.relation in VIEW_KEYWORDS):
        mapping_text = f"{{'{error.relation}': ...}}"
        remedy = f"pass the relations as a mapping, the second argument: {mapping_text}."
        error.args = (f"{error}\n  The keyword '{error.relation}' is an option: {remedy}",)
    elif "schema" in names and "schema=" not in str(error) and error.relation.isidentifier():
        error.args = (f"{error}\n  To begin without rows: schema={{'{error.relation}': {{'column': 'int64', ...}}}}.",)
    return error


def _declared(rules: Rules, schema: Mapping[str, Any]) -> set[str]:
    names = {*schema} | {declaration.relation for declaration in rules.declarations}
    return names | {directive.relation for directive in rules.directives}


def _readable(name: str, data: Any) -> Any:
    """Return the rows of a relation in a form that can be read repeatedly."""
    return data if isinstance(data, ZSet) else columns_by_name(data, f"relation '{name}'")


def column_types(
    relations: Mapping[str, Any], schema: Mapping[str, Sequence[str] | Mapping[str, str]] | None
) -> dict[str, dict[str, str | None]]:
    """Return the names of the columns of relations with their types, None if unknown.

    A schema overrides the types of the data.
    """
    return _tables({name: _readable(name, data) for name, data in relations.items()}, schema or {}, True)


def _tables(
    relations: Mapping[str, Any], schema: Mapping[str, Any], needs_names: bool
) -> dict[str, dict[str, str | None]]:
    """Return the names of the columns of relations of `_readable`, with their types.

    A schema overrides the types of the data.
    """
    tables: dict[str, dict[str, str | None]] = {}
    for name, data in relations.items():
        if isinstance(data, ZSet):
            tables[name] = {
                column_name: None if column.type.name == NO_TYPE else column.type.name
                for column_name, column in zip(data.names, data.columns, strict=True)
            }
        else:
            tables[name] = type_names(data, f"relation '{name}'")
    for name, kinds in schema.items():
        if isinstance(kinds, Mapping):
            tables[name] = {column_name: declared_type(str(kind)) for column_name, kind in kinds.items()}
        elif len(tables.get(name, ())) == len(kinds):
            tables[name] = dict(zip(tables[name], map(declared_type, map(str, kinds)), strict=True))
        elif needs_names:
            raise SchemaError.missing(
                f"the schema of relation '{name}'",
                "a name for each column",
                f"Give names and types: schema={{'{name}': {{'src': 'int64', ...}}}}.",
            )
    return tables
