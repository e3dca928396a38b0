"""The rivals of the benchmark suite count what brute force counts, after every tick and after all are taken back."""

from __future__ import annotations

import operator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("duckdb", reason="the extra 'bench' is not installed")

from bench.rivals import dogs
from bench.suite.catalogue import WORKLOADS, Spec, made
from bench.suite.contender import MissingError, NotForThisError, Setting
from bench.suite.digest import digest
from bench.suite.harness import Limits, measured
from bench.suite.judge import Expected, state_after
from bench.suite.registry import CONTENDERS, RIVALS, factory
from bench.suite.rivals import counting
from bench.suite.suites import source_of
from bench.suite.workload import Change, Pattern, Stream

NAMES = tuple(name for names in RIVALS.values() for name in names)
QUICK = tuple(name for name in NAMES if name != "spark")
SIZES = {
    "rmat": {"scale": 4, "edges": 60},
    "zipf": {"rows": 60},
    "keys": {"orders": 60},
    "hub": {"scale": 4},
    "arriving": {"scale": 5, "edges": 60, "degree": 0, "nodes": 12},
}
PATTERNS = tuple(name for name, workload in WORKLOADS.items() if workload.pattern is not None)
COUNTED_BY_MATRICES = {
    "triangle", "cycle4", "diamond", "bowtie", "barbell", "path3", "path4", "path5", "star3", "star4", "star5",
    "hub", "second-hub", "arriving",
}  # fmt: skip
TRIANGLES = {"triangle", "hub", "second-hub", "arriving"}
WIDE = {"snowflake", "tpch-chain", "tpch-lines", "tpch-all", "tpch-local"}
SHORT = {"triangle", "cycle4", "diamond", "path3", "star3", "snowflake", "tpch-local", "arriving"}
ONLY_LONG = pytest.mark.long  # minutes in all
MISFITS = {
    "kept": set(),
    "duckdb": set(),
    "duckdb-delta": set(),
    "ladybug": WIDE,
    "graphblas": set(PATTERNS) - COUNTED_BY_MATRICES,
    "graphblas-delta": set(PATTERNS) - COUNTED_BY_MATRICES | {"cycle4", "diamond", "bowtie"},
    "spark": set(),
    "dogs3-wcoj": set(PATTERNS) - TRIANGLES,
    "dogs3-delta": set(PATTERNS) - TRIANGLES,
}
"""Which patterns a contender cannot answer, by what it is."""


def brute(pattern, state):
    """All rows of the answer: atom by atom, every row of its relation against every row so far."""
    found = [{}]
    for relation, variables in pattern.atoms:
        rows = [dict(zip(variables, row, strict=True)) for row in state[relation].tolist()]
        found = [
            one | row for one in found for row in rows if all(one.get(name, row[name]) == row[name] for name in row)
        ]
        for left, sign, right in pattern.comparisons:
            holds = operator.lt if sign == "<" else operator.ne
            found = [one for one in found if not {left, right} <= set(one) or holds(one[left], one[right])]
    return np.array([[one[name] for name in pattern.variables] for one in found], np.int64).reshape(
        len(found), len(pattern.variables)
    )


def case_of(name, order="generated"):
    return made(Spec(name, source_of(name), SIZES[source_of(name)], 4, "mixed", 2), order)


@pytest.fixture(scope="module")
def expected():
    """Per workload and order, the case and all rows of its answer before the first tick and after each."""
    found = {}

    def of(name, order="generated"):
        if (name, order) not in found:
            case = case_of(name, order)
            states = [state_after(Stream(case.stream.state, case.stream.ticks[:n])) for n in range(3)]
            found[name, order] = case, [brute(case.workload.pattern, state) for state in states]
        return found[name, order]

    return of


def contender_of(name, workload, folder, how="count"):
    try:
        return factory(name)(Setting(workload, how, 1, folder))
    except MissingError as error:
        pytest.skip(str(error))


