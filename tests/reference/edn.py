"""What a query in EDN means: every clause tried on every row. Slow, and meant to be obvious.

The text is read by edn_format. Values carry their type, so that 1, 1.0 and true are three.
"""

from __future__ import annotations

import datetime as dt
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import edn_format
from edn_format import Keyword, Symbol

Value = tuple[str, Any]
Row = tuple[Value, ...]
Env = dict[str, Value]


class UnboundError(Exception):
    """A clause needs a variable that nothing has bound yet."""


def loads(text: str) -> Any:
    """What edn_format reads; its tables stay in memory, for in a file two processes at once would find half of them."""
    return edn_format.loads(text, write_ply_tables=False)


def value(plain: Any) -> Value:
    """A value with its type."""
    kinds: list[tuple[type, str]] = [
        (bool, "boolean"), (int, "long"), (float, "double"), (str, "string"), (dt.datetime, "instant"),
        (uuid.UUID, "uuid"),
    ]  # fmt: skip
    if isinstance(plain, Keyword):
        return "keyword", f":{plain.name}"
    return next((name, plain) for kind, name in kinds if isinstance(plain, kind))


def answer(text: str, sources: Mapping[str, Iterable[Row]], rules: str = "[]", **bound: Any) -> set[tuple[Any, ...]]:
    """The rows that a query finds; variables of ``:in`` come as names without ``?``."""
    parts = _parts(loads(text))
    own = parts.get("rules", [])
    own = list(own[0]) if len(own) == 1 and not isinstance(own[0][0], tuple) else own
    written = [*loads(rules), *own]
    evaluator = _Evaluator(sources, written)
    start = {f"?{name}": value(one) for name, one in bound.items()}
    found = evaluator.complete(lambda: list(evaluator.solve(parts["where"], start, "$")))
    elements = _elements(parts["find"])
    names = [_name(one if isinstance(one, Symbol) else one[1]) for one in elements]
    names += [_name(one) for one in parts.get("with", [])]
    tuples = {tuple(env[name] for name in names) for env in found}
    if all(isinstance(one, Symbol) for one in elements):
        return {tuple(one[1] for one in row[: len(elements)]) for row in tuples}
    return _grouped(elements, tuples)


def _parts(query: Any) -> dict[str, list[Any]]:
    if isinstance(query, Mapping):
        return {key.name: list(inner) for key, inner in query.items()}
    found: dict[str, list[Any]] = {}
    name = ""
    for one in query:
        if isinstance(one, Keyword):
            name = one.name
            found[name] = []
        else:
            found[name].append(one)
    return found


def _elements(find: Sequence[Any]) -> list[Any]:
    inner = list(find[0]) if not isinstance(find[0], (Symbol, tuple)) else list(find)
    return [one for one in inner if not (isinstance(one, Symbol) and _name(one) in (".", "..."))]


def _name(symbol: Any) -> str:
    return str(symbol.name)


def _grouped(elements: Sequence[Any], tuples: Iterable[Row]) -> set[tuple[Any, ...]]:
    groups: dict[Row, list[Row]] = {}
    for row in tuples:
        key = tuple(one for one, element in zip(row, elements, strict=False) if isinstance(element, Symbol))
        groups.setdefault(key, []).append(row)
    found = set()
    for rows in groups.values():
        cells = []
        for at, element in enumerate(elements):
            values = [row[at][1] for row in rows]
            if isinstance(element, Symbol):
                cells.append(values[0])
            else:
                cells.append(_aggregate(_name(element[0]), values, [row[at] for row in rows]))
        found.add(tuple(cells))
    return found


def _aggregate(op: str, values: list[Any], typed: list[Value]) -> Any:
    return {
        "count": lambda: len(values),
        "count-distinct": lambda: len(set(typed)),
        "sum": lambda: sum(values),
        "min": lambda: min(values),
        "max": lambda: max(values),
        "avg": lambda: sum(values) / len(values),
    }[op]()


