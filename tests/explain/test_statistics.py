"""Statistics of arrangements equal counts of the rows of each relation after every tick."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.explain.build import POSITIVE, ArrangementStatistics, LevelStatistics
from tests.helpers.explained_programs import PROGRAMS, changes_of, text_of
from tests.planner.test_statistics import HEAVIEST


def counted(rows: list[tuple], depth: int) -> tuple[int, tuple[int, ...], list[tuple[tuple, int]]]:
    """Prefixes, histogram and degrees of a level of distinct rows."""
    degrees = Counter(row[:depth] for row in {row[: depth + 1] for row in rows})
    buckets = Counter(n.bit_length() - 1 for n in degrees.values())
    return len(degrees), tuple(buckets[i] for i in range(max(buckets, default=-1) + 1)), degrees.most_common()


def check(one: ArrangementStatistics, rows: list[tuple]) -> None:
    """`rows` have their columns in the order of the arrangement's levels."""
    assert one.rows == len(set(rows))
    assert (one.levels[-1].histogram, one.levels[-1].heaviest) == ((), ())
    for depth, level in enumerate(one.levels[:-1], 1):
        prefixes, histogram, degrees = counted(rows, depth)
        assert (level.prefixes, level.histogram) == (prefixes, histogram)
        assert [n for _, n in level.heaviest] == [n for _, n in degrees[:HEAVIEST]]
        assert set(level.heaviest) <= set(degrees)