def follow(contender, case, answers):
    """Feed all ticks, and take them back."""
    counts = [len(rows) for rows in answers[: len(case.stream.ticks) + 1]]
    contender.load(case.stream.state)
    assert contender.count() == counts[0]
    for tick, (before, after) in zip(case.stream.ticks, pairwise(counts), strict=True):
        assert contender.tick(contender.prepare(tick)).net == after - before
        assert contender.count() == after
    if (rows := contender.digest()) is not None:
        assert rows == digest(answers[len(case.stream.ticks)])
    undone = [{name: change.undone() for name, change in tick.items()} for tick in reversed(case.stream.ticks)]
    for tick, (before, after) in zip(undone, pairwise(reversed(counts)), strict=True):
        assert contender.tick(contender.prepare(tick)).net == after - before
    assert contender.count() == counts[0]


@pytest.mark.drawn("name", "workload", each=True)
@pytest.mark.parametrize(
    "workload", [name if name in SHORT else pytest.param(name, marks=ONLY_LONG) for name in PATTERNS]
)
@pytest.mark.parametrize("name", QUICK)
def test_counts_are_those_of_brute_force(name, workload, expected, tmp_path):
    case, answers = expected(workload)
    if workload in MISFITS[name]:
        with pytest.raises((NotForThisError, MissingError)):
            factory(name)(Setting(case.workload, "count", 1, tmp_path))
        return
    assert any(map(len, answers))
    contender = contender_of(name, case.workload, tmp_path)
    try:
        follow(contender, case, answers)
    finally:
        contender.close()


@pytest.mark.drawn("workload")
@pytest.mark.parametrize("name", ["ladybug", "duckdb-delta", "graphblas", "kept"])
@pytest.mark.parametrize("workload", ["triangle", "diamond"])
def test_counts_are_the_same_with_vertices_by_degree(name, workload, expected, tmp_path):
    case, answers = expected(workload, "degree")
    contender = contender_of(name, case.workload, tmp_path)
    assert contender.about.depends_on_order
    follow(contender, case, answers)
    contender.close()


@pytest.mark.drawn("workload")
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("workload", ["triangle", "star3"])
def test_rows_are_made_or_refused(name, workload, expected, tmp_path):
    case, answers = expected(workload)
    try:
        contender = contender_of(name, case.workload, tmp_path, "rows")
    except NotForThisError:
        assert name not in ("kept", "duckdb-delta")
        return
    follow(contender, case, answers)
    contender.close()


@ONLY_LONG
@pytest.mark.parametrize("workload", ["triangle", "tpch-local"])
def test_spark_counts_what_brute_force_does(workload, expected):
    """In a process of its own, as in the suite: its gateway's sockets close with it."""
    case, answers = expected(workload)
    counts = [len(rows) for rows in answers]
    wanted = Expected(
        counts[0], counts[-1], tuple(after - before for before, after in pairwise(counts)), None, ("brute",)
    )
    limits = Limits(limit=120, budget=0, rounds=0)
    (run,), _ = measured(case, case, ["spark"], limits, lambda: wanted, lambda text: None)
    if run.missing:
        pytest.skip(run.stopped)
    assert run.stopped is None
    assert run.check.is_right, run.check.message
    assert tuple(run.first["changes"]) == wanted.changes


def test_spark_caches_anew_what_has_changed_too_much(tmp_path):
    """What has come and gone since, on rows alone."""
    spark_sql = pytest.importorskip("bench.suite.rivals.spark_sql", reason="the extra 'spark' is not installed")
    rows = np.arange(20).reshape(10, 2)
    none = rows[:0]
    relation = spark_sql.Relation(None, 5, none, none)
    relation = relation.after(Change(rows[5:7], rows[:2]))
    relation = relation.after(Change(rows[1:2], rows[5:6]))
    assert relation.inserted.tolist() == rows[6:7].tolist()
    assert relation.deleted.tolist() == rows[:1].tolist()


def test_all_rivals_are_registered():
    assert set(NAMES) <= set(CONTENDERS)
    assert set(MISFITS) == set(NAMES)


