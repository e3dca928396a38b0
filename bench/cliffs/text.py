"""Random queries as SQL and as Datalog, in any order of their parts, and with a derived table or helper rule."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from bench.cliffs.queries import Atom, Condition, Query

T = TypeVar("T")


def write(query: Query, order: int = 0, with_helper: bool = False) -> str:
    """Return the text of a query.

    Parameters
    ----------
    order
        Seed of the order of tables, conditions, rules and selected columns; 0 for the order of the query.
    with_helper
        Whether the join of two atoms is a derived table or a helper rule; see `helped`.
    """
    return (_Sql if query.language == "sql" else _Datalog)(query, order).text(with_helper)


def write_sql(query: Query) -> str:
    """Return a query as SQL whose answer DuckDB can count; of Datalog's, a set."""
    text = _Sql(query, 0).text(False)
    if query.language == "datalog" and query.mode == "rows":
        return text.replace("SELECT ", "SELECT DISTINCT ", 1)
    if query.language == "datalog" and query.mode == "count":
        rows = _Sql(query, 0).text(False, ", ".join(query.variables))
        return f"SELECT count(*) AS n FROM ({rows})"
    return text


def helped(query: Query) -> tuple[int, int] | None:
    """Return the first two atoms that share a variable; None if none do, or there are no others."""
    for right in range(len(query.atoms)):
        for left in range(right):
            if len(query.atoms) > 2 and set(query.atoms[left].variables) & set(query.atoms[right].variables):
                return left, right
    return None


def _compared(condition: Condition, place: Callable[[str], str]) -> list[str]:
    first, *others = map(place, condition.variables)
    n = condition.n
    if condition.kind == "constant":
        return [f"{first} {condition.op} {n}"]
    if condition.kind == "modulo":
        return [f"{first} % {n} = 1"]
    (second,) = others
    if condition.kind == "band":
        return [f"{first} - {second} < {n}", f"{first} - {second} >= 0"]
    if condition.kind == "either":
        return [f"({first} = {n} OR {second} < {n})"]
    if condition.kind == "record":
        return [f"{second} < {n}"]
    if condition.kind == "sum":
        return [f"{first} + {second} {condition.op} {n}"]
    return [f"{first} {condition.op} {second}" + (f" + {n}" if n else "")]


class _Writer:
    def __init__(self, query: Query, order: int) -> None:
        self.query = query
        self.chance = random.Random(order) if order else None

    def shuffled(self, parts: Sequence[T]) -> list[T]:
        """Return parts in the order of this text."""
        return list(parts) if self.chance is None else self.chance.sample(list(parts), len(parts))

    def with_pair_joined(self) -> tuple[list[Atom], tuple[Atom, Atom]]:
        """Return the atoms other than the two of `helped`, and these."""
        pair = helped(self.query)
        assert pair is not None
        others = [atom for number, atom in enumerate(self.query.atoms) if number not in pair]
        return others, (self.query.atoms[pair[0]], self.query.atoms[pair[1]])


class _Sql(_Writer):
    def text(self, with_helper: bool, listed: str = "") -> str:
        query = self.query
        sources = [
            (atom.table, [(f"c{column}", name) for column, name in enumerate(atom.variables)]) for atom in query.atoms
        ]
        if with_helper:
            others, pair = self.with_pair_joined()
            sources = [(atom.table, [(f"c{i}", name) for i, name in enumerate(atom.variables)]) for atom in others]
            names = list(dict.fromkeys(name for atom in pair for name in atom.variables))
            sources.append((self._derived_table(pair), [(name, name) for name in names]))
        places: dict[str, str] = {}
        tables, where = [], []
        for number, (source, columns) in enumerate(self.shuffled(sources)):
            alias = f"a{number}"
            tables.append(f"{source} {alias}")
            for column, name in columns:
                place = f"{alias}.{column}"
                if name in places:
                    where.append(f"{place} = {places[name]}")
                places.setdefault(name, place)
        from_clause = " CROSS JOIN ".join(tables) if query.outer_joins else ", ".join(tables)
        for number, join in enumerate(query.outer_joins):
            own = {name: f"l{number}.c{column}" for column, name in enumerate(join.variables)}
            on = [f"l{number}.c{column} = {places[name]}" for column, name in join.keys]
            if join.condition is not None:
                on += _compared(join.condition, own.__getitem__)
            from_clause += f" LEFT JOIN {join.table} l{number} ON {' AND '.join(on)}"
            places |= own
        for condition in query.conditions:
            where += _compared(condition, places.__getitem__)
        for alternatives in query.alternatives:
            sides = (
                " AND ".join(_compared(condition, places.__getitem__)) for condition in self.shuffled(alternatives)
            )
            where.append(f"({' OR '.join(sides)})")
        for number, lookup in enumerate(query.lookups):
            count = f"SELECT count(*) FROM {lookup.table} q{number}"
            matching = f"q{number}.c{lookup.column} = {places[lookup.variable]}"
            where.append(f"({count} WHERE {matching}) {lookup.op} {lookup.n}")
        where += [self._exists(number, places) for number in range(len(query.subqueries))]
        where = self.shuffled(where)
        tail = f" FROM {from_clause}" + (f" WHERE {' AND '.join(where)}" if where else "")
        if listed:
            return "SELECT DISTINCT " + ", ".join(f"{places[name]} AS {name}" for name in listed.split(", ")) + tail
        selected = self.shuffled(query.selected)
        shown = ", ".join(f"{places[name]} AS {name}" for name in selected)
        if query.mode in ("rows", "distinct"):
            return f"SELECT {'DISTINCT ' if query.mode == 'distinct' else ''}{shown}{tail}"
        if query.mode == "first rows":
            return f"SELECT {shown}{tail} ORDER BY {', '.join(query.selected)} LIMIT {query.limit}"
        count = "count(*)" if query.aggregate == "count" else f"{query.aggregate}({places[query.argument]})"
        if query.mode == "window":
            return f"SELECT {shown}, {count} OVER (PARTITION BY {places[query.selected[0]]}) AS n{tail}"
        if query.mode == "count":
            return f"SELECT {count} AS n{tail}"
        return f"SELECT {shown}, {count} AS n{tail} GROUP BY {', '.join(places[name] for name in selected)}"

    def _derived_table(self, atoms: Sequence[Atom]) -> str:
        places: dict[str, str] = {}
        where = []
        for number, atom in enumerate(atoms):
            for column, name in enumerate(atom.variables):
                place = f"h{number}.c{column}"
                if name in places:
                    where.append(f"{place} = {places[name]}")
                places.setdefault(name, place)
        columns = ", ".join(f"{place} AS {name}" for name, place in places.items())
        tables = ", ".join(f"{atom.table} h{number}" for number, atom in enumerate(atoms))
        return f"(SELECT {columns} FROM {tables} WHERE {' AND '.join(where)})"

    def _exists(self, number: int, outer: dict[str, str]) -> str:
        subquery = self.query.subqueries[number]
        own: dict[str, str] = {}
        tables, where = [], []
        for position, atom in enumerate(subquery.atoms):
            alias = f"s{number}{position}"
            tables.append(f"{atom.table} {alias}")
            for column, name in enumerate(atom.variables):
                place = f"{alias}.c{column}"
                if name in outer:
                    where.append(f"{place} = {outer[name]}")
                elif name in own:
                    where.append(f"{place} = {own[name]}")
                else:
                    own[name] = place
        for condition in subquery.conditions:
            where += _compared(condition, lambda name: own.get(name) or outer[name])
        tail = f" WHERE {' AND '.join(where)}" if where else ""
        return ("NOT " if subquery.is_negated else "") + f"EXISTS (SELECT 1 FROM {', '.join(tables)}{tail})"


