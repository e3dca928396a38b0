"""Queries in SQL that the engine refuses: the engine joins, and DuckDB does the rest."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from gpu_wcoj.arrow.database import (
    Database,
    Settings,
    StatementError,
    TooManyRowsError,
    arrow_table,
    quoted,
)
from gpu_wcoj.arrow.table import columns_by_name, type_names
from gpu_wcoj.arrow_rows import DecodedRows
from gpu_wcoj.budget import DEFAULT_SHARE, remaining_memory
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.errors import (
    CalculationError,
    ColumnError,
    GpuWcojError,
    MemoryBudgetError,
    RowBudgetError,
    SqlSyntaxError,
    TimeBudgetError,
    TypeMismatchError,
    UnknownRelationError,
    UnsupportedError,
    counted,
    pointed,
)
from gpu_wcoj.prepared_query import PreparedQuery, QuerySource
from gpu_wcoj.query.ir import Rules, functions_by_name
from gpu_wcoj.query.sql.coercion import nearest_function
from gpu_wcoj.query.sql.compiler import compile_statements
from gpu_wcoj.query.sql.scope import ANSWER
from gpu_wcoj.query.sql.source import Place, describes_columns, statements
from gpu_wcoj.query.sql.tail import (
    Block,
    Relation,
    check_case,
    is_block,
    items_of_from,
    named_columns,
    named_tables,
    reads,
    select_all,
    shown_names,
    subqueries,
    with_ctes,
)
from gpu_wcoj.result import Result
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


INTEGER_QUOTIENTS = ("postgres", "redshift", "trino", "presto", "athena", "materialize", "risingwave")
"""Dialects in which ``/`` of integers is an integer."""
_COLUMN = re.compile(r'column "(.*?)" not found|does not have a column named "(.*?)"')
_TABLE = re.compile(r'Referenced table "(.*?)" not found')
_FUNCTION = re.compile(r'Function with name "?(.*?)"? does not exist')
_VALUES = ("Conversion", "Out of Range", "Invalid Input", "Invalid")
_TYPES = re.compile(r"No function matches|Cannot (?:compare|mix|combine|cast)|types? |argument")


@dataclass(frozen=True)
class Part:
    """A part of a query that the engine or DuckDB has answered.

    Attributes
    ----------
    worker
        Who has answered it.
    table
        The name of its rows in the parts after it; empty for the answer.
    text
        The part in DuckDB's SQL.
    reason
        The reason for which the engine has not answered it; empty for its own parts.
    n_rows
        The number of rows.
    """

    worker: Literal["engine", "DuckDB"]
    table: str
    text: str
    reason: str
    n_rows: int

    def __str__(self) -> str:
        name = self.table or "answer"
        reason = f"\n  The engine does not: {self.reason}" if self.reason else ""
        return f"{name}: {self.worker}, {counted(self.n_rows, 'row')}{reason}\n  {self.text}"


class Tail:
    """The run of a text in SQL that the engine refuses, by the engine and DuckDB.

    The blocks of a statement are looked at from the inside to the outside. What the engine can do of a block becomes a
    table of its rows.

    Parameters
    ----------
    prepared
        The text, with the tables that it may read.
    options
        The options of the engine; those for budgets apply to DuckDB, too.
    refusal
        The error of the engine.

    Raises
    ------
    BackendUnavailableError
        If DuckDB is not installed.
    """

    def __init__(
        self, source: QuerySource, relations: Mapping[str, Any], options: ProgramOptions, refusal: GpuWcojError
    ) -> None:
        assert isinstance(source.text, str)
        self.source = source
        self.options = options
        self.refusal = refusal
        self.place: Place = Place(source.text, "<text>", source.dialect)
        self.functions = {function.name.lower(): function for function in functions_by_name(source.functions).values()}
        self.relations = {name: _as_columns(name, data) for name, data in relations.items()}
        self.tables = {name: type_names(columns, f"relation '{name}'") for name, columns in self.relations.items()}
        self.parts: list[Part] = []
        budget = options.budget()
        self._deadline = None if budget is None or budget.seconds is None else time.monotonic() + budget.seconds
        self._limit = options.limit
        divides_integers = source.dialect in INTEGER_QUOTIENTS
        self.database = Database(Settings(options.threads, remaining_memory(), divides_integers))
        self._registered: dict[str, Any] = {}
        self._n_tables = 0

    def close(self) -> None:
        """Free the memory of DuckDB."""
        self.database.close()

    def answers(self) -> dict[str, Result]:
        """Return the answers of the statements by name, in their order.

        Raises
        ------
        GpuWcojError
            If a statement cannot be answered.
        """
        nodes = statements(self.place.text, self.source.dialect, self.place, self.functions)
        results: dict[str, Result] = {}
        for node in nodes:
            self.place.names.fold(node)
        for node in nodes:
            name, query, names = self._statement(node)
            if self.place.names.matching(name, False, [*self.tables, *results], is_table=True):
                raise self.place.wrong(
                    f"there is a relation '{name}' already; write CREATE VIEW with other names", node
                )
            is_whole = len(nodes) == 1 and query is node and self.source.dialect == "duckdb"
            table = self._answer(query, self.place.text.rstrip().rstrip(";") if is_whole else None)
            shown = list(self.place.names.unique(names or shown_names(query, table.column_names, self.place)))
            table = table.rename_columns(shown)
            results[name] = Result(DecodedRows.of_table(table), parts=tuple(self.parts))
            if len(nodes) > 1:
                self._add(name, table)
        return results

    def _statement(self, node: Node) -> tuple[str, Node, list[str]]:
        """Return the name, the query and the names of columns of a statement."""
        from sqlglot import expressions as exp

        if isinstance(node, exp.Query):
            return ANSWER, node, []
        is_view = isinstance(node, exp.Create) and node.args.get("kind") == "VIEW"
        if not is_view or not isinstance(node.expression, exp.Query) or node.args.get("properties"):
            raise self.refusal
        target, names = node.this, []
        if isinstance(target, exp.Schema):
            names = [column.name for column in target.expressions]
            target = target.this
        return target.name, node.expression, names

    # DuckDB

    def _answer(self, query: Node, text: str | None) -> Any:
        """Return the answer of a statement; `text` is its text if DuckDB can read it."""
        from sqlglot import expressions as exp

        if next(query.find_all(exp.Placeholder, exp.Parameter), None) is not None:
            raise self.refusal
        tables = named_tables(query, self.tables, self.place)
        check_case(query, (column for name in tables for column in self.tables[name]), self.place)
        for name in tables:
            self._register(name, query)
        statement = text or self._written(query)
        try:
            if not self._calls_python(query):
                _ = self.database.columns(statement)
        except StatementError as error:
            raise self._in_our_words(error, query, text is not None, is_binding=True) from None
        rewritten = query if describes_columns(query, self.functions) else self._rewritten(query.copy(), {})
        if len(self.parts) and any(part.worker == "engine" for part in self.parts):
            statement = self._written(rewritten)
            self.place.check_meaning(rewritten, self.source.dialect)
        else:
            self.place.check_meaning(query, self.source.dialect)
        table = self._run(query, statement, self._limit)
        self._note("DuckDB", "", statement, self.refusal, len(table))
        return table

    def _run(self, query: Node, statement: str, limit: int | None) -> Any:
        try:
            return self.database.answer(statement, self._seconds(), limit)
        except TimeoutError:
            raise self._late() from None
        except TooManyRowsError:
            raise RowBudgetError.with_parts(
                f"'answer' has more rows than limit={limit:,} allows", remedy="Raise limit, or ask for fewer rows."
            ) from None
        except StatementError as error:
            raise self._in_our_words(error, query, statement in self.place.text) from None

    def _seconds(self) -> float | None:
        """Return the remaining seconds."""
        if self._deadline is None:
            return None
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise self._late()
        return remaining

    def _late(self) -> TimeBudgetError:
        return TimeBudgetError.with_parts(
            f"the query takes longer than timeout={self.options.timeout:g} seconds allow",
            remedy="Raise timeout, or ask for less.",
        )

    def _written(self, query: Node) -> str:
        """Return a query in DuckDB's SQL."""
        return query.sql(dialect="duckdb", identify=True)

    def _register(self, name: str, query: Node) -> None:
        """Let DuckDB read the columns of a table that a query names."""
        if name in self._registered:
            return
        columns = self.relations[name]
        table = arrow_table(columns, named_columns(query, columns, self.place), f"relation '{name}'")
        self._registered[name] = table
        try:
            self.database.register(name, table)
        except StatementError as error:
            raise self.refusal from error

    def _add(self, name: str, table: Any) -> None:
        """Add a table of the rows of a part."""
        self._know(name, table)
        self.database.register(name, table)

    def _know(self, name: str, table: Any) -> None:
        """Record the rows and the types of a table that DuckDB has."""
        self.relations[name] = columns_by_name(table, f"relation '{name}'")
        self.tables[name] = type_names(self.relations[name], f"relation '{name}'")
        self._registered[name] = table

    def _note(self, worker: Literal["engine", "DuckDB"], table: str, text: str, why: Exception | str, n: int) -> None:
        """Add a part; the reason is the first line of an error."""
        self.parts.append(Part(worker, table, text, str(why).split("\n", maxsplit=1)[0], n))

    def _fresh(self) -> str:
        """Return a name for a table of rows that nothing in the text has."""
        while True:
            self._n_tables += 1
            name = f"part_{self._n_tables}"
            if name not in self.place.text.lower() and name not in self.tables:
                return name

    def _calls_python(self, query: Node) -> bool:
        """Return whether a query calls Python functions, which the engine may do."""
        from sqlglot import expressions as exp

        return any(call.name.lower() in self.functions for call in query.find_all(exp.Anonymous))

    # the engine

    def _compiled(self, query: Node, ctes: Mapping[str, Node]) -> Rules:
        """Compile a query.

        Raises
        ------
        GpuWcojError
            If the engine cannot do it.
        """
        node = self._self_contained(query, ctes)
        return compile_statements([node], self.tables, self.place, self.functions)

    def _with_ctes(self, query: Node, ctes: Mapping[str, Node]) -> str:
        """Return a query with the common table expressions that it reads, in DuckDB's SQL."""
        return self._written(self._self_contained(query, ctes))

    def _self_contained(self, query: Node, ctes: Mapping[str, Node]) -> Node:
        """Return a copy of a query with the common table expressions that it reads."""
        needed = self._needed(query, ctes)
        return with_ctes(query, needed, any(reads(cte.this, cte.alias, self.place) for cte in needed))

    def _needed(self, query: Node, ctes: Mapping[str, Node]) -> list[Node]:
        """Return the common table expressions that a query reads, in their order."""
        needed: dict[str, Node] = {}
        waiting = [query]
        while waiting:
            node = waiting.pop()
            for key, cte in ctes.items():
                if key not in needed and reads(node, cte.alias, self.place):
                    needed[key] = cte
                    waiting.append(cte.this)
        return [cte for key, cte in ctes.items() if key in needed]

    def _reason(self, query: Node, ctes: Mapping[str, Node]) -> GpuWcojError | None:
        """Return the reason for which the engine cannot do a query; None if it can."""
        try:
            _ = self._compiled(query, ctes)
        except GpuWcojError as error:
            return error
        return None

    def _joined(self, query: Node, ctes: Mapping[str, Node]) -> str | None:
        """Return the name of a table of the engine's answer; None if the engine cannot do it."""
        try:
            rules = self._compiled(query, ctes)
            inputs = {name: self.relations[name] for name in rules.inputs}
            options = replace(
                self.options, bag=True, inputs=rules.inputs, limit=None, outputs=None, single_tick=True,
                timeout=self._seconds(),
            )  # fmt: skip
            program, changes = PreparedQuery(rules, True, inputs, {}).start(options)
            (answer,) = program.answer(changes).values()
            table = Result(answer).to_arrow()
        except (TimeBudgetError, MemoryBudgetError):
            raise
        except GpuWcojError:
            return None
        name = self._fresh()
        table = self.database.register_answer(name, table, self._with_ctes(query, ctes))
        self._know(name, table)
        self._note("engine", name, self._written(query), "", len(table))
        return name

    # blocks

    def _rewritten(self, query: Node, ctes: Mapping[str, Node]) -> Node:
        """Return a query that reads tables of what the engine can do of it; the query changes.

        Parameters
        ----------
        ctes
            The common table expressions around it that the engine can do, by the keys of their names.
        """
        from sqlglot import expressions as exp

        if isinstance(query, exp.Subquery):
            query.set("this", self._rewritten(query.this, ctes))
            return query
        inside = dict(ctes)
        if query.args.get("with_") is not None:
            self._rewrite_ctes(query.args["with_"], inside)
        if isinstance(query, exp.SetOperation):
            for side in ("this", "expression"):
                query.set(side, self._rewritten(query.args[side], inside))
        elif isinstance(query, exp.Select):
            return self._rewritten_block(query, inside)
        return query

    def _rewrite_ctes(self, clause: Node, ctes: dict[str, Node]) -> None:
        """Replace the common table expressions that the engine cannot do by tables of their rows."""
        from sqlglot import expressions as exp

        for cte in clause.expressions:
            key = self.place.names.key(cte.alias)
            ctes.pop(key, None)
            is_recursive = reads(cte.this, cte.alias, self.place)
            source = select_all(cte.alias, self.place)
            reason = self._reason(source, {**ctes, key: cte})
            if reason is not None:
                if not is_recursive:
                    cte.set("this", self._rewritten(cte.this, ctes))
                name = self._materialized(source, {**ctes, key: cte}, reason)
                if name is None:
                    continue
                cte.set("this", select_all(name, self.place))
                alias = cte.args["alias"]
                cte.set("alias", exp.TableAlias(this=alias.this))
            ctes[key] = cte

    def _materialized(self, query: Node, ctes: Mapping[str, Node], reason: Exception) -> str | None:
        """Return the name of a table of DuckDB's answer; None if it reads columns from outside."""
        self.place.check_meaning(query, self.source.dialect)
        statement = self._with_ctes(query, ctes)
        try:
            columns = self.database.columns(statement)
        except StatementError:
            return None
        if len({self.place.names.key(column) for column in columns}) < len(columns):
            return None
        name = self._fresh()
        try:
            self.database.create(name, statement, self._seconds())
            table = self.database.answer(f"FROM {quoted(name)}", self._seconds())
        except TimeoutError:
            raise self._late() from None
        except StatementError as error:
            raise self._in_our_words(error, query, False) from None
        self._know(name, table)
        self._note("DuckDB", name, statement, reason, len(table))
        return name

    def _rewritten_block(self, select: Node, ctes: Mapping[str, Node]) -> Node:
        """Return a SELECT that reads tables of what the engine can do of it."""
        from sqlglot import expressions as exp

        for item in items_of_from(select):
            if isinstance(item, exp.Subquery) and not item.args.get("joins") and not isinstance(item.this, exp.Table):
                reason = self._reason(item.this, ctes)
                if reason is None:
                    continue
                item.set("this", self._rewritten(item.this, ctes))
                name = self._materialized(item.this, ctes, reason)
                if name is not None:
                    item.set("this", select_all(name, self.place))
        if is_block(select):
            without = select.copy()
            without.set("with_", None)
            if self._reason(without, ctes) is None:
                name = self._joined(without, ctes)
                if name is not None:
                    return self._in_place_of(select, name)
            self._rewrite_core(select, ctes)
        for item in items_of_from(select):
            if isinstance(item, exp.Subquery) and isinstance(item.this, (exp.Select, exp.SetOperation)):
                item.set("this", self._rewritten(item.this, ctes))
        for query in list(subqueries(select)):
            _ = query.replace(self._rewritten(query.copy(), ctes))
        return select

    def _in_place_of(self, select: Node, name: str) -> Node:
        """Return a SELECT of the rows of a table, with the WITH of the one that it stands for."""
        result = select_all(name, self.place, list(self.tables[name]))
        result.set("with_", select.args.get("with_"))
        return result

    def _rewrite_core(self, select: Node, ctes: Mapping[str, Node]) -> None:
        """Let a SELECT read a table of the joins and conditions that the engine can do."""
        relations = []
        for item in items_of_from(select):
            relation = self._relation(item, ctes)
            if relation is None:
                return
            relations.append(relation)
        block = Block(select, relations, self.place)  # type: ignore[arg-type]
        if not block.is_plain():
            return
        kept = conditions = block.conditions()
        exposures = block.exposures(kept)
        if self._reason(block.core(conditions, exposures), ctes) is not None:
            kept = [part for part in conditions if self._reason(block.core([part], exposures[:1]), ctes) is None]
            exposures = block.exposures(kept)
        if not block.connects(kept) or (len(relations) == 1 and not kept):
            return
        name = self._joined(block.core(kept, exposures), ctes)
        if name is not None:
            block.replace_core(name, exposures, [part for part in conditions if part not in kept])

    def _relation(self, item: Node, ctes: Mapping[str, Node]) -> Relation | None:
        """Return a relation of FROM with its columns; None if the engine cannot do it."""
        from sqlglot import expressions as exp

        if not isinstance(item, (exp.Table, exp.Subquery)):
            return None
        copy = item.copy()
        for part in ("joins", "laterals"):
            copy.set(part, [])
        try:
            rules = self._compiled(exp.Select(expressions=[exp.Star()], from_=exp.From(this=copy)), ctes)
        except GpuWcojError:
            return None
        columns = next(
            declaration.columns for declaration in rules.declarations if declaration.relation in rules.outputs
        )
        return Relation(item.alias_or_name, tuple(columns))

    # errors

    def _in_our_words(
        self, error: StatementError, query: Node, is_text: bool, is_binding: bool = False
    ) -> GpuWcojError:
        """Return DuckDB's error as one of ours, with the place if it is about the user's text.

        Parameters
        ----------
        is_binding
            Whether the statement has not begun to run.
        """
        first = error.message.split("\n", maxsplit=1)[0].rstrip("!. ")
        span = error.span if is_text else None

        def marked(what: str) -> str:
            if span is None:
                return self.place.pointed(what, None if error.name == "" else _named(query, error.name))
            line, column, width = self.place.span_at(span[0], max(span[1], 1))
            return pointed(what, self.place.text, line, column, width, self.place.source)

        match = _COLUMN.search(error.message)
        if match is not None:
            name = match[1] or match[2]
            tables = named_tables(query, self.tables, self.place)
            columns = dict.fromkeys(column for table in tables for column in self.tables[table])
            unknown = ColumnError(None, name, columns, table="the query")
            lines = str(unknown).split("\n")
            unknown.args = ("\n".join([marked(lines[0]), *lines[1:]]),)
            return unknown
        match = _TABLE.search(error.message)
        if match is not None:
            from sqlglot import expressions as exp

            aliases = dict.fromkeys(item.alias_or_name for item in query.find_all(exp.Table, exp.Subquery))
            missing = UnknownRelationError(
                match[1], [alias for alias in aliases if alias], UnknownRelationError.IN_REACH
            )
            lines = str(missing).split("\n")
            missing.args = ("\n".join([marked(lines[0]), *lines[1:]]),)
            return missing
        if error.kind in ("Parser", "Syntax", "Not implemented"):
            return UnsupportedError(f"{self.refusal}\n  DuckDB does not support it either: {first}.")
        if error.kind == "Permission":
            remedy = "Write FROM 'file.csv', or pass the file as a relation, with its options."
            return UnsupportedError(f"{marked('a query reads files only that FROM names')}\n  {remedy}")
        match = _FUNCTION.search(error.message)
        if match is not None:
            return self._unknown_function(match[1], query)
        if error.kind == "Out of Memory":
            memory = self.options.memory
            limit = f"{DEFAULT_SHARE:.0%} of the machine's memory" if memory is None else f"memory={memory}"
            return MemoryBudgetError.with_parts(
                f"the part of the query that DuckDB does needs more than {limit} allows",
                remedy="Nothing was changed. Raise memory, add a condition, or set LIMIT.",
            )
        first = (first[:1] if first[:2].isupper() else first[:1].lower()) + first[1:].partition(". ")[0]
        if error.kind == "Binder" and not _TYPES.search(error.message):
            line, column, width = (1, 1, 1) if span is None else self.place.span_at(span[0], max(span[1], 1))
            return SqlSyntaxError(first, self.place.text, line, column, width, self.place.source)
        if error.kind == "Binder" or (error.kind in _VALUES and is_binding):
            return TypeMismatchError(marked(first))
        if error.kind in _VALUES:
            failed = CalculationError("a calculation", "has no value")
            failed.args = (f"{marked(first)}\n  Leave such rows out by a condition; TRY_CAST gives NULL for them.",)
            return failed
        return UnsupportedError(f"{self.refusal}\n  DuckDB does not do it either: {first}.")

    def _unknown_function(self, name: str, query: Node) -> GpuWcojError:
        """Return the error for a function that DuckDB does not know."""
        from sqlglot import expressions as exp

        node = next((call for call in query.find_all(exp.Anonymous) if call.name.lower() == name.lower()), None)
        if name.lower() in self.functions:
            what = f"the Python function '{name}' cannot be called in what DuckDB does"
            return self.place.refused(what, node, f"The engine does not do it: {_first(self.refusal)}.")
        if f"'{name}'" in str(self.refusal):
            return self.refusal
        near = nearest_function(name, self.functions)
        return self.place.refused(f"unknown function '{name}'.{near}", node or query)


def _first(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0]


def _named(query: Node, name: str) -> Node | None:
    """Return the first node of a name."""
    from sqlglot import expressions as exp

    return next((node for node in query.find_all(exp.Identifier, exp.Func) if node.name == name), None)


def _as_columns(name: str, data: Any) -> dict[str, Any]:
    """Return the rows of a relation as columns; those of a Z-set repeat."""
    what = f"relation '{name}'"
    return columns_by_name(Result(data).to_arrow(), what) if isinstance(data, ZSet) else dict(data)
