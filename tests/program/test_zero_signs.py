"""The sign of a zero: kept where values are only passed on, and none where they are compared."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.checkpoint.folder import OsFolder
from gpu_wcoj.checkpoint.state import StoredState, load, store
from gpu_wcoj.datoms import Database
from gpu_wcoj.zset.zset import ZSet, weight_of
from tests.helpers.duckdb_judge import connect
from tests.helpers.kernel_kinds import needed

T = pa.table(
    {
        "x": pa.array([-0.0, 0.0, 1.0, -0.0, None, 2.5]),
        "k": [1, 2, 2, 3, 3, 1],
        "y": pa.array([0.0, -0.0, 3.0, -1.0, -0.0, None]),
    }
)
S = pa.table({"z": [-0.0, 0.0, 2.5], "k": [1, 2, 3]})


def spelled(rows: Any) -> dict[tuple[str, ...], int]:
    """Rows as Python spells their values, which tells -0.0 from 0.0, with their weights."""
    found: dict[tuple[str, ...], int] = {}
    for row, weight in rows:
        key = tuple(map(repr, row))
        found[key] = found.get(key, 0) + weight
    return found


PASSED_ON = (
    "SELECT x FROM t",
    "SELECT x, y, k FROM t",
    "SELECT x * -1.0 AS n FROM t",
    "SELECT 0.0 * x AS n, k FROM t",
    "SELECT -x AS n, x + y AS m FROM t",
    "SELECT ABS(x) AS n FROM t",
    "SELECT CAST(x AS DOUBLE) AS n FROM t",
    "SELECT 1.0 / x AS n FROM t",
    "SELECT 1.0 / (x * -1.0) AS n FROM t",
    "SELECT x, z FROM t JOIN s ON t.k = s.k",
    "SELECT x, k FROM t WHERE k > 1",
    "SELECT x FROM t UNION ALL SELECT y FROM t",
    "SELECT COALESCE(x, -0.0) AS c FROM t",
    "SELECT x, z FROM t LEFT JOIN s USING (k)",
    "SELECT k, SUM(x) AS q, AVG(x) AS a, COUNT(x) AS c FROM t GROUP BY k",
    "WITH d AS (SELECT -x AS n FROM t) SELECT n FROM d",
    "SELECT x FROM t WHERE x * -1.0 = 0.0",
    "SELECT x FROM t WHERE x * -1.0 = 0.0 OR k > 2",
    "SELECT y FROM t WHERE x * 1.0 IN (0.0, 7.0) OR k > 2",
    "SELECT CASE WHEN k > 1 OR y > 2 THEN x END AS c FROM t",
    "SELECT CASE WHEN k > 1 OR y * 2 > 2 THEN x * -1.0 ELSE -0.0 END AS c FROM t",
)
COMPARED = (
    "SELECT x, z FROM t JOIN s ON t.x = s.z",
    "SELECT DISTINCT x FROM t",
    "SELECT x, COUNT(*) AS c FROM t GROUP BY x",
    "SELECT COUNT(DISTINCT x) AS c FROM t",
    "SELECT x FROM t UNION SELECT y FROM t",
    "SELECT x FROM t EXCEPT SELECT z FROM s",
    "SELECT x FROM t INTERSECT SELECT z FROM s",
    "SELECT x FROM t WHERE x IN (SELECT z FROM s)",
    "SELECT x FROM t WHERE x NOT IN (SELECT z FROM s)",
    "SELECT x FROM t WHERE x = 0",
    "SELECT x FROM t WHERE x = -0.0",
    "SELECT x FROM t WHERE x < 0.0",
    "SELECT x FROM t WHERE x < 0.0 OR k > 4",
    "SELECT x FROM t WHERE x IN (-0.0, 2.5) OR k > 4",
    "SELECT x FROM t WHERE CASE WHEN k > 2 THEN x ELSE -0.0 END = 0.0 OR k = 1",
    "SELECT x FROM t WHERE x >= 0.0",
    "SELECT MIN(x) AS a, MAX(x) AS b FROM t WHERE x <= 0.0",
    "SELECT x FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.z = t.x)",
    "SELECT -x AS n, COUNT(*) AS c FROM t GROUP BY -x",
    "WITH d AS (SELECT -x AS n FROM t) SELECT n, z FROM d JOIN s ON n = z",
    "WITH d AS (SELECT DISTINCT -x AS n FROM t) SELECT COUNT(*) AS c FROM d",
)


@pytest.mark.parametrize("query", [*PASSED_ON, *COMPARED])
def test_sql_says_of_zeros_what_duckdb_says(query: str):
    """Of a compared column DuckDB shows either zero of those that are equal; here it is 0.0."""
    with connect() as connection:
        connection.register("t", T)
        connection.register("s", S)
        rows = connection.execute(query).fetchall()
    if query in COMPARED:
        rows = [tuple(one + 0.0 if isinstance(one, float) else one for one in row) for row in rows]
    tables = {"t": T} | ({"s": S} if " s" in query else {})
    assert spelled(gw.query(query, language="sql", **tables).rows(weights=True)) == spelled((row, 1) for row in rows)


ANSWERS: dict[str, tuple[dict[str, Any], list[tuple[Any, ...]]]] = {
    "o(x, 1.0 / x) :- t(x).": ({"t": [(-0.0,)]}, [(-0.0, -math.inf)]),
    "o(x) :- t(x).": ({"t": [(-0.0,), (0.0,)]}, [(-0.0,), (0.0,)]),
    "o(k, x) :- t(k, x), s(k).": ({"t": [(1, -0.0), (2, 0.0)], "s": [(1,), (2,)]}, [(1, -0.0), (2, 0.0)]),
    "o(x, z) :- t(x), z = x * -1.0.": ({"t": [(0.0,), (-0.0,)]}, [(-0.0, 0.0), (0.0, -0.0)]),
    "o(x, 1.0 / (x * -0.0)) :- t(x).": ({"t": [(1.0,)]}, [(1.0, -math.inf)]),
    "o(y, 1.0 / (y * 0.0), 1.0 / (y * -0.0)) :- t(y).": ({"t": [(1.0,)]}, [(1.0, math.inf, -math.inf)]),
    "o(x, -0.0, 0.0) :- t(x).": ({"t": [(1,)]}, [(1, -0.0, 0.0)]),
    "t(-0.0). t(0.0). o(x, 1.0 / x) :- t(x).": ({}, [(-0.0, -math.inf), (0.0, math.inf)]),
    # A head that drops a variable, or has two rules, takes each row once, and so compares rows.
    "o(x) :- t(x, _).": ({"t": [(-0.0, 1), (0.0, 2)]}, [(0.0,)]),
    "o(x) :- t(x). o(x) :- s(x).": ({"t": [(-0.0,)], "s": [(0.0,)]}, [(0.0,)]),
    "o(z) :- t(x), z = x * -1.0.": ({"t": [(0.0,), (-0.0,)]}, [(0.0,)]),
    "o(x) :- t(x), !s(x).": ({"t": [(-0.0,), (1.0,)], "s": [(0.0,)]}, [(1.0,)]),
    "o(x) :- t(x), x < 1.0.": ({"t": [(-0.0,), (2.0,)]}, [(0.0,)]),
    "o(k, min(x)) :- t(k, x).": ({"t": [(1, -0.0), (1, 0.0)]}, [(1, 0.0)]),
    "o(k, sum(x)) :- t(k, x).": ({"t": [(1, -0.0)]}, [(1, 0.0)]),
    "o(count()) :- t(x).": ({"t": [(-0.0,), (0.0,)]}, [(1,)]),
    "o(k, n) :- s(k), n = count : { t(k, _) }.": ({"s": [(1,)], "t": [(1, -0.0), (1, 0.0)]}, [(1, 1)]),
    "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z).": (
        {"e": [(1.0, -0.0), (0.0, 2.0)]}, [(0.0, 2.0), (1.0, 0.0), (1.0, 2.0)],
    ),
    "o(x, y) :- t(x, y), t(y, x).": ({"t": [(-0.0, 1.0), (1.0, 0.0)]}, [(0.0, 1.0), (1.0, 0.0)]),
}  # fmt: skip


@pytest.mark.parametrize("text", ANSWERS)
def test_datalog(text: str):
    tables, rows = ANSWERS[text]
    assert spelled(gw.query(text, **tables).rows(weights=True)) == spelled((row, 1) for row in rows)


def test_floats_of_four_bytes_keep_theirs():
    given = pa.table({"x": pa.array([-0.0, 0.0, 1.5], pa.float32())})
    found = gw.query("o(x) :- t(x).", t=given).to_arrow()["x"]
    assert found.type == pa.float32()
    assert np.signbit(found.to_numpy()).tolist() == [True, False, False]


@pytest.mark.parametrize("name", ["numpy", "numba", "shim"])
def test_answers_go_by_no_order_of_arrival_on_any_backend(name):
    """What is kept is told apart row by row; what is compared is one value, whichever came first."""
    rows = [(-0.0, 1), (0.0, 2), (-0.0, 2)]
    for order in [rows] if name == "shim" else itertools.permutations(rows):
        text = "kept(x, k, 1.0 / (x * -1.0)) :- t(x, k). taken(x) :- s(x, k)."
        program = gw.Program(text, backend=needed(name).backend(), keep=["kept"])
        for row in order:
            program.step({"t": [row], "s": [row]})
        assert spelled(program.relation("kept").rows()) == {
            ("-0.0", "1", "inf"): 1, ("0.0", "2", "-inf"): 1, ("-0.0", "2", "inf"): 1
        }  # fmt: skip
        assert program.step({"t": [((0.0, 1), -1)], "s": [((0.0, 1), -1)]})["kept"].rows() == []
        assert spelled(program.step({"t": [((-0.0, 1), -1)]})["kept"].rows()) == {("-0.0", "1", "inf"): -1}
        assert spelled(program.relation("taken").rows()) == {("0.0",): 1}
        assert program.step({"s": [((-0.0, 2), -1)]})["taken"].rows() == [((0.0,), -1)]


def test_a_z_set_whose_rows_are_one_where_they_are_compared_counts_by_its_net_weight():
    program = gw.Program("o(x) :- t(x), x < 1.0.")
    change = ZSet.from_rows([((-0.0,), -1), ((0.0,), 1)])
    assert len(change) == 2
    assert program.step({"t": change})["o"].rows() == []
    assert program.step({"t": ZSet.from_rows([((-0.0,), -1), ((0.0,), 2)])})["o"].rows() == [((0.0,), 1)]
    assert program.step({"t": ZSet.from_rows([((-0.0,), -2), ((0.0,), 1)])})["o"].rows() == [((0.0,), -1)]


def test_bags_add_up_what_is_compared_only():
    change = ZSet.from_rows([((-0.0,), 2), ((0.0,), 3)])
    program = gw.Program("kept(x) :- t(x). taken(x) :- s(x), x < 1.0.", bag=True)
    found = program.step({"t": change, "s": change})
    assert spelled(found["kept"].rows()) == {("-0.0",): 2, ("0.0",): 3}
    assert spelled(found["taken"].rows()) == {("0.0",): 5}


@pytest.mark.parametrize("op", ["sum", "mean", "min", "max", "count"])
def test_an_equal_row_takes_back_what_is_aggregated(op: str):
    for bag in (False, True):
        program = gw.Program(f"o(k, {op}({'' if op == 'count' else 'x'})) :- t(k, x).", bag=bag)
        program.step({"t": [(1, -0.0)]})
        program.step({"t": [((1, 0.0), -1)]})
        assert program.relation("o").rows() == []


def test_z_sets_tell_rows_apart_and_dicts_of_them_lose_no_weight():
    rows = ZSet.from_rows([((-0.0, 1), 2), ((0.0, 1), 3)])
    assert rows.to_dict() == {(0.0, 1): 5}
    assert (weight_of(rows, (0.0, 1)), weight_of(rows, (-0.0, 1)), weight_of(rows, (0, 1))) == (3, 2, 2)
    assert all(pair in rows for pair in rows.rows())
    assert spelled((rows - ZSet.from_rows([((0.0, 1), 3)])).rows()) == {("-0.0", "1"): 2}


def test_constants_are_what_they_are_spelled():
    rules = "o(a, b) :- t(x), a = x * 1.5m, b = x * 1.50m."
    found = gw.query(rules, t=pa.table({"x": pa.array([1], pa.decimal128(5, 0))})).to_arrow()
    assert [field.type.scale for field in found.schema][:2] == [1, 2]
    with pytest.raises(gw.errors.TypeMismatchError):  # and not one fact, as 1 and true are equal to Python
        gw.query("t(1). t(true). o(x) :- t(x).")


def test_entities_values_and_motifs():
    db = Database()
    db.transact([[":db/add", 1, ":size", -0.0]])
    assert spelled((row, 1) for row in db.query("[:find ?e ?v :where [?e :size ?v]]")) == {("1", "0.0"): 1}
    edges = {"src": [1], "dst": [2], "n": [-0.0]}
    assert spelled(gw.find("(a)-[e]->(b)", edges=edges, columns=["e.n"]).rows(weights=True)) == {("-0.0",): 1}
    shown = gw.find("(a)-[e]->(b)", edges=edges, columns=["e.n"], where="e.n = 0.0")
    assert spelled(shown.rows(weights=True)) == {
        ("-0.0",): 1
    }  # rows are found by what they hold, and shown as they came


def test_rows_of_motifs_go_by_the_zero_that_they_hold_but_for_ids():
    edges = {"src": [1, 1], "dst": [2, 2], "n": [-0.0, 0.0]}
    matcher = gw.Matcher("(a)-[e]->(b)", edges=edges, columns=["e.n"])
    gone = {"src": [1], "dst": [2], "n": [0.0], "weight": [-1]}
    assert spelled(matcher.apply(edges=gone).rows()) == {("0.0",): -1}
    with pytest.raises(gw.errors.SchemaError, match="cannot be deleted 1 times, it is present 0 times"):
        matcher.apply(edges=gone)
    assert spelled(matcher.matches().rows(weights=True)) == {("-0.0",): 1}
    ids = gw.Matcher("(a)-[e]->(b)", vertices={"id": [-0.0, 1.0]}, edges={"src": [0.0], "dst": [1.0]}, columns=["b.id"])
    assert ids.apply(vertices={"id": [0.0], "weight": [-1]}).rows() == [((1.0,), -1)]
    with pytest.raises(gw.errors.SchemaError, match="several rows of the id -0.0: got 2"):
        gw.find("(a)-[e]->(b)", vertices={"id": [-0.0, 0.0]}, edges={"src": [0.0], "dst": [0.0]})


def test_streams_compare_rows_and_have_one_zero():
    circuit = gw.Circuit()
    rows = circuit.source("in")
    circuit.sink("rows", rows)
    circuit.sink("mapped", rows.map(lambda x, k: (x * -1.0, k)))
    circuit.sink("distinct", rows.map(lambda x, k: (x * -1.0,)).distinct())
    found = circuit.step({"in": [(-0.0, 1), (0.0, 1), (0.0, 2)]})
    assert spelled(found["rows"].rows()) == {("0.0", "1"): 2, ("0.0", "2"): 1}
    assert spelled(found["mapped"].rows()) == {("0.0", "1"): 2, ("0.0", "2"): 1}
    assert spelled(found["distinct"].rows()) == {("0.0",): 1}


def test_a_checkpoint_brings_the_signs_back(tmp_path):
    path = tmp_path / "state"
    program = gw.Program("o(x, 1.0 / x) :- t(x).")
    program.step({"t": [(-0.0,), (2.0,)]})
    program.checkpoint(path)
    again = gw.Program.restore(path)
    assert spelled(again.relation("o").rows()) == {("-0.0", "-inf"): 1, ("2.0", "0.5"): 1}
    assert spelled(again.step({"t": [((-0.0,), -1)]})["o"].rows()) == {("-0.0", "-inf"): -1}


def test_a_state_from_before_has_one_zero_still(tmp_path):
    """It may hold 0.0 where -0.0 would be derived now, so that what is derived from it again has one zero, too."""
    text = "o(z) :- t(x), z = x * -1.0."
    before = gw.Program(text, bag=True, keep=["o"])
    before.subject.ledger.state.types.equate_zeros()
    assert spelled(before.step({"t": [(0.0,)]})["o"].rows()) == {("0.0",): 1}
    folder, numbers = OsFolder(tmp_path), itertools.count()
    written = store(before.subject, None, folder, lambda: f"run-{next(numbers):06}.parquet")
    content = written.to_json()
    assert content.pop("tells_zeros_apart") is False
    program = gw.Program(text, bag=True, keep=["o"])
    load(program.subject, StoredState.from_json(content), folder, "1")
    assert spelled(program.step({"t": [((0.0,), -1), ((1.0,), 1)]})["o"].rows()) == {("0.0",): -1, ("-1.0",): 1}
    assert spelled(program.relation("o").rows()) == {("-1.0",): 1}
    assert not store(program.subject, None, folder, lambda: f"run-{next(numbers):06}.parquet").tells_zeros_apart
    fresh = gw.Program(text, bag=True, keep=["o"])
    assert spelled(fresh.step({"t": [(0.0,)]})["o"].rows()) == {("-0.0",): 1}


NUMBERS = pa.table({"d": [1.5, 0.0, -0.0, 1.0], "k": [1, 2, 3, 4]})


@pytest.mark.parametrize(
    "values", ["1.5, 1.50", "0.0, -0.0, 0", "1, 1.0, 1e0", "0e0, -0e0, 0.00", "1.5, 15e-1, 1.500000000000000000001"]
)
def test_a_list_has_equal_numbers_once_however_they_are_spelled(values: str):
    for query in (f"SELECT k FROM t WHERE d IN ({values})", f"SELECT k FROM t WHERE d NOT IN ({values})"):
        with connect() as connection:
            connection.register("t", NUMBERS)
            rows = sorted(connection.execute(query).fetchall())
        found = gw.query(query, language="sql", t=NUMBERS)
        assert sorted(found) == rows
    edges = {"src": [1, 2, 3, 4], "dst": [0] * 4, "d": [1.5, 0.0, -0.0, 1.0]}
    shown = gw.find("(a)-[e]->()", edges=edges, where="e.d IN (0.0, -0.0, 0, 1, 1.0)", columns=["a.id"])
    assert shown.rows() == [(2,), (3,), (4,)]