def _literals(condition: Condition, number: int) -> list[str]:
    """Return a condition as literals of Datalog."""
    if condition.kind == "record":
        first, second = condition.variables
        return [
            f"pair{number} = $Pair({first}, {second})", f"$Pair(_, part{number}) = pair{number}",
            f"part{number} < {condition.n}",
        ]  # fmt: skip
    return [text.replace(" OR ", " ; ") for text in _compared(condition, str)]


def _atom(name: str, variables: Sequence[str]) -> str:
    return f"{name}({', '.join(variables)})"


class _Datalog(_Writer):
    def text(self, with_helper: bool) -> str:
        query = self.query
        rules: list[str] = []
        atoms = list(query.atoms)
        if with_helper:
            atoms, pair = self.with_pair_joined()
            names = list(dict.fromkeys(name for atom in pair for name in atom.variables))
            rules.append(f"helper({', '.join(names)}) :- {', '.join(_atom(a.table, a.variables) for a in pair)}.")
            atoms.append(Atom("helper", tuple(names)))
        body = [_atom(atom.table, atom.variables) for atom in atoms]
        for number, condition in enumerate(query.conditions):
            body += _literals(condition, number)
        for number, subquery in enumerate(query.subqueries):
            if subquery.is_negated:
                body.append(self._negated(number, rules))
                continue
            own = {name for atom in subquery.atoms for name in atom.variables} - set(query.variables)
            body += self._inside(number, own)
        body = self.shuffled(body)
        if query.mode == "count":
            rules.append(f"{_atom('bindings', query.variables)} :- {', '.join(body)}.")
            rules.append(f"q(n) :- n = count : {{ {_atom('bindings', query.variables)} }}.")
        else:
            rules.append(f"q({', '.join(self.shuffled(query.selected))}) :- {', '.join(body)}.")
        has_records = any(condition.kind == "record" for condition in query.conditions)
        types = [".type P = Pair {a: number, b: number}"] if has_records else []
        return "\n".join([*types, *self.shuffled(rules), *([".output q"] if len(rules) > 1 else [])])

    def _inside(self, number: int, own: set[str]) -> list[str]:
        """Return the literals of a subquery."""
        subquery = self.query.subqueries[number]
        uses = [name for atom in subquery.atoms for name in atom.variables]
        uses += [name for condition in subquery.conditions for name in condition.variables]
        literals = [
            _atom(atom.table, ["_" if name in own and uses.count(name) == 1 else name for name in atom.variables])
            for atom in subquery.atoms
        ]
        for condition in subquery.conditions:
            literals += _compared(condition, str)
        return literals

    def _negated(self, number: int, rules: list[str]) -> str:
        """Return a negated literal; a subquery of several literals becomes a rule."""
        subquery, outer = self.query.subqueries[number], set(self.query.variables)
        own = {name for atom in subquery.atoms for name in atom.variables} - outer
        literals = self._inside(number, own)
        if len(literals) == 1 and not any(name in literals[0] for name in own):
            return f"!{literals[0]}"
        inside = {name for atom in subquery.atoms for name in atom.variables}
        keys = sorted(outer & (inside | {name for one in subquery.conditions for name in one.variables}))
        guards = [  # a condition may read variables that the subquery does not bind
            _atom(atom.table, [other if other == name else "_" for other in atom.variables])
            for name in keys if name not in inside
            for atom in [next(atom for atom in self.query.atoms if name in atom.variables)]
        ]  # fmt: skip
        head = f"without{number}"
        rules.append(f"{_atom(head, keys)} :- {', '.join([*literals, *guards])}.")
        return f"!{_atom(head, keys)}"
