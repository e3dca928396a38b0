"""Random texts of the SQL that is supported, over random tables."""

from __future__ import annotations

from collections.abc import Sequence

from tests.helpers.sql_conditions import NUMBERS, ORDERED, Conditions
from tests.helpers.sql_scopes import Scope, Source
from tests.helpers.sql_tables import Column


class Writer(Conditions):
    """Writes one text."""

    def views(self) -> tuple[tuple[str, str], ...]:
        """Some views that use one another, or one query."""
        if not self._may("views", 0.25):
            return (("", self.query()[0]),)
        found = []
        for number in range(self.chance.choice((1, 2, 2, 3))):
            text, columns = self.query()
            found.append((f"v{number + 1}", text))
            self.sources.append(Source(f"v{number + 1}", columns))
        return tuple(found)

    def query(self) -> tuple[str, tuple[Column, ...]]:
        """A query that may begin with WITH, and its columns."""
        self._left = self.chance.choice((1, 2, 3, 3, 4, 5, 6))
        before = list(self.sources)
        parts, lead = [], "WITH"
        if self._may("recursive", 0.08) and (made := self._recursion()):
            parts.append(made)
            lead = "WITH RECURSIVE"
        if self._may("with", 0.12):
            for _ in range(self.chance.choice((1, 1, 2))):
                text, columns = self._body(1)
                name = self._fresh("q")
                parts.append(f"{name} AS ({text})")
                self._prefer(Source(name, columns))
        text, columns = self._body(2)
        self.sources = before
        return (f"{lead} {', '.join(parts)} {text}" if parts else text), columns

    def _prefer(self, source: Source) -> None:
        self.sources += [source] * len(self.sources)

    def _body(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        for how in ("union all", "union"):
            if self._may(how, 0.08):
                branches = [self._select(depth - 1, None)]
                if any(column.kind == "mean" for column in branches[0][1]):
                    return branches[0]
                kinds = [column.kind for column in branches[0][1]]
                branches += [self._select(depth - 1, kinds) for _ in range(self.chance.choice((1, 1, 2)))]
                words = [how.upper()] * len(branches)
                if {"union", "union all"} <= self.features and self.chance.random() < 0.2:
                    words[-1] = self.chance.choice(("UNION", "UNION ALL"))
                text = branches[0][0] + "".join(
                    f" {word} {branch}" for word, (branch, _) in zip(words[1:], branches[1:], strict=True)
                )
                return text, branches[0][1]
        return self._select(depth, None)

    # one SELECT

    def _select(self, depth: int, kinds: Sequence[str] | None) -> tuple[str, tuple[Column, ...]]:
        text, scope = self._from(depth)
        conditions = list(scope.wanted)
        if self._may("where", 0.6):
            conditions += [self._condition(scope) for _ in range(self.chance.choice((1, 1, 1, 2)))]
        for how in ("exists", "not exists"):
            if depth > 0 and self._may(how, 0.08):
                conditions.append(f"{how.upper()} ({self._inner(scope, depth)})")
        for how in ("in select", "not in select", "any", "all"):
            if depth > 0 and self._may(how, 0.04):
                conditions.append(self._member(scope, how))
        self.chance.shuffle(conditions)
        rest = f" FROM {text}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
        grouped = self.chance.random() < 0.3
        if grouped and self._may("global", 0.3):
            return self._grouped(scope, rest, kinds, [])
        if grouped and self._may("group", 1.0):
            keys = self._keys(scope)
            return self._grouped(scope, rest, kinds, keys)
        if kinds is None and self._may("star", 0.15) and (columns := scope.star()):
            return "SELECT *" + rest, columns
        wanted: Sequence[str | None] = kinds or [None] * self.chance.choice((1, 2, 2, 3, 4))
        pairs = [self._item(scope, kind) for kind in wanted]
        distinct = "DISTINCT " if self._may("distinct", 0.2) else ""
        items, columns = self._named(pairs)
        return f"SELECT {distinct}{items}{rest}", columns

    def _named(self, pairs: Sequence[tuple[str, str, str | None]]) -> tuple[str, tuple[Column, ...]]:
        """Items and their columns; an item whose name is taken gets another one."""
        items, columns, taken = [], [], set()
        for number, (text, kind, label) in enumerate(pairs):
            name, shown = label, text
            if name is None or name in taken or self.chance.random() < 0.3:
                name = next(
                    candidate
                    for candidate in (f"o{number}", *(f"o{number}_{i}" for i in range(9)))
                    if candidate not in taken
                )
                shown = f"{text} {self.chance.choice(('AS ', ''))}{name}"
            taken.add(name)
            items.append(shown)
            columns.append(Column(name, kind))
        return ", ".join(items), tuple(columns)

    def _item(self, scope: Scope, kind: str | None) -> tuple[str, str, str | None]:
        """An expression for SELECT, its kind, and the name it has by itself."""
        if kind != "date" and self._may("expressions", 0.25):
            kind = kind or self.chance.choice(("int", "int", "int", "text", "decimal", "float"))
            return self._calculated(scope, kind), kind, None
        column = self._column(scope, kind)
        if column is None:
            kind = {"mean": "float", None: "int"}.get(kind, kind)
            return "NULL" if kind == "date" else self._literal(kind), kind, None
        return scope.text(column, self.chance), column.kind, column.name

    def _grouped(
        self, scope: Scope, rest: str, kinds: Sequence[str] | None, keys: list[tuple[str, str, str | None]]
    ) -> tuple[str, tuple[Column, ...]]:
        pairs = []
        if kinds is None:
            pairs = [key for key in keys if self.chance.random() < 0.85]
            pairs += [self._aggregate(scope, None) for _ in range(self.chance.choice((1, 1, 2, 3)))]
            self.chance.shuffle(pairs)
        else:
            for kind in kinds:
                fit = [key for key in keys if key[1] == kind]
                pairs.append(self.chance.choice(fit) if fit else self._aggregate(scope, kind))
        items, columns = self._named(pairs)
        text = f"SELECT {items}{rest}"
        if keys:
            text += f" GROUP BY {', '.join(key[0] for key in keys)}"
        if self._may("having", 0.3):
            text += f" HAVING {self._having(scope, keys)}"
        return text, columns

    def _keys(self, scope: Scope) -> list[tuple[str, str, str | None]]:
        keys: dict[str, tuple[str, str, str | None]] = {}
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            key = self._item(scope, None)
            if key[1] != "mean" and any(column.name in key[0] for column in scope.columns):
                keys[key[0]] = key
        return list(keys.values())

    def _aggregate(self, scope: Scope, kind: str | None) -> tuple[str, str, str | None]:
        """An aggregate, its kind, and no name."""
        chosen = self.chance.choice(("count", "*", "sum", "min", "max", "avg", "distinct"))
        if kind is not None:
            fit = {"int": ("count", "*", "sum", "min"), "decimal": ("sum", "max")}
            chosen = self.chance.choice(fit.get(kind, ("min",)))
        if chosen == "distinct" and self._may("count distinct", 1.0):
            return f"COUNT(DISTINCT {self._argument(scope, None)[0]})", "int", None
        if chosen in ("count", "distinct"):
            return f"COUNT({self._argument(scope, None)[0]})", "int", None
        if chosen == "*":
            return "COUNT(*)", "int", None
        if chosen in ("sum", "avg"):
            text, own = self._argument(scope, kind or self.chance.choice(NUMBERS))
            return f"{chosen.upper()}({text})", "mean" if chosen == "avg" else own, None
        text, own = self._argument(scope, kind or self.chance.choice(ORDERED))
        return f"{chosen.upper()}({text})", own, None

    def _argument(self, scope: Scope, kind: str | None) -> tuple[str, str]:
        column = self._column(scope, kind)
        if column is None:
            return ("NULL", "date") if kind == "date" else (self._literal(kind or "int"), kind or "int")
        if column.kind in NUMBERS and self._may("calculated aggregates", 0.2):
            return self._calculated(scope, column.kind), column.kind
        return scope.text(column, self.chance), column.kind

    def _having(self, scope: Scope, keys: Sequence[tuple[str, str, str | None]]) -> str:
        text, kind, _ = self._aggregate(scope, self.chance.choice(("int", "int", None)))
        if kind == "mean":
            found = f"{text} > 0.3"
        elif self.chance.random() < 0.15:
            found = f"{text} IS {self.chance.choice(('', 'NOT '))}NULL"
        else:
            found = f"{text} {self._operator()} {self._literal(kind)}"
        if keys and self.chance.random() < 0.3:
            key, kind, _ = self.chance.choice(keys)
            found += f" AND {key} {self._operator(kind)} {self._literal(kind)}"
        return found

    # FROM

    def _from(self, depth: int) -> tuple[str, Scope]:
        groups, scope = [], Scope()
        left = min(self.chance.choice((1, 1, 2, 2, 2, 3, 3, 4, 5)), max(1, self._left), 5 if depth > 0 else 2)
        while left:
            size = left if not self._may("comma", 0.3) else self.chance.randint(1, left)
            text, own = self._chain(size, depth)
            if groups and (not scope.is_one or self.chance.random() < 0.9) and (pair := self._equality(scope, own)):
                own.wanted.append(pair)
            groups.append(text)
            scope = scope.beside(own)
            left -= size
        return ", ".join(groups), scope

    def _chain(self, size: int, depth: int) -> tuple[str, Scope]:
        text, scope = self._operand(depth)
        for _ in range(size - 1):
            if depth > 1 and self._may("nested", 0.08):
                inner, other = self._chain(2, 0)
                inner = f"({inner})"
            else:
                inner, other = self._operand(depth)
            text, scope = self._joined(text, scope, inner, other)
        return text, scope

    def _joined(self, left: str, scope: Scope, right: str, other: Scope) -> tuple[str, Scope]:
        kind = self.chance.choice(("inner", "inner", "inner", "left", "left", "right", "full", "cross"))
        if kind not in self.features:
            kind = "inner"
        self.used.add(kind)
        if kind == "cross":
            both = scope.beside(other)
            if (not scope.is_one or self.chance.random() < 0.8) and (pair := self._equality(scope, other)):
                both.wanted.append(pair)
            return f"{left} CROSS JOIN {right}", both
        word = {"inner": self.chance.choice(("JOIN", "INNER JOIN")), "left": "LEFT JOIN", "right": "RIGHT OUTER JOIN",
                "full": self.chance.choice(("FULL JOIN", "FULL OUTER JOIN"))}[kind]  # fmt: skip
        shared = scope.shared(other)
        if shared and self._may("natural", 0.12) and scope.may_be_natural(other):
            return f"{left} NATURAL {word} {right}", scope.merged(other, shared, kind)
        if shared and self._may("using", 0.2):
            names = self.chance.sample(shared, self.chance.randint(1, len(shared)))
            return f"{left} {word} {right} USING ({', '.join(names)})", scope.merged(other, names, kind)
        both = scope.beside(other)
        pairs = [
            self._equality(scope, other) for _ in range(self.chance.choice((1, 1, 1, 1, 1, 1, 1, 2, not scope.is_one)))
        ]
        conditions = [pair for pair in pairs if pair]
        if self._may("one-sided", 0.25):
            conditions.append(self._comparison(Scope(self.chance.choice((scope, other)).owned)))
        if self._may("unequal", 0.1) and (pair := self._equality(scope, other, self._operator())):
            conditions.append(pair)
        if not conditions and kind == "inner":
            return f"{left} CROSS JOIN {right}", both
        conditions = conditions or [self._comparison(Scope(self.chance.choice((scope, other)).owned))]
        self.chance.shuffle(conditions)
        return (
            f"{left} {word} {right} ON {' AND '.join(dict.fromkeys(conditions))}",
            both,
        )

    def _operand(self, depth: int) -> tuple[str, Scope]:
        if depth > 0 and self._left > 1 and self._may("from", 0.2):
            self._left -= 1
            text, columns = self._body(depth - 1)
            alias = self._fresh("d")
            return f"({text}) {self.chance.choice(('AS ', ''))}{alias}", Scope.of(alias, columns)
        return self._named_operand()

    # recursion

    def _recursion(self) -> str | None:
        """Return a recursive query of the rows reachable over a table, from random starts."""
        fit = [(source, left, right) for source in self.sources for left in source.columns for right in source.columns
               if left.kind == right.kind and left.kind in ("int", "text") and left != right]  # fmt: skip
        name = self._fresh("r")
        if not fit:
            ints = [(source, own) for source in self.sources for own in source.columns if own.kind == "int"]
            if not ints:
                return None
            source, own = self.chance.choice(ints)
            self._prefer(Source(name, (Column("x", "int"),)))
            return (
                f"{name}(x) AS (SELECT {own.name} FROM {source.name} "
                f"UNION SELECT x + 1 FROM {name} WHERE x < {self.chance.randint(1, 6)})"
            )
        source, left, right = self.chance.choice(fit)
        table, kind, a, b = source.name, left.kind, left.name, right.name
        where = f" WHERE {self.chance.choice((a, b))} {self._operator(kind)} {self._literal(kind)}"
        start = where if self.chance.random() < 0.4 else ""
        way = self.chance.random()
        if way < 0.4:
            self._prefer(Source(name, (Column("x", kind), Column("y", kind))))
            on = self.chance.choice((f"{name}.y = e.{a}", f"e.{a} = {name}.y"))
            step = f"SELECT {name}.x, e.{b} FROM {name} JOIN {table} e ON {on}"
            step += self._step_condition(" WHERE ", kind, f"{name}.x")
            return f"{name}(x, y) AS (SELECT {a}, {b} FROM {table}{start} UNION {step})"
        self._prefer(Source(name, (Column("x", kind),)))
        if way < 0.7:
            step = f"SELECT e.{b} FROM {name}, {table} e WHERE {name}.x = e.{a}"
            step += self._step_condition(" AND ", kind, f"e.{b}")
            return f"{name}(x) AS (SELECT {a} FROM {table}{start} UNION {step})"
        first = self._literal(kind)
        step = f"SELECT e.{b} FROM {table} AS e JOIN {name} AS w ON w.x = e.{a}"
        step += self._step_condition(" WHERE ", kind, "w.x")
        return f"{name} AS (SELECT {first} AS x UNION {step})"

    def _step_condition(self, before: str, kind: str, column: str) -> str:
        """Return a condition of a step that needs rows of a table, or the absence of rows."""
        fit = [(source, own) for source in self.sources for own in source.columns if own.kind == kind]
        if not fit or self.chance.random() < 0.6:
            return ""
        source, own = self.chance.choice(fit)
        rows = f"(SELECT 1 FROM {source.name} z WHERE z.{own.name} {self._operator(kind)} {column})"
        way = self.chance.random()
        if way < 0.4:
            return f"{before}EXISTS {rows}"
        return f"{before}NOT EXISTS {rows}" if way < 0.8 else f"{before}(EXISTS {rows} OR {column} IS NULL)"
