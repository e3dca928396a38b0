"""Comparison of names in the dialects, by the normalization rules of sqlglot.

There are three kinds of dialects. PostgreSQL, Materialize and RisingWave fold an unquoted name to lower case, Snowflake
to upper case, and a quoted name is exact. All other dialects ignore the case of names, quoted or not, except that
BigQuery distinguishes tables by case; Redshift shows every name in lower case.

Names of input columns and tables are exact. An unquoted name also matches one that differs in case if no name equals
the folded name exactly, because the sources of tables do not fold names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

SHOWN_IN_LOWER_CASE = ("redshift",)
"""Dialects that ignore case and show names in lower case; others that ignore case show names as written."""


class Quoted(str):
    """A quoted name in a dialect whose quotes keep the case."""

    __slots__ = ()


class Names:
    """Rules of a dialect for the comparison of names.

    Examples
    --------
    >>> Names("duckdb").matching("SRC", True, ["src", "dst"]), Names("postgres").matching("SRC", True, ["src", "dst"])
    (['src'], [])
    >>> [Names(dialect).matching("a", False, ["A", "a"]) for dialect in ("duckdb", "postgres", "snowflake")]
    [['A', 'a'], ['a'], ['A']]
    """

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self._folded: dict[tuple[str, bool], str] = {}

    @cached_property
    def _rules(self) -> Any:
        """The dialect of sqlglot."""
        from sqlglot.dialects.dialect import Dialect

        return Dialect.get_or_raise(self.dialect)

    @cached_property
    def has_case(self) -> bool:
        """Return whether quotes keep the case of a name.

        Unquoted names are folded, and then compared exactly.
        """
        from sqlglot.dialects.dialect import NormalizationStrategy

        return self._rules.normalization_strategy in (NormalizationStrategy.LOWERCASE, NormalizationStrategy.UPPERCASE)

    def folded(self, name: str, *, is_table: bool = False) -> str:
        """Return an unquoted name as the dialect folds it.

        Examples
        --------
        >>> [Names(dialect).folded("Src") for dialect in ("postgres", "snowflake", "spark")]
        ['src', 'SRC', 'src']
        >>> Names("bigquery").folded("Src", is_table=True)
        'Src'
        """
        folded = self._folded.get((name, is_table))
        if folded is None:
            from sqlglot import expressions as exp

            node = exp.Identifier(this=name, quoted=False)
            if is_table:
                node.meta["is_table"] = True
            folded = self._folded[name, is_table] = str(self._rules.normalize_identifier(node).this)
        return folded

    def key(self, name: str) -> str:
        """Return a key that equal names of the text share, after `fold`."""
        return str(name) if self.has_case else self.folded(name)

    def matching(self, name: str, is_quoted: bool, candidates: Iterable[str], *, is_table: bool = False) -> list[str]:
        """Return the candidates that a name refers to; several if the dialect equates them.

        Parameters
        ----------
        is_table
            Whether the names are tables or views, which BigQuery distinguishes by case.
        """
        names = list(candidates)
        if is_quoted and self.has_case:
            return [candidate for candidate in names if candidate == name]
        folded = self.folded(name, is_table=is_table)
        if not self.has_case:
            return [candidate for candidate in names if self.folded(candidate, is_table=is_table) == folded]
        exact = [candidate for candidate in names if candidate == folded]
        return exact or [
            candidate for candidate in names if not isinstance(candidate, Quoted) and self.folded(candidate) == folded
        ]

    def counterparts(self, name: str, columns: Sequence[str]) -> list[str]:
        """Return the columns that equal a column of another relation, as NATURAL compares them."""
        exact = [candidate for candidate in columns if candidate == name]
        if (exact and self.has_case) or isinstance(name, Quoted):
            return exact
        return self.matching(name, False, columns)

    def fold(self, root: Node) -> None:
        """Fold the names of a statement as the dialect does."""
        from sqlglot import expressions as exp

        if not self.has_case and self.dialect not in SHOWN_IN_LOWER_CASE:
            return
        for node in root.find_all(exp.Identifier):
            if self.has_case and node.args.get("quoted"):
                node.set("this", Quoted(node.this))
            else:
                node.set("this", self.folded(node.this))


def unique(names: Sequence[str], rules: Names) -> tuple[str, ...]:
    """Return names of columns, with numbers appended to repeated ones.

    Examples
    --------
    >>> unique(["x", "y", "x", "X"], Names("duckdb")), unique(["x", "x", "X"], Names("postgres"))
    (('x', 'y', 'x_1', 'X_2'), ('x', 'x_1', 'X'))
    """
    result: list[str] = []
    taken: set[str] = set()
    for name in names:
        suffix, candidate = 0, name
        while (key := rules.key(candidate)) in taken:
            suffix += 1
            candidate = f"{name}_{suffix}"
        taken.add(key)
        result.append(candidate)
    return tuple(result)