class _Evaluator:
    def __init__(self, sources: Mapping[str, Iterable[Row]], rules: Sequence[Any]) -> None:
        self.sources = {name: set(rows) for name, rows in sources.items()}
        self.rules: dict[str, list[tuple[list[str], list[Any]]]] = {}
        for head, *body in rules:
            variables = [_name(v) for one in head[1:] for v in ([one] if isinstance(one, Symbol) else one)]
            self.rules.setdefault(_name(head[0]), []).append((variables, body))
        self.tables: dict[Any, set[Row]] = {}

    def complete(self, ask: Callable[[], Any]) -> Any:
        """What `ask` says once the rules that it calls, with all that those call, derive nothing more."""
        outer, self.tables = self.tables, {}
        try:
            while True:
                before = {key: set(rows) for key, rows in self.tables.items()}
                found = ask()
                for key in list(self.tables):
                    self._derive(key)
                if before == self.tables:
                    return found
        finally:
            self.tables = outer

    def _derive(self, key: Any) -> None:
        name, source, given = key
        for variables, body in self.rules[name]:
            start = {variable: one for variable, one in zip(variables, given, strict=True) if one is not None}
            for env in self.solve(body, start, source):
                self.tables[key].add(tuple(env[one] for one in variables))

    def solve(self, clauses: Sequence[Any], env: Env, source: str) -> Iterator[Env]:
        """Every way to satisfy clauses that goes on from `env`; ``not`` comes last."""
        if not clauses:
            yield env
            return
        ordered = sorted(clauses, key=_rank)
        unbound: UnboundError | None = None
        for at, clause in enumerate(ordered):
            try:
                ways = list(self.step(clause, env, source))
            except UnboundError as error:
                unbound = unbound or error
                continue
            for way in ways:
                yield from self.solve([*ordered[:at], *ordered[at + 1 :]], way, source)
            return
        assert unbound is not None
        raise unbound

    def step(self, clause: Any, env: Env, source: str) -> Iterator[Env]:
        """Every way to satisfy one clause that goes on from `env`."""
        if not isinstance(clause, tuple):
            first = clause[0]
            if isinstance(first, tuple):
                yield from self.expression(clause, env, source)
                return
            items = list(clause)
            if isinstance(first, Symbol) and _name(first).startswith("$"):
                source, items = _name(first), items[1:]
            yield from self.rows(self.sources[source], items, env)
            return
        items = list(clause)
        if _name(items[0]).startswith("$"):
            source, items = _name(items[0]), items[1:]
        name, *inner = items
        if _name(name) == "and":
            yield from self.solve(inner, env, source)
        elif _name(name) == "or":
            for one in inner:
                yield from self.solve([one], env, source)
        elif _name(name) == "or-join":
            required = [_name(v) for one in inner[0] if not isinstance(one, Symbol) for v in one]
            names = [*required, *(_name(one) for one in inner[0] if isinstance(one, Symbol))]
            if any(one not in env for one in required):
                raise UnboundError(required)
            own = {one: env[one] for one in names if one in env}
            for branch in inner[1:]:
                for way in self.solve([branch], own, source):
                    yield env | {one: way[one] for one in names}
        elif _name(name) == "not":
            names = set(_variables(inner))
            if names and not names & set(env):
                raise UnboundError(names)
            if not self.complete(lambda: list(self.solve(inner, env, source))):
                yield env
        elif _name(name) == "not-join":
            names = {_name(one) for one in inner[0]}
            if not names <= set(env):
                raise UnboundError(names)
            own = {one: env[one] for one in names}
            if not self.complete(lambda: list(self.solve(inner[1:], own, source))):
                yield env
        elif _name(name) in self.rules:
            yield from self.called(_name(name), inner, env, source)
        else:
            yield from self.rows(self.sources[f"${_name(name)}"], inner, env)

    def called(self, name: str, terms: Sequence[Any], env: Env, source: str) -> Iterator[Env]:
        given = tuple(None if _is_open(one, env) else _bound(one, env) for one in terms)
        key = name, source, given
        if key not in self.tables:
            self.tables[key] = set()
            try:
                self._derive(key)
            except UnboundError:
                del self.tables[key]
                raise
        yield from self.rows(set(self.tables[key]), terms, env)

    def rows(self, rows: Iterable[Row], terms: Sequence[Any], env: Env) -> Iterator[Env]:
        for row in rows:
            found: Env | None = dict(env)
            for term, one in zip(terms, row, strict=False):
                found = None if found is None else _unified(term, one, found)
            if found is not None:
                yield found

    def expression(self, clause: Any, env: Env, source: str) -> Iterator[Env]:
        (function, *arguments), *result = clause
        op = _name(function)
        if op in ("missing?", "get-else"):
            where, entity, attribute, *default = arguments
            about = _bound(entity, env), value(attribute)
            held = {row[2] for row in self.sources[_name(where)] if row[:2] == about}
            if op == "missing?":
                if not held:
                    yield env
                return
            for one in held or {_bound(default[0], env)}:
                yield from _optional(_unified(result[0], one, env))
            return
        if op == "ground":
            yield from _bindings(result[0], arguments[0], env)
            return
        found = _called(op, [_bound(one, env) for one in arguments])
        if not result:
            if found == ("boolean", True):
                yield env
        elif found is not None:
            yield from _optional(_unified(result[0], found, env))


