"""Random conditions of SQL and the expressions in them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.helpers.sql_scopes import Scope, Source, Visible
from tests.helpers.sql_tables import Table

FEATURES = frozenset({
    "comma", "cross", "inner", "using", "natural", "left", "right", "full", "nested", "one-sided", "unequal",
    "where", "expressions", "star", "distinct", "union", "union all", "exists", "not exists", "in select",
    "not in select", "any", "all", "nested exists", "unequal exists", "group", "having", "global", "count distinct",
    "calculated aggregates",
    "from", "with", "views", "recursive", "or", "case", "distinct from",
})  # fmt: skip
"""What can be left out."""

LITERALS = {
    "int": ("0", "1", "2", "3", "-1"),
    "text": ("'x'", "'y'", "''", "'xy'"),
    "date": ("DATE '2019-01-28'", "DATE '2020-06-28'", "DATE '2020-01-01'"),
    "decimal": ("1.50", "2.00", "0.00", "-0.25"),
    "float": ("5e-1", "2e0", "0e0", "-1.25e0"),
    "truth": ("TRUE", "FALSE"),
}
ORDERED = ("int", "text", "date", "decimal", "float")
NUMBERS = ("int", "decimal", "float")


class Conditions:
    """Writes conditions; keeps which features it has used.

    Parameters
    ----------
    chance
        What decides.
    tables
        What queries read.
    features
        Of `FEATURES`.
    """

    def __init__(self, chance: random.Random, tables: Sequence[Table], features: frozenset[str]) -> None:
        self.chance = chance
        self.sources = [Source(table.name, table.columns) for table in tables]
        self.features = features
        self.used: set[str] = set()
        self._aliases = 0
        self._left = 0
        self._plain: set[str] = set()

    def _condition(self, scope: Scope) -> str:
        if self._may("or", 0.12):
            part = scope.part(self.chance)
            ways = [self._comparison(part) for _ in range(self.chance.choice((2, 2, 3)))]
            if self.chance.random() < 0.3:
                ways[0] = f"({ways[0]} AND {self._comparison(part)})"
            text = f"({' OR '.join(ways)})"
            return f"NOT {text}" if self.chance.random() < 0.2 else text
        if self.chance.random() < 0.1:
            return f"NOT ({self._comparison(scope)})"
        if self._may("or", 0.04):
            part = scope.part(self.chance)
            return f"NOT ({self._comparison(part)} AND {self._comparison(part)})"
        return self._comparison(scope)

    def _comparison(self, scope: Scope) -> str:
        column = self._column(scope, None)
        if column is None:
            return "1 = 1"
        text, kind = scope.qualified(column, self.chance), column.kind
        if kind == "mean":
            return f"{text} IS NOT NULL"
        way = self.chance.random()
        if way < 0.15:
            return f"{text} IS {self.chance.choice(('', 'NOT '))}NULL"
        if kind == "truth":
            return self.chance.choice((text, f"NOT {text}", f"{text} = TRUE", f"{text} <> FALSE"))
        if way < 0.25:
            low, high = self._literal(kind), self._literal(kind)
            return f"{text} {self.chance.choice(('', '', 'NOT '))}BETWEEN {low} AND {high}"
        if way < 0.35:
            options = ", ".join(self._literal(kind) for _ in range(self.chance.choice((1, 2, 3))))
            return f"{text} {self.chance.choice(('', 'NOT '))}IN ({options})"
        if way < 0.4 and self._may("distinct from", 0.3):
            return f"{text} IS {self.chance.choice(('', 'NOT '))}DISTINCT FROM {self._literal(kind)}"
        other = self._column(scope, kind)
        if way < 0.55 and other not in (None, column):
            return f"{text} {self._operator()} {scope.qualified(other, self.chance)}"
        if kind in ("decimal", "float") and self.chance.random() < 0.3:
            return f"{text} {self._operator()} {self._literal('int')}"
        if way < 0.68 and kind in NUMBERS and self._may("expressions", 1.0):
            return f"{self._calculated(scope, kind)} {self._operator()} {self._literal(kind)}"
        if way < 0.72:
            return f"{self._literal(kind)} {self._operator()} {text}"
        return f"{text} {self._operator()} {self._literal(kind)}"

    def _inner(self, outer: Scope, depth: int) -> str:
        """Return the query of an EXISTS.

        Outer columns without an owner are left out, as the query could take them for its own.
        """
        outer = Scope(outer.owned)
        inner = Scope()
        texts = []
        for _ in range(self.chance.choice((1, 1, 1, 2))):
            text, own = self._named_operand()
            texts.append(text)
            if inner.columns and (pair := self._equality(inner, own)):
                own.wanted.append(pair)
            inner = inner.beside(own)
        conditions = list(inner.wanted)
        for _ in range(self.chance.choice((0, 1, 1, 1, 2))):
            operator = self._operator() if self._may("unequal exists", 0.15) else "="
            if pair := self._equality(inner, outer, operator):
                conditions.append(pair)
        if self.chance.random() < 0.4:
            conditions.append(self._comparison(inner))
        if self.chance.random() < 0.1 and outer.columns:
            conditions.append(self._comparison(outer))
        if depth > 1 and self._may("nested exists", 0.2):
            conditions.append(f"{self.chance.choice(('', 'NOT '))}EXISTS ({self._inner(inner, 1)})")
        what = self.chance.choice(("1", "*", inner.qualified(inner.columns[0], self.chance)))
        return f"SELECT {what} FROM {', '.join(texts)}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")

    def _member(self, scope: Scope, how: str) -> str:
        text, own = self._named_operand()
        column = self._column(scope, None)
        fit = [candidate for candidate in own.columns if column and candidate.kind == column.kind != "mean"]
        if column is None or not fit:
            return "1 = 1"
        where = f" WHERE {self._comparison(own)}" if self.chance.random() < 0.5 else ""
        inner = f"SELECT {own.qualified(self.chance.choice(fit), self.chance)} FROM {text}{where}"
        if how in ("any", "all"):
            return f"{scope.qualified(column, self.chance)} {self._operator(column.kind)} {how.upper()} ({inner})"
        return f"{scope.qualified(column, self.chance)} {'NOT ' if how.startswith('not') else ''}IN ({inner})"

    # operands

    def _named_operand(self) -> tuple[str, Scope]:
        """A table, view or the like, most often under an alias."""
        self._left -= 1
        source = self.chance.choice(self.sources)
        name = source.name
        if name not in self._plain and self.chance.random() < 0.15:
            self._plain.add(name)
            return name, Scope.of(name, source.columns)
        alias = self._fresh("e")
        if self._may("case", 0.05):
            name = name.upper()
        return f"{name} {self.chance.choice(('AS ', ''))}{alias}", Scope.of(alias, source.columns)

    def _equality(self, one: Scope, other: Scope, operator: str = "=") -> str | None:
        pairs = [(mine, yours) for mine in one.owned for yours in other.owned if mine.kind == yours.kind != "mean"]
        if operator not in ("=", "<>"):
            pairs = [pair for pair in pairs if pair[0].kind in ORDERED]
        if not pairs:
            return None
        mine, yours = self.chance.choice(pairs)
        if operator == "=" and self._may("distinct from", 0.02):
            operator = "IS NOT DISTINCT FROM"
        texts = [one.qualified(mine, self.chance), other.qualified(yours, self.chance)]
        if self.chance.random() < 0.5:
            texts.reverse()
            operator = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(operator, operator)
        return f"{texts[0]} {operator} {texts[1]}"

    # pieces

    def _calculated(self, scope: Scope, kind: str) -> str:
        """An expression of this kind."""
        one, other = (self._column(scope, kind) for _ in range(2))
        if one is None or other is None:
            return self._literal(kind)
        first, second = (scope.qualified(column, self.chance) for column in (one, other))
        if kind == "text":
            return self.chance.choice((f"{first} || {second}", f"{first} || '!'", f"'<' || {first}"))
        if kind == "int":
            ways: Sequence[Callable[[], str]] = (
                lambda: f"{first} + {second}", lambda: f"{first} * 2", lambda: f"{first} - 1", lambda: f"-{first}",
                lambda: f"({first} + 1) * {second}", lambda: f"{first} - {second}",
            )  # fmt: skip
            return self.chance.choice(ways)()
        if kind in ("decimal", "float"):
            return self.chance.choice((f"{first} + {second}", f"{first} * 2", f"{first} - {second}", f"{first} - 1"))
        return first

    def _column(self, scope: Scope, kind: str | None) -> Visible | None:
        fit = [column for column in scope.columns if kind in (None, column.kind)]
        return self.chance.choice(fit) if fit else None

    def _literal(self, kind: str) -> str:
        return self.chance.choice(LITERALS[kind])

    def _operator(self, kind: str = "int") -> str:
        return self.chance.choice(("=", "<>") if kind == "truth" else ("=", "=", "<>", "<", "<=", ">", ">=", "!="))

    def _fresh(self, letter: str) -> str:
        self._aliases += 1
        return f"{letter}{self._aliases}"

    def _may(self, feature: str, likely: float) -> bool:
        """Return whether to use a feature now, at random."""
        chosen = self.chance.random() < likely and feature in self.features
        if chosen:
            self.used.add(feature)
        return chosen
