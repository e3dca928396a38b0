"""Programs of chance in Soufflé's dialect, and what they mean: relations as sets of Python values, by brute force.

A record is a tuple or None, a value of a sum a tuple that begins with the name of its branch.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Value = Any
Row = tuple[Value, ...]
Env = dict[str, Value]


@dataclass(frozen=True)
class Term:
    """A variable, a constant, or an operator of terms; ``[]`` makes records, ``$A`` a value of a branch."""

    op: str
    parts: tuple[Any, ...]

    def __str__(self) -> str:
        if self.op in ("variable", "constant"):
            return str(self.parts[0])
        if self.op == "nil":
            return "nil"
        if self.op == "[]":
            return f"[{', '.join(map(str, self.parts))}]"
        if self.op.startswith("$") or self.op in ("min", "max"):
            return f"{self.op}({', '.join(map(str, self.parts))})"
        return f"({self.parts[0]} {self.op} {self.parts[1]})"

    def value(self, env: Env) -> Value:
        if self.op == "variable":
            return env[self.parts[0]]
        if self.op == "constant":
            return self.parts[0]
        values = [part.value(env) for part in self.parts]
        if self.op == "nil":
            return None
        if self.op == "[]" or self.op.startswith("$"):
            return (*([self.op[1:]] if self.op != "[]" else []), *values)
        left, right = values
        return {
            "+": lambda: left + right, "*": lambda: left * right, "%": lambda: left % right, "^": lambda: left**right,
            "band": lambda: left & right, "bor": lambda: left | right, "bxor": lambda: left ^ right,
            "bshl": lambda: left << right, "land": lambda: int(bool(left) and bool(right)),
            "lor": lambda: int(bool(left) or bool(right)), "min": lambda: min(left, right),
            "max": lambda: max(left, right),
        }[self.op]()  # fmt: skip

    def match(self, value: Value, env: Env) -> Env | None:
        """The bindings with which the term is the value, or None."""
        if self.op == "variable":
            name = self.parts[0]
            if name == "_":
                return env
            return (
                env if env.get(name, value) == value and name in env else None if name in env else {**env, name: value}
            )
        if self.op == "[]" or self.op.startswith("$"):
            head = () if self.op == "[]" else (self.op[1:],)
            if value is None or len(value) != len(head) + len(self.parts) or value[: len(head)] != head:
                return None
            found: Env | None = env
            for part, one in zip(self.parts, value[len(head) :], strict=True):
                found = None if found is None else part.match(one, found)
            return found
        return env if self.value(env) == value else None


@dataclass(frozen=True)
class Body:
    """A literal, or a conjunction, disjunction or negation of bodies."""

    kind: str
    parts: tuple[Any, ...]

    def __str__(self) -> str:
        if self.kind == "atom":
            return f"{self.parts[0]}({', '.join(map(str, self.parts[1]))})"
        if self.kind == "compare":
            left, op, right = self.parts
            return f"{left} {op} {right}"
        if self.kind == "range":
            name, low, high = self.parts
            return f"{name} = range({low}, {high})"
        if self.kind == "count":
            name, atom = self.parts
            return f"{name} = count : {{ {atom} }}"
        if self.kind == "not":
            return f"!({self.parts[0]})" if self.parts[0].kind != "atom" else f"!{self.parts[0]}"
        joined = (", " if self.kind == "and" else " ; ").join(map(str, self.parts))
        return joined if self.kind == "and" else f"({joined})"

    def solutions(self, env: Env, relations: Mapping[str, set[Row]]) -> Iterator[Env]:
        if self.kind == "atom":
            name, terms = self.parts
            for row in relations[name]:
                found: Env | None = env
                for term, value in zip(terms, row, strict=True):
                    found = None if found is None else term.match(value, found)
                if found is not None:
                    yield found
        elif self.kind == "compare":
            left, op, right = self.parts
            one, other = left.value(env), right.value(env)
            if {"=": one == other, "!=": one != other}.get(op, False) or (op == "<" and one < other):
                yield env
        elif self.kind == "range":
            name, low, high = self.parts
            first, end = low.value(env), high.value(env)
            for value in range(first, end, 1 if first <= end else -1):
                yield {**env, name: value}
        elif self.kind == "count":
            name, atom = self.parts
            yield {**env, name: len({row for row in relations[atom.parts[0]] if _fits(atom, row, env)})}
        elif self.kind == "not":
            if not any(True for _ in self.parts[0].solutions(env, relations)):
                yield env
        elif self.kind == "or":
            for part in self.parts:
                yield from part.solutions(env, relations)
        else:
            envs = [env]
            for part in self.parts:
                envs = [found for one in envs for found in part.solutions(one, relations)]
            yield from envs


def _fits(atom: Body, row: Row, env: Env) -> bool:
    found: Env | None = env
    for term, value in zip(atom.parts[1], row, strict=True):
        found = None if found is None else term.match(value, found)
    return found is not None


@dataclass
class DrawnProgram:
    """A program: strata of heads, whose rules have several heads each."""

    rules: list[tuple[list[Body], Body]] = field(default_factory=list)
    strata: list[str] = field(default_factory=list)
    equivalences: set[str] = field(default_factory=set)
    in_component: bool = False

    def name(self, relation: str) -> str:
        return f"c.{relation}" if self.in_component and relation in self.strata else relation

    def text(self) -> str:
        lines = [
            ".type L = [x: number, t: L]", ".type E = A {x: number} | B {l: L, y: number} | C {}",
            ".decl r(x: number)", ".decl e(x: number, y: number)", ".decl p(l: L)",
            "used(x) :- r(x) ; e(x, _) ; p([x, _]).",
        ]  # fmt: skip
        inside = []
        for head in self.strata:
            qualifier = " eqrel" if head in self.equivalences else ""
            inside.append(f".decl {head}({KINDS[head[0]]}){qualifier}")
        for heads, body in self.rules:
            inside.append(f"{', '.join(map(str, heads))} :- {body}.")
        inside += [f".output {head}" for head in self.strata]
        if self.in_component:
            inside = [line.replace(": number", ": N") for line in inside]
            return "\n".join([*lines, ".comp Part<N> {", *inside, "}", ".init c = Part<number>"])
        return "\n".join([*lines, *inside])

    def evaluate(self, inputs: Mapping[str, set[Row]]) -> dict[str, set[Row]]:
        """The rows of each head: rules are applied head by head until nothing is new."""
        relations = {**{name: set(rows) for name, rows in inputs.items()}, **{head: set() for head in self.strata}}
        for head in self.strata:
            while True:
                size = len(relations[head])
                for heads, body in self.rules:
                    for atom in heads:
                        if atom.parts[0] == head:
                            found = list(body.solutions({}, relations))
                            relations[head] |= {tuple(term.value(env) for term in atom.parts[1]) for env in found}
                if head in self.equivalences:
                    relations[head] = _closed(relations[head])
                if len(relations[head]) == size:
                    break
        return {head: relations[head] for head in self.strata}


def _closed(rows: set[Row]) -> set[Row]:
    closed = set(rows)
    while True:
        new = {(y, x) for x, y in closed} | {(x, w) for (x, y), (z, w) in itertools.product(closed, closed) if y == z}
        if new <= closed:
            return closed
        closed |= new


KINDS = {"n": "x: number", "m": "x: number, y: number", "l": "l: L", "s": "e: E", "q": "x: number, y: number"}
"""Columns of heads by the first letter of their names."""


def shown(value: Value, rng: random.Random | None = None) -> Any:
    """A value as columns hold it; with a source of chance, in one of the spellings that inputs may have."""
    if not isinstance(value, tuple) and value is not None:
        return value
    plain = json.dumps(_plain(value), separators=(",", ":"))
    if rng is None:
        return plain
    return rng.choice([plain, json.dumps(_plain(value)), _written(value)])


def _plain(value: Value) -> Any:
    if not isinstance(value, tuple):
        return value
    if value and isinstance(value[0], str):
        return {value[0]: [_plain(part) for part in value[1:]]}
    return [_plain(part) for part in value]


def _written(value: Value) -> str:
    if value is None:
        return "nil"
    return f"[{', '.join(map(_written, value))}]" if isinstance(value, tuple) else str(value)


def _variable(name: str) -> Term:
    return Term("variable", (name,))


def _number(rng: random.Random, names: Sequence[str], depth: int = 0) -> Term:
    """A term that is a small number."""
    if depth > 1 or rng.random() < 0.6:
        return _variable(rng.choice(names)) if names and rng.random() < 0.8 else Term("constant", (rng.randrange(4),))
    op = rng.choice(["+", "*", "band", "bor", "bxor", "min", "max", "land", "lor", "bshl", "^"])
    left, right = _number(rng, names, depth + 1), _number(rng, names, depth + 1)
    if op in ("bshl", "^"):
        right = Term("constant", (rng.randrange(3),))
    return Term("%", (Term(op, (left, right)), Term("constant", (5,))))


def draw_program(rng: random.Random) -> DrawnProgram:
    """A program of chance with a few heads, each of which may read itself and those before it."""
    program = DrawnProgram(in_component=rng.random() < 0.3)
    for i in range(rng.randrange(2, 5)):
        kind = rng.choice("nnmmlsq")
        head = f"{kind}{i}"
        if kind == "q":
            program.equivalences.add(head)
        known, program.strata = list(program.strata), [*program.strata, head]
        for _ in range(rng.randrange(1, 4)):
            body, names, lists = _body(rng, known, head)
            heads = [Body("atom", (head, _terms(rng, head, names, lists)))]
            program.rules.append((heads, body))
    rules = list(program.rules)
    for number, (heads, body) in enumerate(rules):  # several heads: a rule also derives another head of later strata
        name = heads[0].parts[0]
        later = [head for head in program.strata[program.strata.index(name) :] if head[0] == name[0] and head != name]
        reads = set(str(body).replace("(", " ").split())
        if later and rng.random() < 0.5 and not reads & set(later):
            program.rules[number] = ([*heads, Body("atom", (later[0], heads[0].parts[1]))], body)
    return program


def _terms(rng: random.Random, head: str, names: Sequence[str], lists: Sequence[str]) -> tuple[Term, ...]:
    if head[0] in "nmq":
        return tuple(_number(rng, names) for _ in range(1 if head[0] == "n" else 2))
    if head[0] == "l":
        return (_list(rng, names, lists),)
    op = rng.choice("ABC")
    if op == "A":
        return (Term("$A", (_number(rng, names),)),)
    return (Term("$B", (_list(rng, names, lists), _number(rng, names))) if op == "B" else Term("$C", ()),)


def _list(rng: random.Random, names: Sequence[str], lists: Sequence[str]) -> Term:
    if lists and rng.random() < 0.5:
        return _variable(rng.choice(lists))
    if rng.random() < 0.3:
        return Term("nil", ())
    tail = _variable(rng.choice(lists)) if lists and rng.random() < 0.3 else Term("nil", ())
    return Term("[]", (_number(rng, names), tail))


def _body(rng: random.Random, known: Sequence[str], head: str) -> tuple[Body, list[str], list[str]]:
    """A body whose first atoms bind its variables; also the variables that are numbers and those that are lists."""
    names: list[str] = []
    lists: list[str] = []
    parts: list[Body] = []
    own = [head] if head[0] in "nmq" else []  # lists and sums that grow by themselves would never end
    for _ in range(rng.randrange(1, 3)):
        relation = rng.choice(["r", "e", "p", *known, *own])
        parts.append(Body("atom", (relation, _patterns(rng, relation, names, lists))))
    parts += [_condition(rng, known, names, lists) for _ in range(rng.randrange(3))]
    if names and rng.random() < 0.2:
        name = f"v{len(names)}"
        parts.append(Body("range", (name, Term("constant", (rng.randrange(3),)), _variable(rng.choice(names)))))
        names.append(name)
    if names and rng.random() < 0.2:
        name = f"v{len(names)}"
        atom = Body("atom", ("e", (_variable(rng.choice(names)), _variable("_"))))
        parts.append(Body("count", (name, atom)))
        names.append(name)
    return Body("and", tuple(parts)), names, lists


def _patterns(rng: random.Random, relation: str, names: list[str], lists: list[str]) -> tuple[Term, ...]:
    """Terms for the columns of a relation in a body, which bind variables."""

    def number() -> Term:
        if names and rng.random() < 0.4:
            return _variable(rng.choice(names))
        if rng.random() < 0.15:
            return Term("constant", (rng.randrange(4),)) if rng.random() < 0.5 else _variable("_")
        names.append(f"v{len(names)}")
        return _variable(names[-1])

    def listed(depth: int = 0) -> Term:
        if rng.random() < 0.4 or depth > 1:
            lists.append(f"t{len(lists)}")
            return _variable(lists[-1])
        return Term("[]", (number(), listed(depth + 1) if rng.random() < 0.7 else _variable("_")))

    if relation in ("r", "e") or relation[0] in "nmq":
        return tuple(number() for _ in range(1 if relation == "r" or relation[0] == "n" else 2))
    if relation == "p" or relation[0] == "l":
        return (listed(),)
    op = rng.choice("ABC")
    parts = {"A": lambda: (number(),), "B": lambda: (listed(), number()), "C": tuple}[op]()
    return (Term(f"${op}", parts),)


def _condition(
    rng: random.Random, known: Sequence[str], names: Sequence[str], lists: Sequence[str], depth: int = 0
) -> Body:
    """A condition on bound variables."""
    chance = rng.random()
    if depth < 2 and chance < 0.45:
        parts = tuple(_condition(rng, known, names, lists, depth + 1) for _ in range(2))
        return Body("or", parts) if chance < 0.3 else Body("not", (Body(rng.choice(["and", "or"]), parts),))
    if chance < 0.65:
        return Body("compare", (_number(rng, names), rng.choice(["=", "!=", "<"]), _number(rng, names)))
    if lists and chance < 0.75:
        return Body("compare", (_variable(rng.choice(lists)), rng.choice(["=", "!="]), _list(rng, names, lists)))
    relation = rng.choice(["r", "e", "p", *(one for one in known if one[0] in "nmql")])
    if relation == "p" or relation[0] == "l":
        terms: tuple[Term, ...] = (_list(rng, names, lists),)
    else:
        terms = tuple(_number(rng, names) for _ in range(1 if relation == "r" or relation[0] == "n" else 2))
    atom = Body("atom", (relation, terms))
    return Body("not", (atom,)) if rng.random() < 0.4 else atom