def _rank(clause: Any) -> int:
    if not isinstance(clause, tuple):
        return 1 if isinstance(clause[0], tuple) else 0
    items = [one for one in clause if not (isinstance(one, Symbol) and _name(one).startswith("$"))]
    name = _name(items[0])
    return {"not": 4, "not-join": 4, "or": 2, "or-join": 2, "and": 2}.get(name, 3)


def _variables(form: Any) -> Iterator[str]:
    if isinstance(form, Symbol):
        if _name(form).startswith("?"):
            yield _name(form)
        return
    if isinstance(form, (str, bytes)) or not isinstance(form, Sequence):
        return
    if form and isinstance(form[0], Symbol) and _name(form[0]) in ("or-join", "not-join"):
        yield from _variables(form[1])
        return
    for one in form:
        yield from _variables(one)


def _is_open(term: Any, env: Env) -> bool:
    return isinstance(term, Symbol) and _name(term) not in env


def _bound(term: Any, env: Env) -> Value:
    if isinstance(term, Symbol):
        if _name(term) not in env:
            raise UnboundError(_name(term))
        return env[_name(term)]
    return value(term)


def _unified(term: Any, one: Value, env: Env) -> Env | None:
    if isinstance(term, Symbol):
        name = _name(term)
        if name == "_":
            return env
        if name not in env:
            return env | {name: one}
        return env if env[name] == one else None
    return env if value(term) == one else None


def _optional(env: Env | None) -> Iterator[Env]:
    if env is not None:
        yield env


def _bindings(binding: Any, given: Any, env: Env) -> Iterator[Env]:
    if isinstance(binding, Symbol):
        yield from _optional(_unified(binding, value(given), env))
        return
    items = list(binding)
    if len(items) == 2 and isinstance(items[1], Symbol) and _name(items[1]) == "...":
        for one in given:
            yield from _optional(_unified(items[0], value(one), env))
        return
    rows = list(given) if len(items) == 1 and not isinstance(items[0], Symbol) else [given]
    terms = list(items[0]) if len(items) == 1 and not isinstance(items[0], Symbol) else items
    for row in rows:
        found: Env | None = env
        for term, one in zip(terms, row, strict=False):
            found = None if found is None else _unified(term, value(one), found)
        yield from _optional(found)


def _called(op: str, arguments: Sequence[Value]) -> Value | None:
    """The value of a function; None where it has none, as of a text where it takes a number."""
    kinds, values = [one[0] for one in arguments], [one[1] for one in arguments]
    pairs = list(itertools.pairwise(arguments))
    if op in ("=", "!=", "not="):
        same = all(left == right for left, right in pairs)
        return "boolean", same == (op == "=")
    if op == "identity":
        return arguments[0]
    if op == "count":
        return ("long", len(values[0])) if kinds[0] == "string" else None
    if op == "str":
        return "string", "".join(map(str, values))
    if op.startswith("clojure.string/"):
        texts = {"upper-case": str.upper, "lower-case": str.lower}
        tests = {"includes?": str.__contains__, "starts-with?": str.startswith}
        name = op.partition("/")[2]
        if set(kinds) != {"string"}:
            return None
        return ("string", texts[name](*values)) if name in texts else ("boolean", bool(tests[name](*values)))
    are_numbers = all(kind in ("long", "double") for kind in kinds)
    if op in ("<", "<=", ">", ">="):
        if not are_numbers and (len(set(kinds)) > 1 or kinds[0] not in ("string", "instant")):
            return None
        test = {"<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}
        return "boolean", all(test[op](left[1], right[1]) for left, right in pairs)
    if not are_numbers:
        return None
    if op == "==":
        return "boolean", all(left[1] == right[1] for left, right in pairs)
    if op in ("zero?", "pos?", "neg?"):
        return "boolean", {"zero?": values[0] == 0, "pos?": values[0] > 0, "neg?": values[0] < 0}[op]
    if op in ("even?", "odd?"):
        return ("boolean", (values[0] % 2 == 0) == (op == "even?")) if kinds == ["long"] else None
    kind = "double" if "double" in kinds else "long"
    if op in ("quot", "rem", "mod"):
        left, right = values
        if kind != "long" or right == 0:
            return None
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return "long", {"quot": quotient, "rem": left - right * quotient, "mod": left % right}[op]
    total = {"inc": lambda: values[0] + 1, "dec": lambda: values[0] - 1}.get(op, lambda: _folded(op, values))()
    return kind, float(total) if kind == "double" else total


def _folded(op: str, values: Sequence[Any]) -> Any:
    if op == "-" and len(values) == 1:
        return -values[0]
    total = values[0]
    for one in values[1:]:
        total = {"+": total + one, "-": total - one, "*": total * one}[op]
    return total
