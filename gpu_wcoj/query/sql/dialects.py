"""What other dialects mean in another way than DuckDB, where sqlglot's translation says the same.

DuckDB does not evaluate it, as its values would be wrong without an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


_SPARK = ("spark", "databricks")
_TRINO = ("trino", "presto", "athena")
_ROUNDING = (*_SPARK, *_TRINO, "bigquery", "snowflake")
"""Dialects whose casts to integers cut off, or round halves away from zero; DuckDB rounds halves to even numbers."""
_FROM_ONE = (*_SPARK, *_TRINO, "bigquery")
"""Dialects in which the position 0 of a text is its first character, and which count days of the week from 1."""


def other_meaning(root: Node, dialect: str) -> tuple[Node, str] | None:
    """Return a part of a text that DuckDB would evaluate in another way, and the difference; None without one.

    Examples
    --------
    >>> from sqlglot import parse_one
    >>> part, meaning = other_meaning(parse_one("SELECT percentile(x, 0.5) + 1 FROM t", read="spark"), "spark")
    >>> part.sql("spark"), meaning
    ('PERCENTILE(x, 0.5)', 'takes values between rows in another way')
    >>> other_meaning(parse_one("SELECT median(x) FROM t", read="spark"), "spark")
    """
    if dialect == "duckdb":
        return None
    for node in root.walk():
        meaning = _meaning(node, dialect)
        if meaning is not None:
            return node, meaning
    return None


def _meaning(node: Node, dialect: str) -> str | None:
    from sqlglot import expressions as exp

    part = node.name.upper() if isinstance(node, exp.Extract) else ""
    if isinstance(node, exp.Cast) and dialect in _ROUNDING and node.to.is_type(*exp.DataType.INTEGER_TYPES):
        is_whole = isinstance(node.this, exp.Literal) and node.this.this.isdigit()
        return None if is_whole else "treats fractions in another way"
    if isinstance(node, exp.Substring) and dialect in _FROM_ONE:
        start = node.args.get("start")
        is_usual = isinstance(start, exp.Literal) and start.this.isdigit() and int(start.this) > 0
        return None if start is None or is_usual else "counts positions up to 0 in another way"
    if (isinstance(node, exp.DayOfWeek) or part in ("DAYOFWEEK", "DOW")) and dialect in _FROM_ONE:
        return "counts days of the week in another way"
    if part == "WEEK" and dialect == "bigquery":
        return "counts weeks in another way"
    if isinstance(node, (exp.Skewness, exp.Kurtosis)):
        return "may have another formula"
    if isinstance(node, exp.Quantile) and dialect in _SPARK:
        return "takes values between rows in another way"
    if isinstance(node, exp.Anonymous) and dialect in _SPARK and node.name.lower() in ("weekday", "date_part"):
        return "counts days of the week in another way"
    return None
