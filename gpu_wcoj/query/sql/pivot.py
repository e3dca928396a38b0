"""PIVOT and UNPIVOT as queries: aggregates with FILTER, and a SELECT for each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpu_wcoj.query.sql.source import Place, check_parts

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

_NAMED = "Name each aggregate, as in sum(x) AS total."
_VALUES = "Write the values, as in ON k IN ('a', 'b'): a view has the same columns whatever its rows are."


def unfolded(pivot: Node, source: Node, columns: Sequence[str], place: Place) -> Node:
    """Return the query that a PIVOT or UNPIVOT stands for, in either syntax.

    Parameters
    ----------
    source
        The relation that it reads, as it stands in FROM.
    columns
        The columns of the source.

    Raises
    ------
    UnsupportedError
        If its columns depend on the rows, or it has parts that are not rewritten.
    """
    from sqlglot import expressions as exp

    if place.names.dialect != "duckdb":
        check_parts(exp.Table(pivots=[pivot]), place)
    check_parts(
        pivot, place, "this", "with_", "expressions", "fields", "using", "group", "unpivot", "into", "alias",
        "columns", "include_nulls", "default_on_null", "value_columns_first", "identify_pivot_strings",
        "prefixed_pivot_columns", "pivot_column_naming",
    )  # fmt: skip
    return (_unpivoted if pivot.args.get("unpivot") else _pivoted)(pivot, source, columns, place)


def _field_of(pivot: Node, place: Place) -> Node:
    """Return the IN of the only column that is pivoted, or of the only name column."""
    from sqlglot import expressions as exp

    fields = pivot.args.get("fields") or pivot.expressions
    if len(fields) != 1:
        what = "PIVOT is not supported by several columns"
        raise place.refused(what, pivot, "Write an aggregate with FILTER for each column.")
    if not isinstance(fields[0], exp.In) or not fields[0].expressions:
        raise place.refused("PIVOT is not supported without values", pivot, _VALUES)
    field: Node = fields[0]
    return field


def _pivoted(pivot: Node, source: Node, columns: Sequence[str], place: Place) -> Node:
    from sqlglot import expressions as exp

    field = _field_of(pivot, place)
    aggregates = pivot.expressions if pivot.args.get("fields") else pivot.args.get("using") or []
    column = field.this if isinstance(field.this, exp.Column) else exp.column(field.this.copy())
    if not isinstance(column, exp.Column):
        raise place.refused("PIVOT of an expression is not supported", field, "Select it in a subquery first.")
    if not aggregates:
        raise place.refused("PIVOT without an aggregate is not supported", pivot, "Write USING count(*).")
    items: list[Node] = []
    for value in field.expressions:
        literal = value.this if isinstance(value, (exp.PivotAlias, exp.Alias)) else value
        if not isinstance(literal, exp.Literal):
            raise place.refused("PIVOT by anything but texts and numbers is not supported", value, _VALUES)
        for aggregate in aggregates:
            call = aggregate.unalias()
            if not isinstance(call, exp.AggFunc):
                raise place.refused("PIVOT of anything but an aggregate is not supported", aggregate, _NAMED)
            if not aggregate.alias and len(aggregates) > 1:
                raise place.refused("PIVOT of several aggregates without names is not supported", aggregate, _NAMED)
            name = (value.alias or literal.name) + (f"_{aggregate.alias}" if aggregate.alias else "")
            where = exp.Where(this=exp.EQ(this=column.copy(), expression=literal.copy()))
            items.append(exp.alias_(exp.Filter(this=call.copy(), expression=where), name, quoted=True))
    group = pivot.args.get("group")
    if group is not None:
        keys = [key.copy() for key in group.expressions]
    else:
        used = {place.names.key(one.name) for part in (column, *aggregates) for one in part.find_all(exp.Column)}
        keys = [exp.column(name, quoted=True) for name in columns if place.names.key(name) not in used]
    by = {"group": exp.Group(expressions=[key.copy() for key in keys])} if keys else {}
    return exp.Select(expressions=[*keys, *items], from_=exp.From(this=source.copy()), **by)


def _unpivoted(pivot: Node, source: Node, columns: Sequence[str], place: Place) -> Node:
    from sqlglot import expressions as exp

    if pivot.args.get("fields"):
        field = _field_of(pivot, place)
        name, values, listed = field.this.name, pivot.expressions, field.expressions
    else:
        into = pivot.args.get("into")
        name, values, listed = ("name", [exp.to_identifier("value")], pivot.expressions)
        if into is not None:
            name, values = into.this.name, into.expressions
    parts = [(one.this, one.alias) if isinstance(one, (exp.PivotAlias, exp.Alias)) else (one, "") for one in listed]
    if len(values) != 1 or not all(isinstance(column, exp.Column) for column, _ in parts):
        what = "UNPIVOT of anything but columns is not supported"
        raise place.refused(what, pivot, "Write a SELECT for each column.")
    moved = {place.names.key(column.name) for column, _ in parts}
    others = [exp.column(column, quoted=True) for column in columns if place.names.key(column) not in moved]
    query: Node | None = None
    for column, alias in parts:
        found = next((one for one in columns if place.names.key(one) == place.names.key(column.name)), column.name)
        shown = exp.Literal.string(alias or found)
        items = [
            *(other.copy() for other in others),
            exp.alias_(shown, name, quoted=True),
            exp.alias_(column.copy(), values[0].name, quoted=True),
        ]
        made: Node = exp.Select(expressions=items, from_=exp.From(this=source.copy()))
        if not pivot.args.get("include_nulls"):
            filled = exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))
            made.set("where", exp.Where(this=filled))
        query = made if query is None else exp.Union(this=query, expression=made, distinct=False)
    assert query is not None
    return query
