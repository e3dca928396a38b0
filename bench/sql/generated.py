"""Statements that are drawn from a grammar, by a seed, over the tables of `bench.sql.tables`.

Answers are comparable: an order that cuts rows off is total, and no expression depends on anything else than its row.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

NUMBERS = {"emp": ["id", "dept", "boss"], "dept": ["id"], "sale": ["id", "emp", "qty"], "num": ["i", "j", "s"]}
DECIMALS = {"emp": ["salary"], "dept": ["budget"], "sale": ["price"], "num": ["b"]}
TEXTS = {"emp": ["name"], "dept": ["title", "city"], "sale": ["item", "note"], "num": ["x"]}
DATES = {"emp": ["hired"], "dept": [], "sale": ["day"], "num": []}
JOINS = [
    ("emp", "dept", "{0}.dept = {1}.id"),
    ("sale", "emp", "{0}.emp = {1}.id"),
    ("emp", "emp", "{0}.boss = {1}.id"),
    ("num", "num", "{0}.i = {1}.j"),
    ("num", "emp", "{0}.i = {1}.dept"),
    ("sale", "num", "{0}.qty = {1}.i"),
    ("emp", "emp", "{0}.dept = {1}.dept AND {0}.id < {1}.id"),
]


@dataclass
class Writer:
    """A writer of statements.

    Attributes
    ----------
    chance
        The source of random numbers.
    scope
        The relations of FROM: alias and table.
    """

    chance: random.Random
    scope: list[tuple[str, str]] = field(default_factory=list)
    n_aliases: int = 0

    def alias(self) -> str:
        """Return an alias that is not in use."""
        self.n_aliases += 1
        return f"t{self.n_aliases}"

    def column(self, *families: dict[str, list[str]]) -> str:
        """Return a column of FROM of one of the families; of another one if FROM has none."""
        choices = [f"{alias}.{name}" for alias, table in self.scope for family in families for name in family[table]]
        return self.chance.choice(choices) if choices else self.column(NUMBERS)

    def from_clause(self, n_relations: int) -> str:
        """Open a FROM of relations that are joined by keys, and return it."""
        pick = self.chance.choice
        first, _, _ = pick(JOINS)
        start = self.alias()
        self.scope = [(start, first)]
        text = f"{first} {start}"
        for _ in range(n_relations - 1):
            alias, table = pick(self.scope)
            matching = [(left, right, on) for left, right, on in JOINS if table in (left, right)]
            left, right, on = pick(matching)
            other = self.alias()
            condition = on.format(alias, other) if left == table else on.format(other, alias)
            joined = right if left == table else left
            kind = pick(["JOIN", "JOIN", "JOIN", "LEFT JOIN", "FULL JOIN"])
            text += f" {kind} {joined} {other} ON {condition}"
            self.scope.append((other, joined))
        return text

    def scalar(self) -> str:
        """Return an expression over one row."""
        pick = self.chance.choice
        number, money, text, day = (self.column(family) for family in (NUMBERS, DECIMALS, TEXTS, DATES))
        has_dates = any(DATES[table] for _, table in self.scope)
        choices = [
            number, text, f"{number} + {self.chance.randint(1, 5)}", f"abs({number} - 3)", f"{number} * {number}",
            f"coalesce({number}, -1)", f"coalesce({text}, '?')", f"upper({text})", f"length({text})",
            f"CASE WHEN {self.condition()} THEN 'yes' ELSE 'no' END", f"nullif({number}, 2)", f"{money}",
            f"CASE {number} WHEN 1 THEN {text} WHEN 2 THEN 'two' END", f"left({text}, 2) || '.'",
            f"replace({text}, 'a', 'e')", f"CAST({number} AS VARCHAR)", f"round({money} / 7.0, 2)",
            f"greatest({number}, 2)", f"{number} IS NULL", f"concat({text}, '/', {number})", f"{number} % 3",
            f"substring({text}, 2, 2)", f"TRY_CAST({text} AS INTEGER)", f"CAST({number} AS DOUBLE) / 2",
        ]  # fmt: skip
        if has_dates:
            choices += [f"year({day})", f"date_trunc('month', {day})", f"{day} + INTERVAL 10 DAY", f"month({day}) + 1"]
        return pick(choices)

    def condition(self, depth: int = 2) -> str:
        """Return a condition on one row."""
        pick = self.chance.choice
        if depth and self.chance.random() < 0.35:
            left, right = self.condition(depth - 1), self.condition(depth - 1)
            return pick([f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"])
        number, other, text = self.column(NUMBERS), self.column(NUMBERS), self.column(TEXTS)
        n = self.chance.randint(0, 4)
        return pick([
            f"{number} > {n}", f"{number} = {n}", f"{number} <> {other}", f"{number} <= {other}", f"{number} IS NULL",
            f"{number} IS NOT NULL", f"{number} IN (1, 2, {n})", f"{number} NOT IN ({n}, 3)",
            f"{number} BETWEEN {n} AND {n + 2}", f"{text} LIKE '%a%'", f"{text} = 'pen'", f"{text} > 'C'",
            f"{text} IS NULL", f"{number} IS NOT DISTINCT FROM {other}", f"lower({text}) LIKE '%n%'",
            f"length({text}) > 3", f"{number} + {n} > {other}", f"coalesce({number}, 0) < {n}",
        ])  # fmt: skip

    def where(self) -> str:
        """Return a WHERE, or nothing."""
        return f" WHERE {self.condition()}" if self.chance.random() < 0.6 else ""

    def aggregate(self) -> str:
        """Return an aggregate."""
        number, money, text = self.column(NUMBERS), self.column(DECIMALS), self.column(TEXTS)
        return self.chance.choice([
            "count(*)", f"count({text})", f"sum({number})", f"min({text})", f"max({money})", f"avg({number})",
            f"count(DISTINCT {number})", f"sum({number}) FILTER (WHERE {self.condition(0)})", f"median({number})",
            f"bool_or({number} > 2)", f"string_agg({text}, ',' ORDER BY {text})", f"round(stddev({number}), 6)",
            f"sum(coalesce({number}, 1))", f"max(length({text}))", f"sum({money})", f"sum(DISTINCT {number})",
        ])  # fmt: skip


def _plain(writer: Writer) -> str:
    source = writer.from_clause(writer.chance.randint(1, 3))
    items = ", ".join(writer.scalar() for _ in range(writer.chance.randint(1, 4)))
    distinct = writer.chance.choice(["", "", "DISTINCT "])
    return f"SELECT {distinct}{items} FROM {source}{writer.where()}"


def _grouped(writer: Writer) -> str:
    source = writer.from_clause(writer.chance.randint(1, 3))
    keys = [writer.column(NUMBERS, TEXTS) for _ in range(writer.chance.randint(1, 2))]
    values = ", ".join(writer.aggregate() for _ in range(writer.chance.randint(1, 3)))
    having = writer.chance.choice(["", "", " HAVING count(*) > 1", f" HAVING {writer.aggregate()} IS NOT NULL"])
    kind = writer.chance.choice(["{}", "{}", "{}", "ROLLUP ({})", "CUBE ({})"]).format(", ".join(dict.fromkeys(keys)))
    return f"SELECT {', '.join(keys)}, {values} FROM {source}{writer.where()} GROUP BY {kind}{having}"


def _whole(writer: Writer) -> str:
    source = writer.from_clause(writer.chance.randint(1, 3))
    return f"SELECT {', '.join(writer.aggregate() for _ in range(3))} FROM {source}{writer.where()}"


def _ordered(writer: Writer) -> str:
    source = writer.from_clause(writer.chance.randint(1, 2))
    items = [writer.scalar() for _ in range(2)]
    turn = writer.chance.choice(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])
    limit = writer.chance.choice(["", f" LIMIT {writer.chance.randint(0, 6)}", " LIMIT 4 OFFSET 1"])
    return f"SELECT {', '.join(items)} FROM {source}{writer.where()} ORDER BY 1{turn}, 2{limit}"


def _windowed(writer: Writer) -> str:
    source = writer.from_clause(writer.chance.randint(1, 2))
    alias = writer.scope[0][0]
    partition = writer.chance.choice(["", f"PARTITION BY {writer.column(NUMBERS, TEXTS)} "])
    order = f"ORDER BY {writer.column(NUMBERS)}, {', '.join(_key(name, table) for name, table in writer.scope)}"
    number = writer.column(NUMBERS)
    call = writer.chance.choice([
        "row_number()", "rank()", "dense_rank()", f"sum({number})", f"lag({number})", f"lead({number}, 1, 0)",
        f"count({number})", f"max({number})", f"avg({number})", f"first_value({number})", "ntile(2)",
    ])  # fmt: skip
    frame = ""
    if call.startswith(("sum", "count", "avg", "max")):
        frame = writer.chance.choice(["", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS UNBOUNDED PRECEDING"])
    key = _key(alias, writer.scope[0][1])
    return f"SELECT {key}, {call} OVER ({partition}{order}{frame}) FROM {source}{writer.where()}"


def _key(alias: str, table: str) -> str:
    """Return columns that no two different rows agree in."""
    names = ["i", "j", "s", "x"] if table == "num" else ["id"]
    return ", ".join(f"{alias}.{name}" for name in names)


def _set_operation(writer: Writer) -> str:
    parts = []
    for _ in range(writer.chance.randint(2, 3)):
        source = writer.from_clause(writer.chance.randint(1, 2))
        parts.append(f"SELECT {writer.column(NUMBERS)}, {writer.column(TEXTS)} FROM {source}{writer.where()}")
    words = ["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL"]
    text = parts[0]
    for part in parts[1:]:
        text = f"({text}) {writer.chance.choice(words)} {part}"
    return text


def _nested(writer: Writer) -> str:
    inner = _grouped(writer)
    name = writer.alias()
    outer = Writer(writer.chance, n_aliases=writer.n_aliases + 100)
    source = outer.from_clause(writer.chance.randint(1, 2))
    items = ", ".join(outer.scalar() for _ in range(2))
    number, text = outer.column(NUMBERS), outer.column(TEXTS)
    correlated = outer.chance.choice([
        f"EXISTS (SELECT 1 FROM sale u WHERE u.emp = {number} AND u.qty > 1)",
        f"NOT EXISTS (SELECT 1 FROM num u WHERE u.i = {number})",
        f"{number} IN (SELECT dept FROM emp)",
        f"{number} NOT IN (SELECT j FROM num WHERE j IS NOT NULL)",
        f"{number} > (SELECT avg(u.i) FROM num u)",
        f"{number} >= (SELECT min(u.dept) FROM emp u WHERE u.boss = {number})",
        f"(SELECT count(*) FROM sale u WHERE u.item = {text}) > 1",
        f"{text} = ANY (SELECT u.name FROM emp u)",
    ])  # fmt: skip
    if outer.chance.random() < 0.3:
        return f"WITH {name} AS ({inner}) SELECT count(*) FROM {name}"
    extra = outer.chance.choice(["", f", (SELECT max(u.qty) FROM sale u WHERE u.emp = {number})"])
    return f"SELECT {items}{extra} FROM {source} WHERE {correlated}"


SECTIONS: dict[str, Callable[[Writer], str]] = {
    "drawn selections": _plain,
    "drawn groups": _grouped,
    "drawn aggregates": _whole,
    "drawn orders": _ordered,
    "drawn windows": _windowed,
    "drawn set operations": _set_operation,
    "drawn subqueries": _nested,
}


def statements(per_section: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield statements with their sections.

    Examples
    --------
    >>> [section for section, _ in statements(1, 0)][:2]
    ['drawn selections', 'drawn groups']
    """
    for section, write in SECTIONS.items():
        for number in range(per_section):
            yield section, write(Writer(random.Random(f"{seed} {section} {number}")))