def test_what_is_not_installed_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ladybug", None)
    monkeypatch.delitem(__import__("sys").modules, "bench.suite.rivals.ladybug_db", raising=False)
    with pytest.raises(
        MissingError, match=r"ladybug needs a library that is not installed .*ladybug.*gpu_wcoj\[bench\]"
    ):
        factory("ladybug")


def test_ladybug_takes_many_rounds(expected, tmp_path):
    """A write that ran again by the same text crashed it in the third round."""
    case, answers = expected("triangle")
    contender = contender_of("ladybug", case.workload, tmp_path)
    contender.load(case.stream.state)
    for _ in range(6):
        for tick in case.stream.ticks:
            contender.tick(contender.prepare(tick))
        assert contender.count() == len(answers[2])
        for tick in reversed(case.stream.ticks):
            contender.tick(contender.prepare({name: change.undone() for name, change in tick.items()}))
        assert contender.count() == len(answers[0])
    contender.close()


def test_dogs3_that_is_not_built_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(dogs, "TARGET", tmp_path)
    case = case_of("triangle")
    with pytest.raises(MissingError, match="is not built: make bench-rivals builds it"):
        factory("dogs3-wcoj")(Setting(case.workload, "count", 1, tmp_path))


def test_dogs3_refuses_numbers_that_it_has_no_room_for(tmp_path):
    case = case_of("triangle")
    contender = contender_of("dogs3-wcoj", case.workload, tmp_path)
    with pytest.raises(NotForThisError, match="numbers from 0 to 4294967295"):
        contender.load({"e": np.array([[1, 2**32]])})
    contender.close()


RELATIONS = {"r": 2, "s": 2, "t": 3}


@pytest.mark.drawn("seed", share=2)
@pytest.mark.parametrize("seed", range(12))
def test_counts_without_listing_are_right(seed):
    """Patterns by chance, weights by chance: the sum of products is that of the join with nothing grouped."""
    import duckdb

    random = np.random.default_rng(seed)
    names = list("abcdef")[: int(random.integers(2, 6))]
    atoms = []
    for _ in range(int(random.integers(1, 6))):
        relation = str(random.choice([name for name, width in RELATIONS.items() if width <= len(names)]))
        atoms.append((relation, tuple(map(str, random.choice(names, RELATIONS[relation], replace=False)))))
    there = sorted({name for _, variables in atoms for name in variables})
    pairs = [tuple(map(str, random.choice(there, 2, replace=False))) for _ in range(int(random.integers(0, 3)))]
    pattern = Pattern(tuple(atoms), tuple((one, str(random.choice(["<", "!=", "<="])), two) for one, two in pairs))
    tables = [f"{relation}{i % 2}" for i, (relation, _) in enumerate(atoms)]
    with duckdb.connect() as connection:
        for relation, width in RELATIONS.items():
            for copy in "01":
                columns = ", ".join(f"c{i} BIGINT" for i in range(width))
                connection.execute(f"CREATE TABLE {relation}{copy} ({columns}, w BIGINT)")
                rows = np.unique(random.integers(0, 4, (12, width)), axis=0)
                weighted = np.column_stack([rows, random.choice([-1, 1, 2], len(rows))])
                values = ", ".join(str(tuple(row)) for row in weighted.tolist())
                connection.execute(f"INSERT INTO {relation}{copy} VALUES {values}")
        for weighted in ((), tuple(range(0, len(atoms), 2))):
            product = " * ".join(["1", *(f"t{i}.w" for i in weighted)])
            wanted = connection.execute(pattern.sql(tuple(tables), f"sum({product})")).fetchall()[0][0] or 0
            for root in (None, *range(len(atoms))):
                text = counting.counting(pattern, tables, weighted, root)
                assert (connection.execute(text).fetchall()[0][0] or 0) == wanted, text


def test_no_file_is_left_behind(tmp_path, expected):
    case, answers = expected("triangle")
    for name in QUICK:
        if case.workload.name not in MISFITS[name]:
            contender = contender_of(name, case.workload, tmp_path)
            follow(contender, case, answers)
            contender.close()
    assert list(Path(tmp_path).iterdir()) == []
