"""The SQL compiler: texts, statements and views."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpu_wcoj.errors import SqlSyntaxError, UsageError
from gpu_wcoj.query.check import check
from gpu_wcoj.query.ir import ComputedGroups, Declaration, Directive, FirstRows, Rule, Rules, functions_by_name
from gpu_wcoj.query.sql.coercion import FUNCTION_NAMES
from gpu_wcoj.query.sql.first_rows import is_ordered
from gpu_wcoj.query.sql.scope import ANSWER, Derived
from gpu_wcoj.query.sql.select import Queries
from gpu_wcoj.query.sql.source import Place, check_parts, refused_statement
from gpu_wcoj.query.sql.source import statements as read
from gpu_wcoj.user_functions import Function

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


class Compiler(Queries):
    """Compiler of the views of an SQL text to rules.

    Attributes
    ----------
    keeps_order
        Whether the answer of a query without a name has the order of ORDER BY.
    """

    keeps_order: bool = False

    def add(self, node: Node) -> None:
        """Compile one statement, a view or a query without a name."""
        name, derived = self._statement(node)
        self.views[name] = derived
        _ = self.named(derived, head=name)

    def finish(self, table_names: Iterable[str], source: str) -> Rules:
        """Return the rules that the views depend on.

        `table_names` are the tables that the statements name anywhere.
        """
        rules, first_rows, computed_groups = _needed(self.rules, self.first_rows, self.computed_groups, self.views)
        read = dict.fromkeys(atom.relation for rule in rules for atom in rule.read if atom.relation in self.tables)
        # unread tables stand in conditions that never hold or are never evaluated
        unread = [name for name in table_names if name not in read]
        columns = [(name, self.tables[name]) for name in (*read, *unread)]
        inputs = [Declaration(name, tuple(types), tuple(types.values()), is_binding=False) for name, types in columns]
        outputs = [
            Declaration(str(name), tuple(map(str, derived.columns)), (None,) * len(derived.columns))
            for name, derived in self.views.items()
        ]
        made = Rules(
            tuple(rules),
            (*inputs, *outputs),
            tuple(self.views),
            directives=tuple(Directive("input", name) for name in unread),
            first_rows=tuple(first_rows),
            computed_groups=tuple(computed_groups),
            sorting=self.sorting,
        )
        check(made, source=source)
        return made

    def _statement(self, node: Node) -> tuple[str, Derived]:
        """Return the name and the result of one statement."""
        from sqlglot import expressions as exp

        place = self.place
        if not isinstance(node, exp.Create):
            if not isinstance(node, (exp.Query, exp.Subquery, exp.Values, exp.Pivot)):
                raise refused_statement(node, place)
            if ANSWER in self.views:
                raise place.wrong("there are two queries without a name; write CREATE VIEW name AS for each", node)
            if place.names.matching(ANSWER, False, self.tables, is_table=True):
                raise place.wrong(
                    f"a query without a name is '{ANSWER}', and so is a table; write CREATE VIEW name AS", node
                )
            if self.keeps_order and is_ordered(node):
                self.ordered = node
            return ANSWER, self.query(node, None)
        check_parts(node, place, "this", "kind", "expression", "replace", "exists", "with_")
        if node.args.get("kind") != "VIEW" or node.expression is None:
            raise place.refused(
                f"CREATE {node.args.get('kind')} is not supported", node, "Write CREATE VIEW name AS SELECT."
            )
        target, names = node.this, []
        if isinstance(target, exp.Schema):
            check_parts(target, place, "this", "expressions")
            names = [identifier.name for identifier in target.expressions]
            target = target.this
        check_parts(target, place, "this")
        name = target.name
        if "#" in name:
            raise place.wrong("the name of a view cannot have a '#'", target)
        is_quoted = bool(target.this.args.get("quoted")) if hasattr(target.this, "args") else False
        if place.names.matching(name, is_quoted, [*self.views, *self.tables], is_table=True):
            raise place.wrong(f"there is a relation '{name}' already", target)
        return name, self.with_names(self.query(node.expression, None), names, target)


TEXT_BYTES = 1_000_000
"""Longest text, in bytes of UTF-8."""
DIALECTS = (
    "duckdb", "postgres", "spark", "databricks", "redshift", "snowflake", "bigquery", "trino", "presto", "athena",
    "materialize", "risingwave",
)  # fmt: skip
"""Dialects whose comparisons, nulls and functions agree with those of the engine, except for NaN.

