"""Rejection of SQL syntax that the compiler would otherwise ignore."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpu_wcoj.query.sql.place import Place

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

_NODES = {
    "ILike": "ILIKE",
    "RegexpLike": "a regular expression",
    "GroupConcat": "STRING_AGG",
    "Star": "*",
    "Rand": "RANDOM",
    "Bracket": "'[...]'",
    "Tuple": "a row of values",
    "Placeholder": "a parameter",
    "Parameter": "a parameter",
    "LogicalAnd": "BOOL_AND",
    "LogicalOr": "BOOL_OR",
    "Command": "this statement",
}
_WORDS = {
    "limit": ("LIMIT", "A view keeps all of its rows; take the first ones when you read it."),
    "offset": ("OFFSET", "A view keeps all of its rows; take some of them when you read it."),
    "order": ("ORDER BY", "A view has no order; sort what you read from it."),
    "sort": ("SORT BY", "A view has no order; sort what you read from it."),
    "cluster": ("CLUSTER BY", "Leave it out."),
    "distribute": ("DISTRIBUTE BY", "Leave it out."),
    "qualify": ("QUALIFY", "It filters by window functions, which are not supported."),
    "windows": ("WINDOW", "Window functions are not supported; aggregate with GROUP BY and join the result."),
    "sample": ("TABLESAMPLE", "A view of a random part cannot be kept; filter by a column instead."),
    "laterals": ("LATERAL", "Join with a subquery that does not refer to the relations beside it."),
    "rollup": ("ROLLUP", "Write one GROUP BY for each set of columns, and UNION ALL."),
    "cube": ("CUBE", "Write one GROUP BY for each set of columns, and UNION ALL."),
    "grouping_sets": ("GROUPING SETS", "Write one GROUP BY for each set of columns, and UNION ALL."),
    "hint": ("a hint", "Leave it out."),
    "hints": ("a hint", "Leave it out."),
    "pivots": ("PIVOT", "Write a CASE for each column."),
    "into": ("INTO", "Write CREATE VIEW name AS SELECT ..."),
    "locks": ("FOR UPDATE", "Leave it out."),
    "by_name": ("BY NAME", "Name the columns of both queries in the same order."),
    "on": ("DISTINCT ON", "Take the MIN or MAX of the other columns with GROUP BY."),
    "except_": ("EXCLUDE", "Name the columns to select."),
    "replace": ("REPLACE", "Name the columns to select."),
    "properties": ("this kind of view", "Write CREATE VIEW name AS SELECT ...; what is kept is up to the program."),
    "when": ("a point in time", "Relations are as the last tick has left them."),
    "version": ("a version of a table", "Relations are as the last tick has left them."),
}


def check_parts(node: Node, place: Place, *allowed: str) -> None:
    """Raise for a part of `node` that is present but not allowed.

    Raises
    ------
    UnsupportedError
    """
    for name, value in node.args.items():
        if name in allowed or value is None or value is False or value == []:
            continue
        word, instead = _WORDS.get(name, (f"'{name}' of {describe_node(node)}", ""))
        pieces = value if isinstance(value, list) else [value]
        where = next((piece for piece in pieces if hasattr(piece, "walk")), node)
        raise place.refused(f"{word} is not supported", where, instead)


def describe_node(node: Node) -> str:
    """Return the name of a node in messages.

    Examples
    --------
    >>> from sqlglot import parse_one
    >>> describe_node(parse_one("a ILIKE b"))
    'ILIKE'
    """
    name = type(node).__name__
    return _NODES.get(name) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).upper()


def has_query(node: Node) -> bool:
    """Return whether a condition contains EXISTS or IN of a query."""
    from sqlglot import expressions as exp

    return any(
        isinstance(predicate, exp.Exists) or predicate.args.get("query") is not None
        for predicate in node.find_all(exp.Predicate)
    )
