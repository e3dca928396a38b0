"""Null in rules: asked for, put into heads, and joined by, against recomputation from scratch after every tick."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.query.datalog import parse
from tests.kinds import Kind, lacking
from tests.reference.changes import Row, ZSet, minus, plus
from tests.reference.nulls import evaluate

INPUTS = {"q": 1, "r": 2, "s": 2}
INTEGERS = (0, 1, 2, 5)
TEXTS = ("", "a", "b", "c\x00")
N_PROGRAMS = 2000 if os.environ.get("TEST_LONG") else 60
N_BLOCKS = 4
BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])


@dataclass
class Writer:
    """A writer of programs by chance, over values of one type."""

    chance: random.Random
    values: tuple[object, ...]

    def program(self, bag: bool) -> str:
        """One head of rules, one that reads it, and one that aggregates or, over sets, recurs."""
        width = self.chance.randint(1, 2)
        rules = [self.rule("h", width, INPUTS) for _ in range(self.chance.randint(1, 2))]
        known = {**INPUTS, "h": width}
        third = self.chance.choice(("count", "head", "least", "none" if bag else "loop"))
        if third == "count":
            rules.append(self.count_in_body(known))
        elif third == "head":
            rules.append(self.rule("g", 1, known, "count()"))
        elif third == "least":
            rules.append(self.rule("g", 1, known, "min"))
        elif third == "loop":
            rules += self.loop()
        rules.append(self.rule("k", 2, known))
        return "\n".join(rules)

    def literal(self) -> str:
        value = self.chance.choice(self.values)
        return '"' + value.replace("\x00", "\\u0000") + '"' if isinstance(value, str) else str(value)

    def names(self) -> list[str]:
        return [f"{name}{self.chance.choice(('', '?'))}" for name in "xyz"]

    def atom(self, relations: dict[str, int], names: list[str]) -> tuple[str, list[str]]:
        relation = self.chance.choice(list(relations))
        terms = []
        for _ in range(relations[relation]):
            other = self.chance.choice(("_", "null", self.literal()))
            terms.append(self.chance.choice(names) if names and self.chance.random() < 0.75 else other)
        return f"{relation}({', '.join(terms)})", [one for one in terms if one in names]

    def body(self, relations: dict[str, int]) -> tuple[list[str], list[str]]:
        names = self.names()
        found: list[str] = []
        bound: dict[str, None] = {}
        while not bound or self.chance.random() < 0.4:
            text, own = self.atom(relations, names)
            found.append(text)
            bound.update(dict.fromkeys(own))
        plain = [one for one in bound if not one.endswith("?")]
        while self.chance.random() < 0.35:
            found.append("!" + self.atom(relations, list(bound))[0])
        if self.chance.random() < 0.25:
            found.append(f"{self.chance.choice(list(bound))} {self.chance.choice(('=', '!='))} null")
        if plain and self.chance.random() < 0.25:
            other = self.chance.choice([*plain, self.literal()])
            found.append(f"{self.chance.choice(plain)} {self.chance.choice(('=', '!=', '<', '>='))} {other}")
        return found, list(bound)

    def rule(self, head: str, width: int, relations: dict[str, int], aggregate: str = "") -> str:
        while True:
            body, bound = self.body(relations)
            terms = [self.chance.choice([*bound * 3, "null", self.literal()]) for _ in range(width)]
            plain = [one for one in bound if not one.endswith("?")]
            if aggregate == "min":
                if not plain:
                    continue
                terms.append(f"min({self.chance.choice(plain)})")
            elif aggregate:
                terms.insert(self.chance.randint(0, width), aggregate)
            return f"{head}({', '.join(terms)}) :- {', '.join(body)}."

    def count_in_body(self, relations: dict[str, int]) -> str:
        body, bound = self.body(relations)
        key = self.chance.choice(bound)
        inner = [f"r({key}, u)", self.chance.choice(("s(u, _)", "!q(u)", "q(w?)"))]
        return f"g({key}, n) :- {', '.join(body)}, n = count : {{ {', '.join(inner)} }}."

    def loop(self) -> list[str]:
        x, y, z = self.names()
        rest = self.chance.choice(("", f", !q({z})", f", {y} != null", ", q(_)", ", q(null)", f", r({y}, null)"))
        return [f"g({x}, {y}) :- r({x}, {y}).", f"g({x}, {z}) :- g({x}, {y}), s({y}, {z}){rest}."]


def change(chance: random.Random, state: ZSet, width: int, values: list[object], bag: bool) -> ZSet:
    """Some rows that come, and some that go."""
    found: ZSet = {}
    for _ in range(chance.randint(0, 4)):
        found = plus(found, {tuple(chance.choices(values, k=width)): 1})
    if not bag:
        found = {row: 1 for row in found if row not in state}
    for row in chance.sample(list(state), chance.randint(0, len(state) // 2)):
        found = plus(found, {row: -chance.randint(1, state[row])})
    return found


def table(rows: ZSet, width: int, kind: pa.DataType) -> pa.Table:
    columns = {f"c{i}": pa.array([row[i] for row in rows], kind) for i in range(width)}
    return pa.table(columns | {"weight": pa.array(list(rows.values()), pa.int64())})


def check(text: str, seed: int, *, bag: bool, values: tuple[object, ...] = INTEGERS, ticks: int = 6, **options) -> None:
    """Ticks by chance, nulls from the third on; all heads and all changes are those of the judge."""
    chance = random.Random(seed)
    kind = pa.string() if values is TEXTS else pa.int64()
    rules = parse(text)
    assert parse(str(rules)) == rules
    program = gw.Program(text, bag=bag, **options)
    state: dict[str, ZSet] = {name: {} for name in program.inputs}
    before = dict.fromkeys(program.heads, {})
    for tick in range(ticks):
        own = [*values, None, None] if tick > 1 else list(values)
        changes = {name: change(chance, rows, INPUTS[name], own, bag) for name, rows in state.items()}
        state = {name: plus(rows, changes[name]) for name, rows in state.items()}
        given = {name: table(rows, INPUTS[name], kind) for name, rows in changes.items()}
        found = program.step(given)
        after = evaluate(rules, state, bag)
        for name, zset in found.items():
            expected = minus(after[name], before[name])
            assert zset.to_dict() == expected, f"{text}\ntick {tick}: {name} changes by {zset.to_dict()}, not {expected}"
        for name in program.heads:
            whole = program.relation(name).to_dict()
            assert whole == after[name], f"{text}\ntick {tick}: {name} is {whole}, not {after[name]}"
        before = after


@BAGS
@pytest.mark.parametrize("block", range(N_BLOCKS))
def test_programs_by_chance(block, bag):
    for seed in range(block, N_PROGRAMS, N_BLOCKS):
        values = (INTEGERS, TEXTS)[seed // N_BLOCKS % 2]
        check(Writer(random.Random(f"{seed} {bag}"), values).program(bag), seed, bag=bag, values=values, backend="cpu")