Here NaN equals itself and is larger than all numbers, as in DuckDB, PostgreSQL, Spark and Snowflake; in Trino, Presto,
Athena and BigQuery no comparison with NaN holds.
"""


def parse(
    text: str,
    tables: Mapping[str, Sequence[str] | Mapping[str, str | None]],
    *,
    dialect: str = "duckdb",
    source: str = "<text>",
    keeps_order: bool = False,
    functions: Iterable[Function] = (),
) -> Rules:
    """Compile views in SQL to rules, which are meant for a program with ``bag=True``.

    Parameters
    ----------
    text
        One or several ``CREATE VIEW name AS SELECT ...``, separated by ``;``, or a single SELECT.
    tables
        For each table the names of its columns, or their types by name, in Arrow's spelling (None if unknown).
    dialect
        One of `DIALECTS`. It determines the syntax, the comparison of names (see `gpu_wcoj.query.sql.source`), the
        types of ``/`` and AVG, the result of a double divided by 0, the mapping of UPPER and LOWER, and whether a
        backslash is an escape in LIKE.
    source
        The name of the text in messages.
    keeps_order
        Whether `Rules.sorting` describes the order of a query without a name; otherwise only LIMIT needs an order.
    functions
        Python functions that the text may call, in upper or lower case.

    Raises
    ------
    UsageError
        If a Python function has the name of a supported function of SQL.
    SqlSyntaxError
        If the text is not valid SQL.
    UnknownRelationError, ColumnError
        If it names unknown relations or columns.
    UnsupportedError
        For SQL that a maintained view cannot have, with a replacement.
    TypeMismatchError
        If types do not fit.
    BackendUnavailableError
        If sqlglot is not installed.

    Examples
    --------
    >>> print(parse("SELECT e.src a, f.dst b FROM edge e JOIN edge f ON e.dst = f.src", {"edge": ["src", "dst"]}))
    .decl edge(src, dst)
    .decl answer(a, b)
    answer(a, b) :- edge(a, dst), edge(dst, b).
    .output answer
    """
    if not isinstance(text, str):
        raise UsageError.wrong_type("the query", text, "text (str)")
    n_bytes = len(text.encode("utf-8", "surrogatepass"))
    if n_bytes > TEXT_BYTES:
        raise UsageError.mismatch("the text", "is too long", f"{n_bytes:,} bytes", f"at most {TEXT_BYTES:,} bytes")
    place = Place(text, source, dialect)
    if half := re.search("[\\ud800-\\udfff]", text):
        what = f"the text contains an unpaired surrogate (U+{ord(half[0]):04X})"
        raise SqlSyntaxError(what, text, *place.span_at(half.start(), 1), source)
    schemas = {
        name: dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)
        for name, columns in tables.items()
    }
    if dialect not in DIALECTS:
        raise UsageError.unknown_name("dialect", dialect, DIALECTS)
    for name in schemas:
        if "#" in name:
            problem = f"the table name '{name}' contains '#', which is reserved for helper relations"
            raise UsageError.with_parts(problem, subject="table", got=name, remedy="Rename it.")
    called = {function.name.lower(): function for function in functions_by_name(functions).values()}
    for name in FUNCTION_NAMES:
        if name.lower() in called:
            problem = f"the function '{called[name.lower()].name}' has the name of a function of SQL"
            raise UsageError.with_parts(problem, subject="functions", got=name, remedy="Give it another: name='...'.")
    nodes = read(text, dialect, place, called)
    for node in nodes:
        place.names.fold(node)
    return compile_statements(nodes, schemas, place, called, keeps_order=keeps_order)


def compile_statements(
    nodes: Iterable[Node],
    tables: Mapping[str, Mapping[str, str | None]],
    place: Place,
    functions: Mapping[str, Function],
    *,
    keeps_order: bool = False,
) -> Rules:
    """Compile statements whose names are folded to rules; the statements change.

    The parameters, and the errors, are those of `parse`. Functions go by their names in lower case.
    """
    compiler = Compiler(place, place.names.dialect, tables, functions)
    compiler.keeps_order = keeps_order
    try:
        named: dict[str, None] = {}
        for node in nodes:
            named.update(dict.fromkeys(_tables(node, tables, place)))
            compiler.add(node)
        return compiler.finish(named, place.source)
    except RecursionError:
        raise SqlSyntaxError("this nests too deep", place.text, 1, 1, 1, place.source) from None


def _tables(node: Node, table_names: Iterable[str], place: Place) -> Iterator[str]:
    """Yield the tables that a statement may name anywhere."""
    from sqlglot import expressions as exp

    for table in node.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier):
            is_quoted = bool(table.this.args.get("quoted"))
            yield from place.names.matching(table.name, is_quoted, table_names, is_table=True)


def _needed(
    rules: Sequence[Rule],
    first_rows: Sequence[FirstRows],
    computed_groups: Sequence[ComputedGroups],
    outputs: Iterable[str],
) -> tuple[list[Rule], list[FirstRows], list[ComputedGroups]]:
    """Return the rules and the heads without rules that outputs depend on."""
    helpers: tuple[FirstRows | ComputedGroups, ...] = (*first_rows, *computed_groups)
    reads: dict[str, set[str]] = {helper.relation: {helper.source} for helper in helpers}
    for rule in rules:
        reads.setdefault(rule.head.relation, set()).update(atom.relation for atom in rule.read)
    needed: set[str] = set()
    waiting = list(outputs)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += reads.get(name, ())
    return (
        [rule for rule in rules if rule.head.relation in needed],
        [first for first in first_rows if first.relation in needed],
        [groups for groups in computed_groups if groups.relation in needed],
    )
