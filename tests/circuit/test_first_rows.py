"""Heads that keep first rows, against sorting all rows after every tick."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest

import gpu_wcoj as gw
from gpu_wcoj.circuit import first_rows
from gpu_wcoj.errors import NegativeWeightError
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import FirstRows, Rules, SortKey
from gpu_wcoj.query.printer import as_datalog, deserialize, serialize
from tests.helpers.kernel_kinds import Kind

ROWS = parse("s(a, b, c) :- r(a, b), q(b, c). t(a, b, c) :- f(a, b, c).")
VALUES = [(1, 2, 3, 4, 5, 6), (None, 1, 2, -4), ("", "a", "b", "zz", "é"), (None, "y", "x")]


@dataclass(frozen=True)
class Descending:
    """A value that is compared the other way round."""

    value: Any

    def __lt__(self, other):
        return other.value < self.value


def place(row, keys):
    """What a row is sorted by."""
    found = []
    for key in (*keys, *(SortKey(column) for column in range(len(row)))):
        value = row[key.column]
        found.append((value is None) != key.nulls_first)
        found.append(0 if value is None else Descending(value) if key.is_descending else value)
    return found


def kept(rows, first):
    """The first rows of each group of a Z-set without negative weights."""
    groups = {}
    for row, weight in rows.items():
        groups.setdefault(tuple(row[column] for column in first.groups), []).append((row, weight))
    found = {}
    for members in groups.values():
        begin = 0
        for row, weight in sorted(members, key=lambda member: place(member[0], first.keys)):
            end = begin + weight
            low, high = max(begin, first.offset), min(end, first.offset + first.limit)
            if high > low:
                found[row] = high - low
            begin = end
    return found


def joined(state, bag):
    found = {}
    for (a, b), weight in state["r"].items():
        for (other, c), times in state["q"].items():
            if b == other is not None:
                found[a, b, c] = found.get((a, b, c), 0) + weight * times
    return found if bag else dict.fromkeys(found, 1)


def drawn_change(chance, held, bag, outer, inner, is_left):
    """Rows of one relation with weights, and the relation after them."""
    change = {}
    for _ in range(chance.randint(0, 6)):
        pair = chance.choice(outer), chance.choice(inner)
        row = pair if is_left else pair[::-1]
        there = held.get(row, 0)
        if there and chance.random() < 0.6:
            weight = -chance.randint(1, there)
        else:
            weight = chance.randint(1, 3) if bag else int(not there)
        change[row] = change.get(row, 0) + weight
        held[row] = there + weight
        if not held[row]:
            del held[row]
    return [(row, weight) for row, weight in change.items() if weight]


def drawn_first(chance):
    keys = tuple(SortKey(c, chance.random() < 0.5, chance.random() < 0.5) for c in chance.sample(range(3), 2))
    groups = chance.choice([(), (0,), (1,), (0, 2), (0, 1, 2)])
    return FirstRows(
        "f", "s", keys[: chance.randint(0, 2)], chance.choice([0, 1, 2, 5, 20]), chance.choice([0, 1, 3]), groups
    )


@pytest.mark.drawn("seed", "kind", each=True)
@pytest.mark.parametrize("kind", ["numba", "numpy", "shim", "cuda"])
@pytest.mark.parametrize("seed", range(24))
def test_first_rows_of_random_changes(kind, seed, monkeypatch):
    chance = random.Random(seed)
    bag = bool(seed % 2)
    monkeypatch.setattr(first_rows, "RESERVE", chance.choice([0, 1, 3]))
    first = drawn_first(chance)
    outer, inner = chance.choice(VALUES), chance.choice(VALUES)
    types = ["string" if isinstance(values[-1], str) else "int64" for values in (outer, inner)]
    program = gw.Program(
        replace(ROWS, first_rows=(first,), text=""), bag=bag, backend=Kind(kind).backend(seed),
        schema={"r": types, "q": types[::-1]},
    )  # fmt: skip
    state, found = {"r": {}, "q": {}}, {}
    for _ in range(10):
        changes = {name: drawn_change(chance, held, bag, outer, inner, name == "r") for name, held in state.items()}
        changes = {name: rows for name, rows in changes.items() if rows}
        if not changes:
            continue
        for row, weight in program.step(changes)["t"].to_dict().items():
            found[row] = found.get(row, 0) + weight
        expected = kept(joined(state, bag), first)
        assert {row: weight for row, weight in found.items() if weight} == expected
        assert program.relation("t").to_dict() == expected
        assert program.count("t") == sum(expected.values())


def program_of(limit, **options):
    rules = replace(parse("s(a) :- r(a). t(a) :- f(a)."), first_rows=(FirstRows("f", "s", (), limit),), text="")
    return gw.Program(rules, bag=True, **options)


def test_rows_behind_the_window_are_not_read(monkeypatch):
    program = program_of(10)
    program.step({"r": [(n,) for n in range(10_000)]})
    read = []
    rows_of_groups = first_rows.rows_of_groups

    def counted(batches, *rest):
        read.append(sum(map(len, batches)))
        return rows_of_groups(batches, *rest)

    monkeypatch.setattr(first_rows, "rows_of_groups", counted)
    assert program.step({"r": [((5_000,), -1), ((20_000,), 1)]})["t"].rows() == []
    assert program.step({"r": [((0,), -1), ((2,), -1)]})["t"].rows() == [
        ((0,), -1), ((2,), -1), ((10,), 1), ((11,), 1),
    ]  # fmt: skip
    assert sum(read) <= 2 * (10 + 2 * first_rows.RESERVE)
    assert max(read) < 1_000
    program.step({"r": [((n,), -1) for n in range(1, 200) if n != 2]})
    assert max(read) > 9_000
    assert program.relation("t").rows() == [((n,), 1) for n in range(200, 210)]


def test_a_row_that_does_not_fit_is_kept_in_part():
    program = program_of(5)
    assert program.step({"r": [((1,), 3), ((2,), 9)]})["t"].rows() == [((1,), 3), ((2,), 2)]
    assert program.step({"r": [((0,), 1)]})["t"].rows() == [((0,), 1), ((2,), -1)]


def test_groups_of_all_columns_are_cut_to_the_limit():
    first = FirstRows("f", "s", (), 2, 1, (0,))
    rules = replace(parse("s(a) :- r(a). t(a) :- f(a)."), first_rows=(first,), text="")
    program = gw.Program(rules, bag=True)
    assert program.step({"r": [((1,), 5), ((2,), 2), ((3,), 1)]})["t"].rows() == [((1,), 2), ((2,), 1)]
    assert program.step({"r": [((1,), -5), ((3,), 1)]})["t"].rows() == [((1,), -2), ((3,), 1)]


def test_a_negative_weight_undoes_the_tick():
    program = program_of(5)
    program.step({"r": [((1,), 3)]})
    with pytest.raises(NegativeWeightError, match=r"first rows .*the row \(1,\) has the weight -1"):
        program.step({"r": [((1,), -4), ((7,), 1)]})
    assert program.relation("t").rows() == [((1,), 3)]
    assert program.step({"r": [((2,), 1)]})["t"].rows() == [((2,), 1)]


def test_a_window_takes_part_in_a_checkpoint(tmp_path):
    program = program_of(2)
    program.step({"r": [(n,) for n in range(9)]})
    program.checkpoint(tmp_path)
    again = gw.Program.restore(tmp_path)
    for each in (program, again):
        assert each.step({"r": [((0,), -1), ((1,), -1)]})["t"].to_dict() == {(0,): -1, (1,): -1, (2,): 1, (3,): 1}


def test_rules_with_first_rows_are_stored_and_shown():
    rules = replace(ROWS, first_rows=(FirstRows("f", "s", (SortKey(1, True),), 3, 1, (0,)),), text="")
    assert deserialize(serialize(rules)) == rules
    note = "f: the first 3 rows after 1 of s of each group by column 0 by column 1 descending"
    assert f"// Datalog has no word for {note}\n" in as_datalog(rules)
    assert isinstance(rules, Rules)
    assert "first rows: reads s[0, 1, 2], and keeps 4 rows of a group" in gw.Program(rules).explain()
