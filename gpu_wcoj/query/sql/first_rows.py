"""Queries that keep first rows: LIMIT, OFFSET, FETCH, DISTINCT ON and QUALIFY."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from gpu_wcoj.query.ir import MAX_FIRST_ROWS, SortKey
from gpu_wcoj.query.sql.source import Place, check_parts

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


SortedBy: TypeAlias = "tuple[Node, int | str | None]"
"""An expression with the column that it stands for; see `Ordering.place_of`."""


@dataclass(frozen=True)
class Stage:
    """First rows of each group, in an order.

    Attributes
    ----------
    groups
        The expressions of PARTITION BY or DISTINCT ON.
    terms
        The terms of ORDER BY.
    """

    groups: tuple[Node, ...]
    terms: tuple[Node, ...]
    limit: int
    offset: int = 0


def is_ordered(node: Node) -> bool:
    """Return whether a query has ORDER BY."""
    return node.args.get("order") is not None


def keeps_first_rows(node: Node) -> bool:
    """Return whether a query keeps some of its rows by their order."""
    is_cut = any(node.args.get(part) is not None for part in ("limit", "offset"))
    return is_cut or distinct_on(node) is not None or numbers_rows(node.args.get("qualify"))


def distinct_on(node: Node) -> Node | None:
    """Return the expressions of DISTINCT ON; a set operation has a flag in place of a node."""
    distinct = node.args.get("distinct")
    on: Node | None = None if distinct is None or isinstance(distinct, bool) else distinct.args.get("on")
    return on


def without_first_rows(node: Node) -> Node | None:
    """Return the query of all rows but the first, for OFFSET without LIMIT; None for others."""
    from sqlglot import expressions as exp

    offset = node.args.get("offset")
    if offset is None or node.args.get("limit") is not None:
        return None
    every, first = node.copy(), node.copy()
    for part in (every, first):
        part.set("with_", None)
        part.set("offset", None)
    if distinct_on(node) is None:
        every.set("order", None)
    first.set("limit", exp.Limit(expression=offset.expression.copy()))
    rest = exp.Except(this=every, expression=exp.Subquery(this=first), distinct=False)
    rest.parent = node.parent
    return rest


def read_stages(node: Node, place: Place) -> list[Stage]:
    """Return what a query keeps: of QUALIFY, then of DISTINCT ON, then of LIMIT."""
    terms = read_terms(node.args.get("order"), place)
    stages = []
    if numbers_rows(node.args.get("qualify")):
        stages.append(_of_qualify(node.args["qualify"], place))
    on = distinct_on(node)
    if on is not None:
        stages.append(Stage(tuple(on.expressions or [on]), terms, 1))
    limit, offset = node.args.get("limit"), node.args.get("offset")
    if limit is not None:
        stages.append(Stage((), terms, *_limits(limit, offset, place)))
    elif offset is not None:
        raise place.refused("OFFSET without LIMIT is not supported", offset, "Write LIMIT too.")
    return stages


def read_terms(order: Node | None, place: Place) -> tuple[Node, ...]:
    """Return the terms of ORDER BY."""
    if order is None:
        return ()
    check_parts(order, place, "expressions")
    for term in order.expressions:
        check_parts(term, place, "this", "desc", "nulls_first")
    return tuple(order.expressions)


def _limits(limit: Node, offset: Node | None, place: Place) -> tuple[int, int]:
    """Return the numbers of LIMIT or FETCH, and of OFFSET."""
    from sqlglot import expressions as exp

    options = limit.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        raise place.refused("LIMIT of a share, or WITH TIES, is not supported", limit, "Write a number of rows.")
    check_parts(limit, place, "expression", "count", "direction", "limit_options")
    counts: list[int] = []
    for part in (limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.args.get("expression"), offset):
        value = part.expression if isinstance(part, exp.Offset) else part
        if part is None:
            counts.append(0 if part is offset and counts else 1)  # FETCH FIRST ROW ONLY
        elif isinstance(value, exp.Literal) and not value.is_string and value.this.isdigit():
            counts.append(int(value.this))
        else:
            raise place.refused("LIMIT and OFFSET of anything but a whole number are not supported", part)
    if sum(counts) > MAX_FIRST_ROWS:
        raise place.refused(f"LIMIT and OFFSET of more than {MAX_FIRST_ROWS:,} rows are not supported", limit)
    return counts[0], counts[1]


def numbers_rows(node: Node | None) -> bool:
    """Return whether QUALIFY is ``row_number() OVER (...) <= n``."""
    return node is not None and _bound_of(node) is not None


def _bound_of(node: Node) -> tuple[Node, Node, int] | None:
    """Return the window of a row number in QUALIFY, its bound, and the most rows."""
    from sqlglot import expressions as exp

    condition = node.this
    while isinstance(condition, exp.Paren):
        condition = condition.this
    mirrored = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ}
    left, right, kind = condition.args.get("this"), condition.args.get("expression"), type(condition)
    if isinstance(left, exp.Literal) and kind in mirrored:
        left, right, kind = right, left, mirrored[kind]
    if not isinstance(left, exp.Window) or not isinstance(left.this, exp.RowNumber) or left.args.get("alias"):
        return None
    if not isinstance(right, exp.Literal) or right.is_string or not right.this.isdigit():
        return None
    if kind in (exp.LT, exp.LTE) or (kind is exp.EQ and right.this == "1"):
        return left, right, max(int(right.this) - (kind is exp.LT), 0)
    return None


def _of_qualify(node: Node, place: Place) -> Stage:
    """Return the first rows of each partition that QUALIFY keeps."""
    bound = _bound_of(node)
    assert bound is not None
    left, right, limit = bound
    check_parts(left, place, "this", "partition_by", "order", "over")
    if limit > MAX_FIRST_ROWS:
        raise place.refused(f"more than {MAX_FIRST_ROWS:,} rows of a partition are not supported", right)
    return Stage(tuple(left.args.get("partition_by") or ()), read_terms(left.args.get("order"), place), limit)


class Ordering:
    """The columns by which a query is sorted: selected ones, and hidden ones.

    A name is that of a selected column if there is one, else of a column of FROM. A whole number is a position.
    """

    def __init__(self, node: Node, place: Place) -> None:
        from sqlglot import expressions as exp

        self.node, self.place = node, place
        self.hidden: list[Node] = []
        self._is_select = isinstance(node, exp.Select)

    def place_of(self, expression: Node) -> SortedBy:
        """Return an expression with its position or the name of a selected column.

        Positions count from 1, those of hidden columns from -1 down. None stands for ``ALL``.
        """
        from sqlglot import expressions as exp

        while isinstance(expression, exp.Paren):
            expression = expression.this
        if isinstance(expression, exp.Literal) and not expression.is_string:
            return expression, int(expression.this) if expression.this.isdigit() else 0
        if isinstance(expression, exp.Var) and expression.name.upper() == "ALL":
            return expression, None
        if isinstance(expression, exp.Column) and not expression.args.get("table"):
            name, is_quoted = expression.name, bool(expression.this.args.get("quoted"))
            selected = self.node.expressions if self._is_select else []
            aliases = [item.alias for item in selected if item.alias]
            if not self._is_select or self.place.names.matching(name, is_quoted, aliases):
                return expression, name
        if not self._is_select or self.node.args.get("distinct") is not None:
            items = [item.unalias().unnest() for item in self.node.expressions] if self._is_select else []
            if expression in items:
                return expression, items.index(expression) + 1
            if distinct_on(self.node) is None:
                raise self.place.refused(
                    "ORDER BY of something that is not selected is not supported here", expression, "Select it too."
                )
        self.hidden.append(exp.alias_(expression.copy(), f"#{len(self.hidden) + 1}", quoted=True))
        return expression, -len(self.hidden)

    def places_of(self, terms: Sequence[Node]) -> list[tuple[SortedBy, Node]]:
        """Return the terms of ORDER BY with their places."""
        return [(self.place_of(term.this), term) for term in terms]

    def keys(self, terms: Sequence[tuple[SortedBy, Node]], columns: Sequence[str]) -> list[SortKey]:
        """Return the columns of the compiled query by which it is sorted."""
        return [
            SortKey(number, bool(term.args.get("desc")), bool(term.args.get("nulls_first")))
            for place, term in terms
            for number in self.numbers(place, columns)
        ]

    def numbers(self, place: SortedBy, columns: Sequence[str]) -> Iterator[int]:
        """Yield the columns of the compiled query that an expression stands for."""
        expression, which = place
        n_selected = len(columns) - len(self.hidden)
        if which is None:
            yield from range(n_selected)
        elif isinstance(which, str):
            is_quoted = bool(expression.this.args.get("quoted"))
            names = self.place.names.matching(which, is_quoted, columns[:n_selected])
            found = [number for number, name in enumerate(columns[:n_selected]) if name in names]
            if not found:
                raise self.place.unknown(expression.this, columns[:n_selected], "selected columns")
            yield found[0]
        elif which < 0:
            yield n_selected - which - 1
        elif 1 <= which <= n_selected:
            yield which - 1
        else:
            raise self.place.wrong(
                f"ORDER BY names column {expression.this}, but the query selects {n_selected}", expression
            )