def test_those_of_the_rows_after_insertions_and_deletions(kind):
    chance = random.Random(3)
    names = ["Ada", "Bo", "Cy", "Dee", "Eve", *(f"n{i}" for i in range(40))]
    program = gw.Program('h(a, b, c) :- e(a, b), e(b, c), f(c, a), e(a, "Bo").', backend=kind.backend())
    assert program.statistics() == ()
    state: dict[str, set[tuple]] = {"e": set(), "f": set()}
    for tick in range(6):
        changes = {}
        for name, relation_rows in state.items():
            gone = set(
                chance.sample(sorted(relation_rows), len(relation_rows) // 2 if tick % 2 else 3 if relation_rows else 0)
            )
            come = {(chance.choice(names), chance.choice(names[: 5 + tick])) for _ in range(60)} - relation_rows
            changes[name] = [(row, -1) for row in sorted(gone)] + [(row, 1) for row in sorted(come)]
            state[name] = relation_rows - gone | come
        program.step(changes)
        statistics = program.statistics()
        assert {arrangement.relation for arrangement in statistics} == {"e", "f"}
        assert sum("c1 = code " in arrangement.name for arrangement in statistics) == 1
        for statistic in statistics:
            rows = [row for row in state[statistic.relation] if row[1] == "Bo" or "|" not in statistic.name]
            order = [int(level.column[1:]) for level in statistic.levels]
            rows = [tuple(row[column] for column in order) for row in rows]
            check(statistic, rows)
    program.step({name: [(row, -1) for row in rows] for name, rows in state.items()})
    for statistic in program.statistics():
        assert {level.prefixes for level in statistic.levels} == {statistic.rows} == {0}
        assert statistic.levels[0] == LevelStatistics(statistic.levels[0].column, 0)


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_that_explain_lists_is_there(name, bag):
    program = gw.Program(text_of(name), bag=bag)
    for seed in range(2):
        program.step({key: [(row, 1) for row, _ in rows] for key, rows in changes_of(name, seed, 40).items()})
    statistics = program.statistics()
    by_name = {arrangement.name: arrangement for arrangement in statistics if not arrangement.name.endswith(POSITIVE)}
    assert len({arrangement.name for arrangement in statistics}) == len(statistics)
    listed = {
        line.strip().partition("   ")[0] for line in program.explain().partition("\narrangements\n")[2].splitlines()
    }
    assert listed
    assert listed <= {arrangement.name.removesuffix(POSITIVE) for arrangement in statistics}
    for entry in by_name.values():
        assert [level.column for level in entry.levels] == entry.name.partition("[")[2].rstrip("]").split(" | ")[
            0
        ].split(", ")
        if "|" in entry.name or entry.relation not in program.inputs:
            continue
        rows = list(program.relation(entry.relation).to_dict())
        order = [int(level.column[1:]) for level in entry.levels]
        check(entry, [tuple(row[column] for column in order) for row in rows])


def test_nulls_and_types():
    """A deeper null-flag level merges null with 0; a prefix with that level separates them."""
    program = gw.Program(".decl e(a: int64, b: date32) h(x, y?, z) :- e(x, y?), f(y?, z).")
    day = np.datetime64("2024-02-29").item()
    program.step({"e": [(1, None), (0, day), (None, day), (None, None)], "f": [(day, True), (None, False)]})
    by_name = {arrangement.name: arrangement for arrangement in program.statistics()}
    e = next(
        arrangement for arrangement in by_name.values() if arrangement.relation == "e" and "|" not in arrangement.name
    )
    assert sorted(level.column for level in e.levels) == ["a", "a is null", "b", "b is null"]
    rows = {(1, None), (0, day), (None, day), (None, None)}
    assert e.rows == len(rows)
    final = e.levels[-2]
    values = [
        {level.column: value for level, value in zip(e.levels, prefix, strict=False)} for prefix, _ in final.heaviest
    ]
    columns = [column for column in ("a", "b") if f"{column} is null" != e.levels[-1].column]
    for name in columns:
        position = "ab".index(name)
        assert {value[name] for value in values} == {row[position] for row in rows}
        assert all((value[name] is None) is value[f"{name} is null"] for value in values)
    first = {prefix[0] for prefix, _ in e.levels[0].heaviest}
    assert first == ({1, None} if e.levels[0].column == "a" else {day, None})


def test_ranks_and_relations_that_are_kept_for_the_rules():
    closure = gw.Program(text_of("closure"))
    closure.step({"edge": [(1, 2), (2, 3), (3, 4)]})
    (reach,) = (arrangement for arrangement in closure.statistics() if arrangement.name == "reach[0, 1, rank]")
    assert (reach.rows, reach.levels[0].heaviest) == (6, (((1,), 3), ((2,), 2), ((3,), 1)))
    assert reach.levels[1].heaviest[0] == ((1, 2), 1)
    random = np.random.default_rng(1)
    program = gw.Program("h(a) :- knows(a, b), lives(a, c), lives(b, d), city(c, e), city(d, e).", bag=True)
    lives = [(f"p{i}", int(c)) for i, c in enumerate(random.integers(0, 100, 300))]
    city = [(i, f"country {i % 5}") for i in range(100)]
    knows = [(f"p{a}", f"p{b}") for a, b in random.integers(0, 300, (5000, 2))]
    program.step({"knows": knows, "lives": lives, "city": city})
    auxiliaries = [arrangement for arrangement in program.statistics() if "*" in arrangement.relation]
    assert len(auxiliaries) == 2
    country = dict(city)
    pairs = [(country[c], person) for person, c in lives]
    for auxiliary in auxiliaries:
        is_forth = "country" in str(auxiliary.levels[0].heaviest)
        check(auxiliary, pairs if is_forth else [pair[::-1] for pair in pairs])


def test_sides_of_one_relation_that_is_joined_with_itself_are_told_apart():
    program = gw.Program("h(x?) :- c(v, x?), c(v, y?), c(w, y?), c(w, z?), near(x?, z?, _).", bag=True)
    values = {key: None if key % 3 == 0 else key % 7 for key in range(60)}
    near = [(None if i % 11 == 0 else i % 7, None if i % 13 == 0 else i // 7 % 7, i) for i in range(2000)]
    program.step_counts({"c": list(values.items()), "near": near})
    auxiliaries = [arrangement for arrangement in program.statistics() if "*" in arrangement.relation]
    sides = ["c1", "c1 is null", "c1'", "c1' is null"]
    orders = {tuple(level.column for level in arrangement.levels) for arrangement in auxiliaries}
    assert orders == {tuple(sides), tuple(sides[2:] + sides[:2])}
    said = program.explain().partition("\narrangements\n")[2]
    for auxiliary in auxiliaries:
        assert auxiliary.name in said
        first = {(None, True) if value is None else (value, False) for value in values.values()}
        assert {prefix for prefix, _ in auxiliary.levels[1].heaviest} == first
        # Nothing says yet whether the second side is null, whatever was said of the first one.
        third = {prefix for prefix, _ in auxiliary.levels[2].heaviest}
        assert {prefix[2] for prefix in third if prefix[:2] == (0, False)} == {None}


def test_what_others_read_of_a_recursion_has_its_rank():
    text = "reach(a, b) :- edge(a, b). reach(a, c) :- reach(a, b), edge(b, c). two(a, c) :- reach(a, b), reach(b, c)."
    program = gw.Program(text)
    program.step({"edge": [(1, 2), (2, 3), (3, 4)]})
    names = {arrangement.name for arrangement in program.statistics() if arrangement.relation == "reach"}
    assert "reach[1, 0]" in program.explain()
    assert all(name.endswith(", rank]") for name in names)
    assert {"reach[0, 1, rank]", "reach[1, 0, rank]"} <= names


def test_times_that_python_cannot_hold_are_said():
    program = gw.Program("h(x, y) :- e(x, y), e(y, x).")
    times = np.array(["2024-01-01T00:00:00.000000001", "2024-01-02"], "datetime64[ns]")
    program.step({"e": pa.table({"x": times, "y": times[::-1]})})
    with pytest.raises(gw.errors.UnsupportedTypeError):
        program.statistics()


def test_not_within_a_tick():
    program = gw.Program("h(x, z) :- e(x, y), e(y, z).")
    with pytest.raises(gw.errors.UsageError, match="looking at the state"):
        program.step_pieces({"e": [(1, 2), (2, 3)]}, lambda *_: program.statistics())
