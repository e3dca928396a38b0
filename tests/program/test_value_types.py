"""Types that need more than an int64 number: random ticks against plain Python, in every container."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import CalculationError, SchemaError, TypeMismatchError, UnsupportedTypeError

duckdb = pytest.importorskip("duckdb")

SIZES = ["low", "mid", "high", "unused"]
KINDS: dict[str, tuple[Any, list[Any]]] = {
    "time": (pa.time64("us"), [dt.time(), dt.time(9, 30), dt.time(23, 59, 59, 999999)]),
    "duration": (pa.duration("us"), [dt.timedelta(-3, 5), dt.timedelta(), dt.timedelta(400, 1, 2)]),
    "interval": (pa.month_day_nano_interval(), [dt.timedelta(-1), dt.timedelta(0, 7), dt.timedelta(400)]),
    "uint64": (pa.uint64(), [0, 7, 2**63 - 1, 2**63, 2**64 - 1]),
    "decimal": (
        pa.decimal128(38, 18),
        [Decimal("-0.5"), Decimal(0), Decimal("1.5"), Decimal(10**19) + Decimal("1E-18")],
    ),
    "uuid": (pa.uuid(), [uuid.UUID(int=1), uuid.UUID(int=2**127), uuid.UUID(int=2**128 - 1)]),
    "bytes": (pa.binary(2), [b"\0\0", b"\0a", b"\xff\xff"]),
    "enum": (pa.dictionary(pa.int8(), pa.string(), ordered=True), SIZES[:3]),
    "list": (pa.list_(pa.int64()), [[], [None], [1, 2], [2]]),
    "struct": (
        pa.struct({"a": pa.string(), "b": pa.list_(pa.float64())}),
        [{"a": None, "b": [0.5]}, {"a": "", "b": None}],
    ),
}
NESTED = ("list", "struct")
TEXT = """
CREATE VIEW shown AS SELECT k, d FROM r;
CREATE VIEW counted AS SELECT d, COUNT(*) AS n FROM r GROUP BY d;
CREATE VIEW joined AS SELECT a.k AS x, b.k AS y FROM r a, r b WHERE a.d = b.d;
"""
ORDERED = """
CREATE VIEW less AS SELECT a.k AS x, b.k AS y FROM r a, r b WHERE a.d < b.d;
CREATE VIEW extremes AS SELECT k, MIN(d) AS low, MAX(d) AS high FROM r GROUP BY k;
CREATE VIEW first AS SELECT d, k FROM r WHERE d IS NOT NULL ORDER BY d DESC, k LIMIT 3;
"""
RULES = """
shown(k, d?) :- r(k, d?).
joined(x, y) :- r(x, d), r(y, d).
only(d) :- r(_, d), !s(d).
s(d) :- r(0, d).
"""


def frozen(value: Any) -> Any:
    """A value that can be a key."""
    if isinstance(value, (list, dict)):
        items = value.items() if isinstance(value, dict) else value
        return (type(value).__name__, *map(frozen, items))
    return tuple(map(frozen, value)) if isinstance(value, tuple) else value


def array_of(name: str, values: Sequence[Any]) -> pa.Array:
    kind = KINDS[name][0]
    if name == "enum":
        places = [None if value is None else SIZES.index(value) for value in values]
        return pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), pa.array(SIZES), ordered=True)
    if name == "interval":
        spans = [None if value is None else (0, value.days, value.seconds * 10**9) for value in values]
        return pa.array(spans, kind)
    return pa.array(values, kind)


def arrow(name: str, rows: Sequence[Any]) -> pa.Table:
    return pa.table({"k": pa.array([k for k, _ in rows], pa.int64()), "d": array_of(name, [d for _, d in rows])})


def python_rows(name: str, rows: Sequence[Any]) -> Any:
    return list(rows) if name not in ("enum", "bytes", "decimal", "interval") else arrow(name, rows)


def dicts(name: str, rows: Sequence[Any]) -> Any:
    known = name not in ("enum", "bytes", "decimal", "interval")
    return [{"d": d, "k": k} for k, d in rows] if known else arrow(name, rows).select(["d", "k"])


def pandas(name: str, rows: Sequence[Any]) -> Any:
    table = arrow(name, rows)
    if name in ("uint64", "decimal", "bytes", "interval", *NESTED):
        return table.to_pandas(types_mapper=pd.ArrowDtype)
    return table.to_pandas()


def polars(name: str, rows: Sequence[Any]) -> Any:
    if name in ("interval", "uuid", "bytes"):
        return arrow(name, rows).to_reader()
    frame = pl.from_arrow(arrow(name, rows))
    return frame.cast({"d": pl.Enum(SIZES)}) if name == "enum" else frame  # type: ignore[union-attr,arg-type]


def lazy(name: str, rows: Sequence[Any]) -> Any:
    frame = polars(name, rows)
    return frame.lazy().select("d", "k") if isinstance(frame, pl.DataFrame) else frame


def numpy(name: str, rows: Sequence[Any]) -> Any:
    if name == "duration":
        return {"k": np.array([k for k, _ in rows]), "d": np.array([d for _, d in rows], "m8[us]")}
    return {"k": np.array([k for k, _ in rows], np.int16), "d": arrow(name, rows)["d"].combine_chunks()}


def duck(name: str, rows: Sequence[Any]) -> Any:
    if name in ("enum", "uuid", "bytes"):  # which come out of it as other types
        return arrow(name, rows)
    table = arrow(name, rows)
    return duckdb.connect().from_arrow(table).select("k", "d")


CONTAINERS: list[Callable[[str, Sequence[Any]], Any]] = [arrow, python_rows, dicts, pandas, polars, lazy, numpy, duck]


def order_key(name: str, value: Any) -> Any:
    return SIZES.index(value) if name == "enum" else value


def expected(name: str, there: Counter[Any], values: dict[Any, Any]) -> dict[str, Counter[Any]]:
    """The answers of the views, by plain Python; values are given by what can be their key."""
    rows = [(k, d, n) for (k, d), n in there.items()]
    answers: dict[str, Counter[Any]] = {"shown": Counter(there), "counted": Counter(), "joined": Counter()}
    by_value: Counter[Any] = Counter()
    for _, d, n in rows:
        by_value[d] += n
    answers["counted"].update(dict.fromkeys(by_value.items(), 1))
    for k, d, n in rows:
        for j, e, m in rows:
            if d is not None and d == e:
                answers["joined"][k, j] += n * m
    if name in NESTED:
        return answers
    key = {d: order_key(name, values[d]) for _, d, _ in rows if d is not None}
    answers |= {"less": Counter(), "extremes": Counter(), "first": Counter()}
    for k, d, n in rows:
        for j, e, m in rows:
            if d is not None and e is not None and key[d] < key[e]:
                answers["less"][k, j] += n * m
    for k in {k for k, _, _ in rows}:
        of_group = sorted((d for j, d, _ in rows if j == k and d is not None), key=key.__getitem__)
        answers["extremes"][k, of_group[0] if of_group else None, of_group[-1] if of_group else None] = 1
    in_order = [(d, k) for k, d, n in rows if d is not None for _ in range(n)]
    in_order.sort(key=lambda row: row[1])
    in_order.sort(key=lambda row: key[row[0]], reverse=True)
    answers["first"] = Counter(in_order[:3])
    return answers


def counted(zset: Any) -> Counter[Any]:
    return Counter({frozen(row): weight for row, weight in zset.rows()})


def ticks(name: str, seed: int) -> Any:
    """Yield rows, their weight, 1 or -1, and the rows there are then; few values at first."""
    rng = random.Random(f"{name} {seed}")
    pool, there = [*KINDS[name][1], None], Counter[Any]()
    for tick in range(6):
        small = pool[: 2 if tick < 2 else len(pool)]
        inserted = [(rng.randrange(4), rng.choice(small)) for _ in range(rng.randint(1, 6))]
        there.update((k, frozen(d)) for k, d in inserted)
        yield rng, inserted, 1, there
        present = [row for row, n in there.items() for _ in range(n)]
        deleted = rng.sample(present, min(len(present), rng.randint(0, 4)))
        there = there - Counter(deleted)
        yield rng, [(k, next(value for value in pool if frozen(value) == d)) for k, d in deleted], -1, there


def weighted(name: str, rows: Sequence[Any], weight: int) -> pa.Table:
    return arrow(name, rows).append_column("weight", pa.array([weight] * len(rows), pa.int64()))


@pytest.mark.drawn("seed")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", KINDS)
def test_every_tick_is_what_plain_python_says(name, seed):
    print(f"seed {seed}")
    text = TEXT + ("" if name in NESTED else ORDERED)
    values = {frozen(value): value for value in KINDS[name][1]}
    outputs = [line.split()[2] for line in text.split("\n") if line]
    first = arrow(name, [(0, KINDS[name][1][0])])
    view = gw.view(text, r=first.slice(0, 0), outputs=outputs)
    before: dict[str, Counter[Any]] = {output: Counter() for output in outputs}
    for rng, rows, weight, there in ticks(name, seed):
        change = rng.choice(CONTAINERS)(name, rows) if weight == 1 else weighted(name, rows, -1)
        changes = view.apply(r=change)
        after = expected(name, there, values)
        for output in outputs:
            wanted = Counter(after[output])
            wanted.subtract(before[output])
            assert counted(changes[output]) == Counter({row: n for row, n in wanted.items() if n}), output
            assert counted(view.program.relation(output)) == after[output], output
        before = after


@pytest.mark.parametrize("name", KINDS)
def test_rules_over_sets(name):
    program = gw.Program(RULES, outputs=["shown", "joined", "only"], keep=["joined"], inputs=["r"])
    for _, change, weight, _ in ticks(name, 9):
        program.load({"r": weighted(name, change, weight)})
        rows = set(counted(program.relation("r")))
        assert set(counted(program.relation("shown"))) == rows
        assert set(counted(program.relation("joined"))) == {
            (k, j) for k, d in rows for j, e in rows if d is not None and d == e
        }
        of_zero = {d for k, d in rows if k == 0}
        assert set(counted(program.relation("only"))) == {(d,) for _, d in rows if d is not None and d not in of_zero}


@pytest.mark.parametrize("name", KINDS)
def test_what_comes_out_is_what_went_in(name, tmp_path):
    rows = [(i, value) for i, value in enumerate([*KINDS[name][1], None])]
    table = arrow(name, rows)
    result = gw.query("SELECT k, d FROM r", r=table)
    out = result.to_arrow()
    assert out.schema.types == table.schema.types
    assert out.to_pylist() == table.to_pylist()
    if name == "enum":
        assert out["d"].chunk(0).dictionary.to_pylist() == SIZES
    assert [value for _, value in result.rows()] == [value for _, value in rows]
    assert len(result.to_pandas()) == len(result.to_polars()) == len(rows)
    assert str(result).count("\n") == len(rows) + 5
    assert len(result.to_numpy()["d"]) == len(rows)
    assert repr(result.to_zset().columns[1]).startswith("Column(")
    program = gw.Program("h(k, d?) :- r(k, d?).")
    program.load({"r": table})
    program.checkpoint(tmp_path / "state")
    again = gw.Program.restore(tmp_path / "state")
    assert again.relation("h").to_arrow().to_pylist() == program.relation("h").to_arrow().to_pylist()
    more = again.step({"r": arrow(name, [(77, KINDS[name][1][-1])])})["h"]
    assert counted(more) == {frozen((77, KINDS[name][1][-1])): 1}


CONSTANTS: dict[str, tuple[str, list[Any]]] = {
    "time": ("'09:30'", [dt.time(), dt.time(9, 30)]),
    "duration": ("'1 day 00:00:01'", [dt.timedelta(-3, 5), dt.timedelta()]),
    "interval": ("'00:00:07'", [dt.timedelta(-1), dt.timedelta(0, 7)]),
    "uint64": ("8", [0, 7]),
    "decimal": ("1.5", [Decimal("-0.5"), Decimal(0), Decimal("1.5")]),
    "uuid": ("'80000000-0000-0000-0000-000000000000'", [uuid.UUID(int=1), uuid.UUID(int=2**127)]),
    "enum": ("'mid'", ["low", "mid"]),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_of_a_text(name):
    constant, below = CONSTANTS[name]
    table = arrow(name, list(enumerate([*KINDS[name][1], None])))
    found = gw.query(f"SELECT d FROM r WHERE d <= {constant} ORDER BY d", r=table)
    assert [value for (value,) in found.rows()] == below
    is_there = gw.query(f"SELECT d FROM r WHERE d = {constant}", r=table).rows()
    assert is_there == ([(below[-1],)] if name not in ("duration", "uint64") else [])
    either = gw.query(f"SELECT d FROM r WHERE d > {constant} OR k = 0", r=table)
    wanted = [value for i, value in enumerate(KINDS[name][1]) if i == 0 or value not in below]
    assert {value for (value,) in either.rows()} == {*wanted}
    datalog = constant.replace("'", '"')
    assert len(gw.query(f"h(d) :- r(_, d), d <= {datalog}.", r=table)) == len(below)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("list", "SELECT k FROM r ORDER BY d LIMIT 1", "of type 'list<item: int64>', and a rule orders or compares"),
        ("list", "SELECT MAX(d) FROM r", "of type 'list<item: int64>', and a rule orders or compares"),
        ("struct", "SELECT a.k FROM r a, r b WHERE a.d < b.d", "relation 'r', column 1 is of type 'struct<a"),
        ("struct", "SELECT a.k FROM r a, r b WHERE b.d < a.d", "relation 'r', column 1 is of type 'struct<a"),
        ("time", "SELECT SUM(d) FROM r", "SUM needs numbers: got type 'time'"),
        ("uuid", "SELECT k FROM r WHERE d = 'x'", "the constant 'x' is not a value of type"),
        (
            "enum",
            "SELECT k FROM r WHERE d < 'huge'",
            "the constant 'huge' is not a category of its column: expected one",
        ),
        ("duration", "SELECT k FROM r WHERE d < 'soon'", "the constant 'soon' is not a duration.\n  Write days"),
        ("time", "SELECT k FROM r WHERE d < '25:00'", "the constant '25:00' is not a value of type 'time64"),
    ],
)
def test_what_has_no_meaning_is_refused(name, text, says):
    with pytest.raises(TypeMismatchError, match=says):
        gw.view(text, r=arrow(name, list(enumerate(KINDS[name][1]))))


def test_numbers_become_wide_when_the_first_wide_one_comes():
    view = gw.view("SELECT h, COUNT(*) AS n FROM r GROUP BY h", r=pa.table({"h": pa.array([5], pa.uint64())}))
    assert view.apply(r=[(2**64 - 1,), (5,)]).to_dict() == {(5, 1): -1, (5, 2): 1, (2**64 - 1, 1): 1}
    change = pa.table({"h": pa.array([5, 6], pa.uint8()), "weight": [-2, 1]})
    assert view.apply(r=change).to_dict() == {(5, 2): -1, (6, 1): 1}
    assert view.snapshot().to_arrow().schema.types[0] == pa.uint64()
    sums = gw.view("SELECT SUM(d) AS s FROM r", r={"d": [Decimal("1.5")]})
    with pytest.raises(TypeMismatchError, match="some of more than 18 digits"):
        sums.apply(r=[(Decimal(10**20),)])
    assert sums.apply(r=[(Decimal("2.25"),)]).rows() == [((Decimal("1.50"),), -1), ((Decimal("3.75"),), 1)]


def test_declared_decimals_take_wider_ones_that_they_hold():
    wide = pa.array([Decimal("1.5"), Decimal("-2.25")], pa.decimal128(38, 18))
    broad = gw.view("SELECT d FROM r", schema={"r": {"d": "decimal(38, 2)"}})
    assert broad.apply(r={"d": wide}).to_dict() == {(Decimal("-2.25"),): 1, (Decimal("1.50"),): 1}
    assert broad.apply(r={"d": [Decimal(10**20)]}).rows() == [((Decimal(10**20),), 1)]
    assert broad.snapshot().to_arrow().schema.types[0] == pa.decimal128(38, 2)
    view = gw.view("SELECT SUM(d) AS s FROM r", schema={"r": {"d": "decimal(18, 2)"}})
    assert view.apply(r={"d": wide}).rows() == [((None,), -1), ((Decimal("-0.75"),), 1)]
    with pytest.raises(TypeMismatchError, match="relation 'r', column 'd': the value .* is not a value of type"):
        view.apply(r={"d": pa.array([Decimal("0.001")], pa.decimal128(38, 18))})
    assert view.snapshot().rows() == [(Decimal("-0.75"),)]


def test_numbers_of_different_widths_join():
    rows = {"a": pa.table({"x": pa.array([1, 2**63, 7], pa.uint64())}), "b": pa.table({"y": pa.array([7, -1])})}
    assert gw.query("SELECT x FROM a, b WHERE x = y", rows).rows() == [(Decimal(7),)]
    near = {
        "a": {"x": [Decimal("1.5")]},
        "b": {"y": pa.array([Decimal("1.5"), Decimal(10**20)], pa.decimal128(38, 12))},
    }
    assert gw.query("SELECT y FROM a, b WHERE x = y", near).rows() == [(Decimal("1.5"),)]
    far = {
        "a": {"x": pa.array([Decimal(1)], pa.decimal128(38, 0))},
        "b": {"y": pa.array([Decimal(1)], pa.decimal128(30, 20))},
    }
    view = gw.view("SELECT y FROM a, b WHERE x = y", far)
    assert view.snapshot().rows() == [(Decimal(1),)]
    with pytest.raises(CalculationError, match="CAST.* has no value"):  # in DuckDB, too
        view.apply(a={"x": pa.array([Decimal(10) ** 30], pa.decimal128(38, 0))})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n AS x FROM r UNION ALL SELECT d AS x FROM s",
        "SELECT CASE WHEN n > 0 THEN n ELSE d END AS x FROM r, s",
        "SELECT n FROM r, s WHERE d > n + 1",
        "SELECT COUNT(*) AS x FROM r UNION ALL SELECT d FROM s",
    ],
)
def test_calculated_numbers_meet_wide_ones_in_sql(text):
    tables = {"r": pa.table({"n": [1, 2]}), "s": pa.table({"d": [Decimal(10**20), Decimal("1.5")]})}
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(name, table)
    expected = sorted(connection.execute(text).fetchall(), key=repr)
    view = gw.view(text, {name: table.slice(0, 1) for name, table in tables.items()})
    view.apply({name: table.slice(1) for name, table in tables.items()})
    assert sorted(view.snapshot().rows(), key=repr) == expected


def test_enums_of_other_categories_do_not_join():
    small, large = (pl.DataFrame({"d": pl.Series(["a"], dtype=pl.Enum(names))}) for names in (["a", "b"], ["b", "a"]))
    view = gw.view("SELECT d FROM r", r=small)
    with pytest.raises(TypeMismatchError, match="Enums need the same categories in the same order"):
        view.apply(r=large)
    frame = small.to_pandas()
    assert view.apply(r=frame).rows() == [(("a",), 1)]
    assert view.snapshot().to_polars().schema["d"] == pl.Enum(["a", "b"])
    assert list(view.snapshot().to_pandas()["d"].cat.categories) == ["a", "b"]


def test_parts_without_a_type_are_null_where_the_type_is_known():
    view = gw.view("h(d) :- r(d).", r=[([1],)])
    assert view.apply(r=[([],), ([None],)]).rows() == [(([],), 1), (([None],), 1)]
    view = gw.view("h(d) :- r(d).", r=[({"a": 1, "b": ["x"]},)])
    assert view.apply(r=[({"a": None, "b": []},)]).rows() == [(({"a": None, "b": []},), 1)]
    with pytest.raises(TypeMismatchError, match="relation 'r', column 0"):
        view.apply(r=[({"a": 1, "c": []},)])


def test_nan_of_pandas_is_null_in_columns_of_integers(caplog):
    view = gw.view("h(k?) :- r(k?, _).", r={"k": [1, 2**60], "n": ["x", "y"]})
    frame = pd.DataFrame({"k": [3, None], "n": ["z", "z"]})
    assert frame["k"].dtype == np.float64
    assert view.apply(r=frame).rows() == [((None,), 1), ((3,), 1)]
    assert view.apply(r=frame.assign(k=[None, 4.0])).rows() == [((4,), 1)]
    said = [record for record in caplog.records if "NaN" in record.message]
    assert [record.levelname for record in said] == ["WARNING"]
    assert said[0].message.startswith("relation 'r', column 'k': NaN of pandas is null here")
    for column in ([1.5, None], [2.0**60, None], [3.0, 4.0]):
        with pytest.raises(SchemaError, match="of type 'double'"):
            view.apply(r=frame.assign(k=column))
    with pytest.raises(SchemaError, match="of type 'double'"):
        view.apply(r={"k": np.array([3.0, np.nan]), "n": ["z", "z"]})
    assert view.count() == 5


def test_fields_that_cannot_be_spelled_are_refused_by_name():
    with pytest.raises(UnsupportedTypeError, match="column 'd': type .* has fields with names that are not supported"):
        gw.query("SELECT d FROM r", r=pa.table({"d": [{"a, b: c": 1}]}))


def test_structs_without_fields_are_values():
    kind = pa.struct([])
    table = pa.table({"d": pa.array([{}, None, {}], kind), "l": pa.array([[{}], [], None], pa.list_(kind))})
    assert gw.query("SELECT * FROM r", r=table).rows() == [(None, []), ({}, None), ({}, [{}])]
    view = gw.view("SELECT d, count(*) AS n FROM r GROUP BY d", r=table)
    assert view.apply(r=table.slice(1, 1)).rows() == [((None, 1), -1), ((None, 2), 1)]
    assert view.snapshot().to_arrow().column("d").type == kind


def test_a_case_of_long_and_short_decimals_names_the_digits():
    kind = pa.decimal128(38, 6)
    table = pa.table({"a": pa.array([None, Decimal(10**30)], kind), "b": pa.array([Decimal(1), Decimal(2)], kind)})
    view = gw.view("SELECT coalesce(a, b) AS c FROM r", r=table.slice(0, 1))
    with pytest.raises(TypeMismatchError, match="Rules compare, group and sort numbers of more than 18 digits"):
        view.apply(r=table.slice(1, 1))
    assert view.snapshot().rows() == [(Decimal(1),)]


def test_types_of_several_columns_and_inputs_are_bound_together(tmp_path: Path):
    """A calculation takes long decimals if all of its values are: those bound first may not be refused."""
    kind = pa.decimal128(38, 6)
    long = pa.table({"a": pa.array([None, Decimal(10**30)], kind), "b": pa.array([Decimal(10**31), None], kind)})
    connection = gw.connect(r=long.slice(0, 0), s=long.slice(0, 0), bag=True)
    view = connection.view("SELECT coalesce(r.a, s.b) AS c FROM r, s", name="v")
    connection.apply(r=long, s=long)
    answer = [(None,), (Decimal(10**31),), (Decimal(10**30),), (Decimal(10**30),)]
    assert sorted(view.snapshot().rows(), key=str) == sorted(answer, key=str)
    connection.checkpoint(tmp_path)
    restored = gw.Connection.restore(tmp_path).program
    assert restored.relation("v").rows() == connection.program.relation("v").rows()


@pytest.mark.parametrize("kinds", [((9, 2), (38, 6)), ((38, 6), (9, 2)), ((9, 0), (38, 9))])
def test_columns_of_different_scales_are_calculated_with_while_their_digits_are_few(kinds):
    """Codes of the smaller scale have at most 18 digits after the change to the larger one."""
    first, second = (pa.table({"d": pa.array([Decimal(3), None], pa.decimal128(*kind))}) for kind in kinds)
    view = gw.view("SELECT sum(d) AS s, sum(d + 1) AS t FROM r", r=first)
    assert view.apply(r=second).rows() == [((Decimal(3), Decimal(4)), -1), ((Decimal(6), Decimal(8)), 1)]
    both = gw.view("SELECT sum(r.d) + sum(s.d) AS t FROM r JOIN s ON r.d = s.d", r=first, s=second)
    assert both.snapshot().rows() == [(Decimal(6),)]
