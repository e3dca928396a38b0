"""Aggregating heads equal recomputation after every tick of random scripts."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.circuit.aggregate import extreme_values
from gpu_wcoj.errors import NegativeWeightError
from gpu_wcoj.query.ir import Atom, Grouping, Rule, Rules, Variable
from gpu_wcoj.zset.index import IndexedZSet
from tests.helpers.comparison import INTEGERS, fed, random_script, translated
from tests.helpers.long_tests import IS_LONG
from tests.reference.changes import apply_bag, apply_rows, apply_zset, minus

OPS = ("count", "sum", "min", "max", "mean")
BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])


def grouped(op, keys, width=3):
    """Return ``h``, an aggregate of r, a reader of it, and the aggregate of a renamed copy of r."""
    names = [Variable(letter) for letter in "abcd"[:width]]
    head = [*names[:keys], Variable("n")]
    read = Rule(Atom("p", tuple(reversed(head))), (Atom("h", tuple(head)),))
    swapped = Rule(Atom("s", (*names[keys:], *names[:keys])), (Atom("r", tuple(names)),))
    turned = Rule(Atom("t", tuple(names)), (Atom("s", (*names[keys:], *names[:keys])),))
    return Rules((read, swapped, turned), groupings=(Grouping("h", "r", keys, op), Grouping("g", "t", keys, op)))


def expected(op, keys, rows):
    """{group row: 1}; None where a group has a row of negative weight."""
    groups = defaultdict(list)
    for row, weight in rows.items():
        if op == "count" or row[keys] is not None:
            if weight < 0:
                return None
            groups[row[:keys]].append((None if op == "count" else row[keys], weight))
    return {(*group, result(op, values)): 1 for group, values in groups.items()}


def result(op, values):
    if op == "count":
        return sum(weight for _, weight in values)
    if op in ("min", "max"):
        choose = min if op == "min" else max
        return choose(
            (value for value, _ in values), key=lambda value: value.encode() if isinstance(value, str) else value
        )
    if op == "mean":
        values = [(value, 1) for value, _ in values]
    if isinstance(values[0][0], float):
        exact = sum(Fraction(value) * weight for value, weight in values)
        try:
            total = exact.numerator / exact.denominator  # rounded once
        except OverflowError:
            total = math.inf if exact > 0 else -math.inf
    else:
        total = sum(value * weight for value, weight in values)
    return float(total) / len(values) if op == "mean" else total


def check(op, keys, script, *, bag, kind=INTEGERS, width=3, **options):
    """Compare the heads of `grouped` after every tick; negative weights in a bag are refused."""
    program = gw.Program(grouped(op, keys, width), bag=bag, outputs=("h", "g", "p"), **options)
    state, heads = {}, {}
    for tick_index, tick in enumerate(script):
        change = tick.get("r", ("rows", []))
        apply = apply_bag if bag else apply_rows if change[0] == "rows" else apply_zset
        after = apply(state, change[1])
        rows = expected(op, keys, after)
        data = {"r": fed(change, width, kind)}
        place = f"tick {tick_index}, {op} by {keys}"
        if rows is None:
            with pytest.raises(NegativeWeightError, match=f"{op} of '"):
                program.step(data)
        else:
            changes = {name: zset.to_dict() for name, zset in program.step(data).items()}
            change = minus(rows, heads)
            assert changes["h"] == change, f"{place}: {changes['h']} instead of {change}"
            assert changes["g"] == change, place
            assert changes["p"] == {row[::-1]: weight for row, weight in change.items()}, place
            state, heads = after, rows
        assert program.relation("h").to_dict() == heads, place
        assert program.count("h") == len(heads)
        assert program.relation("g").to_dict() == heads, place
    return program


def scripts(seed, bag, values=None):
    """Ticks of r; in bags mostly such that no weight falls below 0, and all rows go in the end."""
    script = random_script(random.Random(seed), {"r": 3})
    if bag and seed % 3:
        changes = [tick["r"] for tick in script if tick]
        script = [{"r": (how, [(row, abs(weight)) for row, weight in rows])} for how, rows in changes]
        script += [{"r": ("zset", [(row, -weight) for row, weight in tick["r"][1]])} for tick in script]
    return translated(script, values or {})


@pytest.mark.drawn("keys", "bag", "kind", each=True)
@BAGS
@pytest.mark.parametrize("keys", [0, 1, 2])
@pytest.mark.parametrize("op", OPS)
def test_random_scripts(op, keys, bag, kind):
    for seed in range(4 if kind.on_device else 24 if IS_LONG else 3):
        check(op, keys, scripts(seed, bag), bag=bag, backend=kind.backend(seed), keep=("h", "g")[: seed % 3])


@pytest.mark.drawn("bag")
@BAGS
@pytest.mark.parametrize("op", OPS)
def test_nulls(op, bag):
    for seed in range(12):
        check(op, seed % 3, scripts(seed, bag, {0: None}), bag=bag)


@pytest.mark.drawn("bag", "kind")
@BAGS
@pytest.mark.parametrize("op", ["count", "min", "max"])
def test_texts(op, bag, kind):
    texts = dict(zip((0, 1, 2, -9, 2**40, 3), ("b", "", "größe", "a\x00", None, "B"), strict=True))
    for seed in range(12 if not kind.on_device else 3):
        check(op, seed % 3, scripts(seed, bag, texts), bag=bag, kind=pa.string(), backend=kind.backend(seed))


@pytest.mark.drawn("bag", "kind")
@BAGS
@pytest.mark.parametrize("op", OPS)
def test_floats(op, bag, kind):
    floats = dict(zip((0, 1, 2, -9, 2**40, 3), (0.1, -1e308, 1e-320, 2.5, None, 1e16), strict=True))
    for seed in range(12 if not kind.on_device else 3):
        check(op, seed % 3, scripts(seed, bag, floats), bag=bag, kind=pa.float64(), backend=kind.backend(seed))


@pytest.mark.parametrize("greatest", [False, True])
def test_extremes_that_other_batches_have_deleted(greatest, kind):
    """The first batch has all values; the others delete those at one end of them, and insert some at the other end."""
    backend = kind.backend()
    for seed in range(10):
        chance = random.Random(seed)
        values = {group: {value: chance.randint(1, 2) for value in range(100)} for group in range(4)}
        batches = [{(group, value): weight for group in values for value, weight in values[group].items()}, {}, {}, {}]
        for group, weights in values.items():
            n_deleted = chance.choice((0, 3, 4, 5, 31, 32, 33, 100))
            for value in sorted(weights, reverse=greatest)[:n_deleted]:
                chance.choice(batches[1:])[group, value] = -weights.pop(value)
            for value in chance.choice(((), (-1, 100), (200,), (-5,))):
                weights[value] = chance.choice(batches[1:])[group, value] = 1
        tries = [
            IndexedZSet.from_columns(list(np.array([*rows]).T.copy()), np.array([*rows.values()]), backend)
            for rows in batches
            if rows
        ]
        groups = [backend.asarray(np.arange(4))]
        has, best = map(backend.to_host, extreme_values(tries, groups, 4, greatest, backend, None))
        pick = max if greatest else min
        assert has.tolist() == [bool(values[group]) for group in values]
        assert [best[group] for group in values if values[group]] == [pick(each) for each in values.values() if each]
