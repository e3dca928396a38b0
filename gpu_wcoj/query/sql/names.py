"""Names in a dialect: which of them are one, as sqlglot's rules of normalization say.

Three kinds of dialects are told apart. In PostgreSQL, Materialize and RisingWave an unquoted name is its lower case, in
Snowflake its upper case, and a quoted one is what it says. In the others no name is told from another by its case,
quoted or not; BigQuery does so with tables, and Redshift shows every name in lower case.

The columns and tables that a query is given are what their names say; an unquoted name also means one that differs in
case, where none is exactly what the dialect makes of it: tables come from places that fold no names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

SHOWN_IN_LOWER_CASE = ("redshift",)
"""Dialects without case that show names in lower case; the others show them as they are written."""


class Quoted(str):
    """A name that only a quoted one means: one that the text quotes, in a dialect whose quotes keep the case."""

    __slots__ = ()


class Names:
    """The rules of a dialect for names.

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
        """Return whether quotes keep the case of a name: unquoted names are folded, and then compared exactly."""
        from sqlglot.dialects.dialect import NormalizationStrategy

        return self._rules.normalization_strategy in (NormalizationStrategy.LOWERCASE, NormalizationStrategy.UPPERCASE)

    def folded(self, name: str, *, is_table: bool = False) -> str:
        """Return what an unquoted name is in the dialect.

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
        """Return what is the same for names of the text, as `fold` leaves them, that are one."""
        return str(name) if self.has_case else self.folded(name)

    def matching(self, name: str, is_quoted: bool, candidates: Iterable[str], *, is_table: bool = False) -> list[str]:
        """Return the known names that a name means; several if the dialect does not tell them apart.

        Parameters
        ----------
        is_table
            Whether they are tables or views, which BigQuery tells apart by case.
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
        """Return the columns that are one with a column of another relation, as NATURAL asks."""
        exact = [candidate for candidate in columns if candidate == name]
        if (exact and self.has_case) or isinstance(name, Quoted):
            return exact
        return self.matching(name, False, columns)

    def fold(self, root: Node) -> None:
        """Write the names of a statement as the dialect has them: what it folds is folded, what it shows is left."""
        from sqlglot import expressions as exp

        if not self.has_case and self.dialect not in SHOWN_IN_LOWER_CASE:
            return
        for node in root.find_all(exp.Identifier):
            if self.has_case and node.args.get("quoted"):
                node.set("this", Quoted(node.this))
            else:
                node.set("this", self.folded(node.this))


def unique(names: Sequence[str], rules: Names) -> tuple[str, ...]:
    """Return names of columns, those that are there already with a number behind.

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
