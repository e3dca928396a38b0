"""Odd values through every way in: the same values come through everywhere, unchanged, or are refused alike."""

from __future__ import annotations

import datetime as dt
import enum
import math
import uuid
import warnings
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import GpuWcojError, SchemaError, TypeMismatchError, UnsupportedTypeError, WeightError

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of NumPy 2.5
    NO_DATE, NO_DURATION = np.datetime64("NaT"), np.timedelta64("NaT")
"""Missing times without a unit."""


class Color(str, enum.Enum):  # noqa: UP042  # StrEnum has no other text for str()
    """A text with a name of its own: `str()` of it is another text."""

    RED = "red"


class Level(enum.IntEnum):
    """An integer that is more than its number."""

    LOW = 1


class Name(str):
    """A text of a class of its own."""


class Zone(dt.tzinfo):
    """A zone that nothing else knows."""

    def utcoffset(self, _: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta(hours=1)

    def dst(self, _: dt.datetime | None) -> None:
        return None

    def tzname(self, _: dt.datetime | None) -> str:
        return "Elsewhere"


class Unzoned(Zone):
    """A zone of times without one."""

    def utcoffset(self, _: dt.datetime | None) -> None:  # type: ignore[override]
        return None


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
NAN = math.nan
MIXED, UNSUPPORTED = TypeMismatchError, UnsupportedTypeError
SAME = None
"""The values come through as they are."""

VALUES: dict[str, tuple[list[Any], Any]] = {
    # what has a place
    "integers": ([2**63 - 1, -(2**63), 0], SAME),
    "integers and None": ([1, None, 2], SAME),
    "floats, NaN and None": ([1.5, NAN, None, math.inf, 5e-324, 2.0**60], SAME),
    "texts": (["a", "", "\0", "a\0b", "é", "\U0001f600", "1", None], SAME),
    "bytes": ([b"", b"\0", b"a\0", b"\xff", None], SAME),
    "truth values": ([True, False, None], SAME),
    "dates": ([dt.date(1, 1, 1), dt.date(9999, 12, 31), None], SAME),
    "times": ([dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None], SAME),
    "times with a zone": ([dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 7, 1, tzinfo=dt.UTC)], SAME),
    "times of an hour that is there twice": (
        [dt.datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN), dt.datetime(2020, 10, 25, 2, 30, fold=1, tzinfo=BERLIN)],
        SAME,
    ),
    "decimals": ([Decimal("1.50"), Decimal("-99999999999999.99"), None], SAME),
    "NumPy's numbers": ([np.int8(5), np.uint64(7), 6], [5, 7, 6]),
    "NumPy's floats": ([np.float32(0.1), np.float64(0.25), 0.5], [float(np.float32(0.1)), 0.25, 0.5]),
    "NumPy's texts": ([np.str_("a"), "b"], ["a", "b"]),
    "NumPy's bytes": ([np.bytes_(b"a"), b"b"], [b"a", b"b"]),
    "NumPy's truth values": ([np.True_, False], [True, False]),
    "NumPy's days": ([np.datetime64("2020-01-01"), None, NO_DATE], [dt.date(2020, 1, 1), None, None]),
    "NumPy's hours": ([np.datetime64("2020-01-01T05"), None], [dt.datetime(2020, 1, 1, 5), None]),
    "NumPy's years": ([np.datetime64("2020", "Y")], [dt.date(2020, 1, 1)]),
    "NumPy's durations": ([np.timedelta64(90, "m"), NO_DURATION], [dt.timedelta(hours=1.5), None]),
    "times of day": ([dt.time(), dt.time(23, 59, 59, 999999), None], SAME),
    "durations": ([dt.timedelta(), dt.timedelta(-1, 5, 7), dt.timedelta(100_000), None], SAME),
    "UUIDs": ([uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), None], SAME),
    "integers of 64 bits without sign": ([2**63, 1, 2**64 - 1, None], SAME),
    "decimals of 38 digits": ([Decimal(10**37), Decimal(1 - 10**38), Decimal(0), None], SAME),
    "decimals that need 20 digits together": (
        [Decimal("1E-18"), Decimal(10)],
        [Decimal("1E-18"), Decimal("10.000000000000000000")],
    ),
    "lists": ([[1, None, 3], [], None, [2]], SAME),
    "lists of lists": ([[["a"], None], [[], [None, "\0"]]], SAME),
    "dicts": ([{"a": 1, "b": [1.5]}, {"a": None, "b": None}, None], SAME),
    "lists of dicts": ([[{"t": dt.date(2020, 1, 1), "u": b"\0"}], []], SAME),
    # of several types
    "integer and float": ([1, 2.5], MIXED),
    "float and integer": ([2.5, 2**53 + 1], MIXED),
    "integer and truth value": ([1, True], MIXED),
    "truth value and integer": ([True, 0], MIXED),
    "integer and text": ([1, "1"], MIXED),
    "text and bytes": (["a", b"b"], MIXED),
    "bytes and text": ([b"a", "b"], MIXED),
    "text and NaN": (["a", NAN], MIXED),
    "integer and NaN": ([1, NAN], MIXED),
    "decimal and float": ([Decimal("1.5"), 2.5], MIXED),
    "decimal and integer": ([Decimal("1.5"), 2], MIXED),
    "date and time": ([dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5)], MIXED),
    "time and date": ([dt.datetime(2020, 1, 1, 5), dt.date(2020, 1, 1)], MIXED),
    "zone and none": ([dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 1)], MIXED),
    "zone and one that says nothing": (
        [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 1, tzinfo=Unzoned())],
        MIXED,
    ),
    "days and hours of NumPy": ([np.datetime64("2020-01-01"), np.datetime64("2020-01-01T05")], MIXED),
    "seconds and nanoseconds of NumPy": ([np.datetime64(2**62, "s"), np.datetime64(1, "ns")], MIXED),
    # without a place
    "integers of 70 bits": ([1, 2**70], UNSUPPORTED),
    "a decimal of 300 digits": ([Decimal("1E+300")], UNSUPPORTED),
    "a decimal that is none": ([Decimal(1), Decimal("NaN")], UNSUPPORTED),
    "half a surrogate pair": (["a", "\ud800"], UNSUPPORTED),
    "a time before the year 1 in UTC": ([dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))], UNSUPPORTED),
    "a time after the year 9999 in UTC": (
        [dt.datetime(9999, 12, 31, 23, 59, tzinfo=dt.timezone(dt.timedelta(hours=-1)))],
        UNSUPPORTED,
    ),
    "a zone of half minutes": (
        [dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1, seconds=30)))],
        UNSUPPORTED,
    ),
    "a zone that nothing else knows": ([dt.datetime(2020, 1, 1, tzinfo=Zone())], UNSUPPORTED),
    "a text of another class": (["a", Name("b")], UNSUPPORTED),
    "an enumeration of texts": (["a", Color.RED], UNSUPPORTED),
    "an enumeration of integers": ([2, Level.LOW], UNSUPPORTED),
    "times of day in a zone": ([dt.time(1, tzinfo=dt.UTC)], UNSUPPORTED),
    "durations that Python cannot hold": ([np.timedelta64(1, "ns")], UNSUPPORTED),
    "months of NumPy": ([np.timedelta64(1, "M")], UNSUPPORTED),
    "integers of 65 bits beside small ones": ([2**64, 1], UNSUPPORTED),
    "integers beyond int64 beside negative ones": ([2**63, -1], UNSUPPORTED),
    "lists with values of two types": ([[1], ["a"]], MIXED),
    "lists with integers and floats": ([[1, 2.5]], MIXED),
    "dicts with other keys": ([{"a": 1}, {"b": 1}], MIXED),
    "dicts with a number for a key": ([{1: 1}], MIXED),
    "lists of objects": ([[object()]], UNSUPPORTED),
    "complex numbers": ([1j], UNSUPPORTED),
    "NumPy's complex numbers": ([np.complex64(1j)], UNSUPPORTED),
    "half floats": ([np.float16(1.5)], UNSUPPORTED),
    "long floats": ([np.longdouble(1.5)], UNSUPPORTED),
    "NumPy's raw bytes": ([np.void(b"ab")], UNSUPPORTED),
    "days beyond 32 bits": ([np.datetime64(2**62, "D")], UNSUPPORTED),
    "arrays without dimensions": ([1, np.array(2)], UNSUPPORTED),
    "masked": ([1, np.ma.masked], UNSUPPORTED),
    "pandas' NA": ([1, pd.NA], UNSUPPORTED),
    "pandas' NaT": ([dt.datetime(2020, 1, 1), pd.NaT], UNSUPPORTED),
    "pandas' times": ([pd.Timestamp("2020-01-01T00:00:00.000000001")], UNSUPPORTED),
    "nothing but None": ([None, None], UNSUPPORTED),
    "sets": ([{1}], UNSUPPORTED),
    "objects": ([object()], UNSUPPORTED),
}


def objects(values: list[Any]) -> Any:
    """An array of NumPy of the values themselves."""
    array = np.empty(len(values), object)
    for row, value in enumerate(values):
        array[row] = value
    return array


def in_field(values: list[Any]) -> Any:
    """A structured array with a field of objects."""
    array = np.empty(len(values), [("x", object)])
    array["x"] = objects(values)
    return array


CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "dictionary of tuples": lambda values: {"x": tuple(values)},
    "dictionary of iterators": lambda values: {"x": iter(values)},
    "rows": lambda values: [(value,) for value in values],
    "dictionary of arrays": lambda values: {"x": objects(values)},
    "masked array": lambda values: {"x": np.ma.masked_array(objects(values), [False] * len(values))},
    "array of two dimensions": lambda values: objects(values).reshape(-1, 1),
    "structured array": in_field,
    "pandas frame": lambda values: pd.DataFrame({"x": pd.Series(objects(values), dtype=object)}),
    "pandas series": lambda values: {"x": pd.Series(objects(values), dtype=object)},
    "pandas index": lambda values: pd.DataFrame(index=pd.Index(objects(values), dtype=object, name="x")),
    "Polars frame": lambda values: pl.DataFrame({"x": pl.Series(values, dtype=pl.Object)}),
    "Polars series": lambda values: {"x": pl.Series(values, dtype=pl.Object)},
}
"""Whatever holds the values of Python themselves."""


def rows_of(found: Any) -> list[Any]:
    return [value for (value,), weight in found.rows() for _ in range(weight)]


def through_step(data: Any) -> list[Any]:
    program = gw.Program("h(x) :- e(x).", bag=True)
    return rows_of(program.step({"e": data})["h"])


def through_load(data: Any) -> list[Any]:
    program = gw.Program("h(x) :- e(x).", bag=True)
    program.load({"e": data})
    return rows_of(program.relation("e"))


def through_query(data: Any) -> list[Any]:
    return [value for (value,) in gw.query("h(x) :- e(x).", e=data, bag=True)]


def through_sql(data: Any) -> list[Any]:
    name = "c0" if isinstance(data, (list, np.ndarray)) and getattr(data, "dtype", np.dtype("O")).names is None else "x"
    return [value for (value,) in gw.query(f"select {name} from e", {"e": data})]


def through_view(data: Any) -> list[Any]:
    return rows_of(gw.view("h(x) :- e(x).", schema={}, bag=True, e=[]).apply(e=data))


def through_zset(data: Any) -> list[Any]:
    return rows_of(gw.ZSet.from_arrow(data))


def through_circuit(data: Any) -> list[Any]:
    circuit = gw.Circuit(backend="cpu")
    circuit.sink("out", circuit.source("e"))
    return rows_of(circuit.step({"e": data})["out"])


DOORS = {
    "step": through_step,
    "load": through_load,
    "query": through_query,
    "SQL": through_sql,
    "view": through_view,
    "ZSet": through_zset,
    "circuit": through_circuit,
}


def shown(values: list[Any]) -> list[tuple[str, str]]:
    """Values with their types, in an order of their own."""
    times = dt.datetime  # whose zones have several spellings
    return sorted(
        (type(value).__name__, value.isoformat() if isinstance(value, times) else repr(value)) for value in values
    )


def verdict(door: Callable[[Any], list[Any]], data: Any) -> Any:
    """The values that came through, with their types, or the class of the error."""
    try:
        found = door(data)
    except GpuWcojError as error:
        if "\n  " not in str(error):
            raise AssertionError(f"nothing is said of what to do: {error}") from error
        return type(error)
    return shown(found)


def expected(values: list[Any], says: Any) -> Any:
    return says if isinstance(says, type) else shown(values if says is SAME else says)


@pytest.mark.drawn("name", share=2)
@pytest.mark.parametrize("name", VALUES)
def test_a_list_of_values(name):
    values, says = VALUES[name]
    for way, door in DOORS.items():
        assert verdict(door, {"x": list(values)}) == expected(values, says), way


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_of_values_is_judged_as_a_list(container):
    found, wanted = {}, {}
    for name, (values, says) in VALUES.items():
        wanted[name] = expected(values, says)
        found[name] = verdict(through_zset, CONTAINERS[container](values))
    assert found == wanted


@pytest.mark.parametrize("way", DOORS)
def test_every_door_judges_containers_alike(way):
    for name in ("floats, NaN and None", "integer and float", "integers of 70 bits", "text and bytes", "date and time"):
        values, says = VALUES[name]
        for container, make in CONTAINERS.items():
            assert verdict(DOORS[way], make(values)) == expected(values, says), (name, container)


def duck(expression: str) -> Any:
    """A relation of DuckDB with this column."""
    return duckdb.connect().sql(f"select {expression} as x")


def sparse_frame(values: list[Any]) -> Any:
    """A frame of pandas with a sparse column."""
    return pd.DataFrame({"x": pd.arrays.SparseArray(values)})


DAY = dt.date(2020, 1, 1)
TYPED: dict[str, tuple[Callable[[], Any], Any]] = {
    # NumPy: what an array holds is the truth
    "integers beside floats in NumPy": (lambda: {"x": np.array([1, 2.5])}, [1.0, 2.5]),
    "big-endian integers": (lambda: {"x": np.array([1, -2], ">i4")}, [1, -2]),
    "big-endian floats": (lambda: {"x": np.array([1.5, NAN], ">f8")}, [1.5, NAN]),
    "truth values of NumPy": (lambda: {"x": np.array([True, False])}, [True, False]),
    "no truth values of NumPy": (lambda: {"x": np.array([], bool)}, []),
    "masked floats": (lambda: {"x": np.ma.masked_array([1.5, NAN, 2], [1, 0, 0])}, [None, NAN, 2.0]),
    "masked days": (lambda: {"x": np.ma.masked_array(["2020-01-01", "2021-01-01"], [0, 1], "M8[D]")}, [DAY, None]),
    "masked days beyond 32 bits": (
        lambda: {"x": np.ma.masked_array(np.array([2**62, 18262], "M8[D]"), [1, 0])},
        [None, DAY],
    ),
    "days of NumPy": (lambda: {"x": np.array(["2020-01-01", "NaT"], "M8[D]")}, [DAY, None]),
    "seconds of NumPy": (lambda: {"x": np.array([5], "M8[s]")}, [dt.datetime(1970, 1, 1, 0, 0, 5)]),
    "texts of NumPy": (lambda: {"x": np.array(["a\0b", ""], object).astype("U3")}, ["a\0b", ""]),
    "a field of a structured array": (lambda: np.array([(5,), (6,)], [("x", "i2")]), [5, 6]),
    "half surrogates in NumPy": (lambda: {"x": np.array(["\ud800"])}, UNSUPPORTED),
    "days beyond 32 bits in NumPy": (lambda: {"x": np.array([2**62], "M8[D]")}, UNSUPPORTED),
    "units of 25 seconds": (lambda: {"x": np.array([3], "M8[25s]")}, [dt.datetime(1970, 1, 1, 0, 1, 15)]),
    "hours of NumPy": (lambda: {"x": np.array([-1, "NaT"], "M8[h]")}, [dt.datetime(1969, 12, 31, 23), None]),
    "weeks of NumPy": (lambda: {"x": np.array(["2020-01-02", "NaT"], "M8[W]")}, [dt.date(2020, 1, 2), None]),
    "months of NumPy": (
        lambda: {"x": np.array(["2020-02", "1969-12"], "M8[M]")},
        [dt.date(1969, 12, 1), dt.date(2020, 2, 1)],
    ),
    "years of NumPy": (
        lambda: {"x": np.ma.masked_array(np.array([50, 2**62], "M8[Y]"), [0, 1])},
        [dt.date(2020, 1, 1), None],
    ),
    "years beyond days of 32 bits": (lambda: {"x": np.array([2**40], "M8[Y]")}, UNSUPPORTED),
    "picoseconds of NumPy": (lambda: {"x": np.array([10**9], "M8[ps]")}, [dt.datetime(1970, 1, 1, 0, 0, 0, 1000)]),
    "picoseconds finer than nanoseconds": (lambda: {"x": np.array([1], "M8[ps]")}, UNSUPPORTED),
    "times without a unit": (lambda: {"x": np.array([NO_DATE])}, [None]),
    "durations of NumPy": (lambda: {"x": np.array([1, "NaT"], "m8[s]")}, [dt.timedelta(seconds=1), None]),
    "durations of weeks": (lambda: {"x": np.array([-2], "m8[W]")}, [dt.timedelta(-14)]),
    "durations of months": (lambda: {"x": np.array([1], "m8[M]")}, UNSUPPORTED),
    "half floats of NumPy": (lambda: {"x": np.zeros(1, np.float16)}, UNSUPPORTED),
    "long floats of NumPy": (lambda: {"x": np.zeros(1, np.longdouble)}, UNSUPPORTED),
    "complex numbers of NumPy": (lambda: {"x": np.zeros(1, complex)}, UNSUPPORTED),
    "raw bytes of NumPy": (lambda: {"x": np.zeros(1, "V2")}, UNSUPPORTED),
    "records in a column": (lambda: {"x": np.zeros(1, [("a", "i4")])}, UNSUPPORTED),
    "integers of 64 bits without sign in NumPy": (lambda: {"x": np.array([2**63, 0], np.uint64)}, [0, 2**63]),
    "no dimensions": (lambda: {"x": np.array(5)}, SchemaError),
    "no dimensions, of objects": (lambda: {"x": np.array(None, object)}, SchemaError),
    "two dimensions in a column": (lambda: {"x": np.zeros((1, 2))}, SchemaError),
    # SciPy
    "a sparse matrix": (lambda: sparse().coo_matrix([[1, 0]]), MIXED),
    "a sparse array": (lambda: sparse().csr_array([[1, 0]]), MIXED),
    "a sparse matrix in a column": (lambda: {"x": sparse().coo_matrix([[1, 0]])}, MIXED),
    # pandas
    "a sparse column": (lambda: sparse_frame([0, 0, 7]), [0, 0, 7]),
    "a sparse column of floats": (lambda: sparse_frame([NAN, 1.5]), [None, 1.5]),
    "a sparse array of pandas": (lambda: {"x": pd.arrays.SparseArray([0, 7])}, [0, 7]),
    "nullable integers": (lambda: pd.DataFrame({"x": pd.array([1, None, 2**60 + 1], "Int64")}), [1, None, 2**60 + 1]),
    "an array of nullable integers": (lambda: {"x": pd.array([1, None], "Int64")}, [1, None]),
    "floats of pandas": (lambda: pd.DataFrame({"x": [1.5, None]}), [1.5, None]),
    "texts of pandas": (lambda: pd.DataFrame({"x": pd.Series(["a", None], dtype="str")}), ["a", None]),
    "texts of pandas in Arrow": (lambda: pd.DataFrame({"x": pd.array(["a", None], "string[pyarrow]")}), ["a", None]),
    "categories": (lambda: pd.DataFrame({"x": pd.Categorical(["b", None, "a", "b"])}), ["a", "b", "b", None]),
    "categories of integers": (lambda: pd.DataFrame({"x": pd.Categorical([7, 5, 7])}), [5, 7, 7]),
    "categories of two types": (lambda: pd.DataFrame({"x": pd.Categorical(["a", b"b"])}), MIXED),
    "categories of one type, of objects": (
        lambda: pd.DataFrame({"x": pd.Categorical([b"a", b"b"], categories=pd.Index([b"a", b"b"], dtype=object))}),
        [b"a", b"b"],
    ),
    "ordered categories": (
        lambda: pd.DataFrame({"x": pd.Categorical(["b", None, "a"], ["b", "a"], ordered=True)}),
        ["a", "b", None],
    ),
    "ordered categories of integers": (lambda: pd.DataFrame({"x": pd.Categorical([7, 5], ordered=True)}), [5, 7]),
    "ordered categories of days": (
        lambda: pd.DataFrame({"x": pd.Categorical([DAY], [DAY], ordered=True)}),
        UNSUPPORTED,
    ),
    "times of pandas": (
        lambda: pd.DataFrame({"x": pd.to_datetime(["2020-01-01", None])}),
        [dt.datetime(2020, 1, 1), None],
    ),
    "intervals": (lambda: pd.DataFrame({"x": pd.interval_range(0, 2)}), UNSUPPORTED),
    "periods": (lambda: pd.DataFrame({"x": pd.period_range("2020", periods=2)}), UNSUPPORTED),
    "complex numbers of pandas": (lambda: pd.DataFrame({"x": [1j]}), UNSUPPORTED),
    "half floats of pandas": (lambda: pd.DataFrame({"x": np.zeros(1, np.float16)}), UNSUPPORTED),
    "long floats of pandas": (lambda: pd.DataFrame({"x": np.zeros(1, np.longdouble)}), UNSUPPORTED),
    "durations of pandas": (lambda: pd.DataFrame({"x": pd.to_timedelta([1, None], "s")}), [dt.timedelta(0, 1), None]),
    "an index of two types": (lambda: pd.DataFrame(index=pd.Index([1, "a"], dtype=object, name="x")), MIXED),
    "a frame without columns for an index without a name": (lambda: pd.DataFrame(index=["a"]), SchemaError),
    # Polars
    "wide integers of Polars": (lambda: pl.DataFrame({"x": pl.Series([1], dtype=pl.Int128)}), UNSUPPORTED),
    "wide integers of Polars in a dictionary": (lambda: {"x": pl.Series([1], dtype=pl.Int128)}, UNSUPPORTED),
    "decimals of Polars": (lambda: pl.DataFrame({"x": [Decimal("1.5"), None]}), [Decimal("1.5"), None]),
    "categories of Polars": (lambda: pl.DataFrame({"x": pl.Series(["a", None], dtype=pl.Categorical)}), ["a", None]),
    "an enumeration of Polars": (lambda: pl.DataFrame({"x": pl.Series(["a"], dtype=pl.Enum(["b", "a"]))}), ["a"]),
    "nothing but nulls of Polars": (lambda: pl.DataFrame({"x": [None]}), [None]),
    "times of day of Polars": (lambda: pl.DataFrame({"x": [dt.time(1), None]}), [dt.time(1), None]),
    "durations of Polars": (lambda: pl.DataFrame({"x": [dt.timedelta(1), None]}), [dt.timedelta(1), None]),
    "a lazy frame of Polars": (lambda: pl.LazyFrame({"x": [1, None]}), [1, None]),
    "half floats of Polars": (lambda: pl.DataFrame({"x": pl.Series([1.5], dtype=pl.Float16)}), UNSUPPORTED),
    "lists of Polars": (lambda: pl.DataFrame({"x": [[1], None, []]}), [[1], [], None]),
    "structs of Polars": (lambda: pl.DataFrame({"x": [{"a": "b"}]}), [{"a": "b"}]),
    "arrays of Polars": (
        lambda: pl.DataFrame({"x": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int8, 2))}),
        [[1, 2], None],
    ),
    # Arrow
    "chunks": (lambda: {"x": pa.chunked_array([[1], [], [None, 2]])}, [1, 2, None]),
    "a dictionary with null among its values": (
        lambda: {"x": pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))},
        ["a", None, None],
    ),
    "runs": (lambda: {"x": pa.RunEndEncodedArray.from_arrays([2, 3], [5, 6])}, UNSUPPORTED),
    "UUIDs of Arrow": (lambda: {"x": pa.array([uuid.UUID(int=1), None], pa.uuid())}, [None, uuid.UUID(int=1)]),
    "extensions": (lambda: {"x": pa.array([True]).cast(pa.bool8())}, UNSUPPORTED),
    "bytes of one length": (lambda: {"x": pa.array([b"ab", None], pa.binary(2))}, [None, b"ab"]),
    "maps": (lambda: {"x": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int8()))}, [None, [("a", 1)], []]),
    "views of lists": (lambda: {"x": pa.array([[1, None], None], pa.list_view(pa.int8()))}, [None, [1, None]]),
    "times of day in seconds": (lambda: {"x": pa.array([dt.time(1)], pa.time32("s"))}, [dt.time(1)]),
    "times of day finer than Python's": (lambda: {"x": pa.array([1], pa.time64("ns"))}, UNSUPPORTED),
    "intervals of days": (
        lambda: {"x": pa.array([(0, 1, 3_600_000_000_000), (0, -1, 0), None], pa.month_day_nano_interval())},
        [None, dt.timedelta(-1), dt.timedelta(1, 3600)],
    ),
    "intervals of months": (lambda: {"x": pa.array([(1, 0, 0)], pa.month_day_nano_interval())}, UNSUPPORTED),
    "structs with odd names": (lambda: {"x": pa.array([{"a>, b: c": 1}])}, UNSUPPORTED),
    "unions": (lambda: {"x": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])}, UNSUPPORTED),
    "half days": (lambda: {"x": pa.array([1], pa.int64()).cast(pa.timestamp("ms")).view(pa.date64())}, UNSUPPORTED),
    "texts that are none": (
        lambda: {
            "x": pa.Array.from_buffers(pa.string(), 1, [None, *map(pa.py_buffer, (np.array([0, 1], "i4"), b"\xff"))])
        },
        UNSUPPORTED,
    ),
    "times finer than Python's": (lambda: {"x": pa.array([1], pa.timestamp("ns"))}, UNSUPPORTED),
    "a zone that is not known": (lambda: {"x": pa.array([1], pa.timestamp("us", "Mars/Phobos"))}, UNSUPPORTED),
    "decimals of 38 digits": (lambda: {"x": pa.array([Decimal(10**37)], pa.decimal128(38, 0))}, [Decimal(10**37)]),
    "decimals of 76 digits": (lambda: {"x": pa.array([Decimal(10**60)], pa.decimal256(76, 0))}, UNSUPPORTED),
    # DuckDB
    "integers of DuckDB": (lambda: duck("unnest([1, null])"), [1, None]),
    "wide integers of DuckDB": (lambda: duck("5::hugeint"), [Decimal(5)]),
    "wide integers of DuckDB beyond 18 digits": (lambda: duck("10::hugeint ** 30::hugeint"), [1e30]),
    "an enumeration of DuckDB": (lambda: duck("'a'::enum('a', 'b')"), ["a"]),
    "a time without end of DuckDB": (lambda: duck("timestamp 'infinity'"), UNSUPPORTED),
    "durations of DuckDB": (lambda: duck("interval '1 day 2 hours'"), [dt.timedelta(1, 7200)]),
    "months of DuckDB": (lambda: duck("interval 1 month"), UNSUPPORTED),
    "times of day of DuckDB": (lambda: duck("time '01:02:03'"), [dt.time(1, 2, 3)]),
    "lists of DuckDB": (lambda: duck("[1, null]"), [[1, None]]),
    "unsigned integers of DuckDB": (lambda: duck("18446744073709551615::ubigint"), [2**64 - 1]),
    "long integers of DuckDB": (lambda: duck("'12345678901234567890123456'::bignum"), UNSUPPORTED),
    "a query of DuckDB that fails": (lambda: duck("unnest(['1', 'a'])::integer"), UNSUPPORTED),
    # other things
    "bytes for a column": (lambda: {"x": b"ab"}, MIXED),
    "changeable bytes for a column": (lambda: {"x": bytearray(b"ab")}, MIXED),
    "a set for a column": (lambda: {"x": {1, 2}}, MIXED),
    "a table for a column": (lambda: {"x": pa.table({"a": [1]})}, UNSUPPORTED),
    "a number for a column": (lambda: {"x": 5}, MIXED),
    "bytes": (lambda: b"ab", MIXED),
    "changeable bytes": (lambda: bytearray(b"ab"), MIXED),
    "dictionaries": (lambda: [{"x": 1}, {"x": None}], [1, None]),
    "dictionaries with other keys": (lambda: [{"x": 1}, {"y": None}], SchemaError),
}
if hasattr(np.dtypes, "StringDType"):  # from NumPy 2 on
    TYPED |= {
        "texts of NumPy's own type": (lambda: {"x": np.array(["a", "b"], np.dtypes.StringDType())}, ["a", "b"]),
        "texts of NumPy with None": (
            lambda: {"x": np.array(["a", None], np.dtypes.StringDType(na_object=None))},
            ["a", None],
        ),
    }


def sparse() -> Any:
    return pytest.importorskip("scipy.sparse")


@pytest.mark.drawn("name", share=2)
@pytest.mark.parametrize("name", TYPED)
def test_what_a_container_holds_is_what_comes_through(name):
    make, says = TYPED[name]
    for way, door in DOORS.items():
        if way == "SQL" and not hasattr(make(), "keys"):
            continue
        assert verdict(door, make()) == expected([], says), way


@pytest.mark.parametrize("container", [*CONTAINERS, "dictionary of lists"])
def test_nothing_but_none_is_null_where_the_type_is_known(container):
    make = CONTAINERS.get(container, lambda values: {"x": values})
    program = gw.Program("h(x) :- e(x).", bag=True, schema={"e": ["string"]})
    program.load({"e": make([None, None])})
    assert rows_of(program.relation("e")) == [None, None]


def test_an_error_says_where_the_value_stands():
    program = gw.Program("h(x, y) :- e(x, y).")
    place = "relation 'e', column 'y'"
    for make in (
        lambda values: {"x": [1, 2], "y": values},
        lambda values: pd.DataFrame({"x": [1, 2], "y": objects(values)}),
        lambda values: pl.DataFrame({"x": [1, 2], "y": pl.Series(values, dtype=pl.Object)}),
    ):
        with pytest.raises(
            UnsupportedTypeError, match=rf"{place}: the value .* \(row 1\) is of type 'builtins\.complex'"
        ):
            program.step({"e": make(["a", 1j])})
        with pytest.raises(TypeMismatchError, match=rf"{place} mixes types: 1 \(row 0\) and 2\.5 \(row 1\)"):
            program.step({"e": make([1, 2.5])})
    assert program.last_tick.tick == -1


WEIGHTS: dict[str, tuple[Callable[[], Any], bool]] = {
    "objects": (lambda: objects([1, -2]), True),
    "big-endian integers": (lambda: np.array([1, -2], ">i2"), True),
    "unsigned integers": (lambda: np.array([1, 2], np.uint64), True),
    "objects of two types": (lambda: objects([1, 2.5]), False),
    "truth values": (lambda: np.array([True, True]), False),
    "floats": (lambda: np.array([1.0, 2.0]), False),
    "masked": (lambda: np.ma.masked_array([1, 2], [False, True]), False),
    "unsigned integers of 64 bits": (lambda: np.array([1, 2**63], ">u8"), False),
    "durations": (lambda: np.array([1, 2], "m8[s]"), False),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_are_judged_so_too(name):
    make, fits = WEIGHTS[name]
    values = [(1,), (2,)]
    try:
        found = gw.ZSet.from_numpy(np.array(values), make())
    except WeightError:
        assert not fits
    else:
        assert fits
        assert [weight for _, weight in found.rows()] == make().tolist()


def through_device(data: Any) -> list[Any]:
    return rows_of(gw.ZSet.from_device({"x": data}, backend="cpu"))


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.array([1.5, -2.5], ">f8"), [1.5, -2.5]),
        (np.array([1, -2], ">i4"), [1, -2]),
        (np.array([1, -2], ">i8"), [1, -2]),
        (np.array([True, False]), [True, False]),
        (np.ma.masked_array([1, 2], [True, False]), UNSUPPORTED),
        (np.array([2**63], np.uint64), UNSUPPORTED),
        (np.array([1.5], np.float16), UNSUPPORTED),
        (np.array([1], "M8[s]"), UNSUPPORTED),
        (np.array([1], "m8[s]"), UNSUPPORTED),
        (np.array([1j]), UNSUPPORTED),
        (objects([1]), UNSUPPORTED),
        (np.array(1), SchemaError),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_arrays_of_the_host_for_a_device(array, says):
    assert verdict(through_device, array) == expected([], says)


def test_weights_of_a_device_and_factors_are_integers():
    for weights in ([True, 1], [1.0, 2], [2**63, 1], np.ma.masked_array([1, 2], [True, False])):
        with pytest.raises((WeightError, UnsupportedTypeError)):
            gw.ZSet.from_device({"x": np.array([1, 2])}, weights, backend="cpu")
    for factor in (True, np.timedelta64(5, "ns"), 1.0):
        with pytest.raises((GpuWcojError, TypeError)):
            gw.ZSet.from_rows([(1,)]) * factor


# tables of a graph, whose other columns are only carried along, and may be of more types


def through_matcher(data: Any) -> list[Any]:
    ends = list(range(len(data)))
    edges = {"src": ends, "dst": ends, "v": data}
    matcher = gw.Matcher("()-[e]->()", edges=edges, columns=["e.v"])
    return [value for (value,), weight in matcher.matches().rows(weights=True) for _ in range(weight)]


ONLY_CARRIED = {"nothing but None", "durations that Python cannot hold"}
"""What Arrow holds and rules do not, or what differs otherwise."""


@pytest.mark.parametrize("container", ["list", "array", "pandas", "Polars"])
def test_tables_of_a_graph_are_judged_as_relations_are(container):
    make = {"list": list, "array": objects, "pandas": lambda one: pd.Series(objects(one), dtype=object),
            "Polars": lambda one: pl.Series(one, dtype=pl.Object)}[container]  # fmt: skip
    for name, (values, says) in VALUES.items():
        if name not in ONLY_CARRIED:
            assert verdict(through_matcher, make(values)) == expected(values, says), name


def test_what_a_graph_only_carries_along_comes_back_as_it_is():
    for values in ([[1], [2, None]], [{"a": 1, "b": "x"}, None], [dt.timedelta(microseconds=1)], [dt.time(1)]):
        assert shown(through_matcher(values)) == shown(values)
    for values in ([[1], [2.5]], [[1, 2.5]], [{"a": 1}, {"b": 2}], [[1], 2], [["a", b"b"]], [{"a": Level.LOW}]):
        with pytest.raises(TypeMismatchError):
            through_matcher(values)


# databases


def through_transact(data: Any) -> list[Any]:
    db = gw.datoms.Database()
    report = db.transact([[":db/add", number, ":v", value] for number, value in enumerate(data)])
    return [value for (_, _, value), _ in report.rows()]


def through_bulk(data: Any) -> list[Any]:
    db = gw.datoms.Database()
    return [value for (_, _, value), _ in db.load(entity=np.arange(len(data)), attribute=":v", value=data).rows()]


DATOMS = {
    "integers": ([2**63 - 1, -(2**63)], SAME),
    "floats": ([1.5, NAN], SAME),
    "texts": (["a", "", "\0", "é"], SAME),
    "bytes": ([b"", b"a\0"], SAME),
    "truth values": ([True, False], SAME),
    "times": ([dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2021, 1, 1, tzinfo=dt.UTC)], SAME),
    "NumPy's numbers": ([np.int8(5), np.uint64(7)], [5, 7]),
    "integer and float": ([1, 2.5], MIXED),
    "integer and truth value": ([1, True], MIXED),
    "text and bytes": (["a", b"b"], MIXED),
    "zone and none": ([dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 1)], MIXED),
    "integers of 70 bits": ([1, 2**70], MIXED),
    "an enumeration of texts": (["a", Color.RED], MIXED),
    "an enumeration of integers": ([2, Level.LOW], MIXED),
    "a text of another class": (["a", Name("b")], MIXED),
    "pandas' times": ([dt.datetime(2020, 1, 1, tzinfo=dt.UTC), pd.Timestamp(1, tz="UTC")], MIXED),
    "NumPy's durations": ([1, np.timedelta64(1, "ns")], MIXED),
    "NumPy's times": ([1, np.datetime64(1, "ns")], MIXED),
    "half floats": ([1.5, np.float16(1.5)], MIXED),
    "half a surrogate pair": (["a", "\ud800"], MIXED),
    "a zone that says nothing": ([dt.datetime(2020, 1, 1, tzinfo=Unzoned())], MIXED),
}


@pytest.mark.parametrize("name", DATOMS)
def test_datoms_are_judged_so_too(name):
    values, says = DATOMS[name]
    makes: list[Callable[[list[Any]], Any]] = [list, objects, lambda one: pd.Series(objects(one), dtype=object)]
    for door, make in [(through_transact, list), *((through_bulk, make) for make in makes)]:
        found = verdict(door, make(values))
        if says is MIXED:
            assert isinstance(found, type), (door, found)
            assert issubclass(found, GpuWcojError)
        else:
            assert found == expected(values, says), door


@pytest.mark.parametrize(
    "entity", [Level.LOW, Color.RED, Name("a"), True, np.timedelta64(5, "ns"), 1.0, 2**70], ids=repr
)
def test_entities_are_judged_so_too(entity):
    db = gw.datoms.Database({":to": {":db/valueType": ":db.type/ref"}})
    for form in ([":db/add", entity, ":n", 1], {":db/id": entity, ":n": 1}, [":db/add", 1, ":to", entity]):
        with pytest.raises(GpuWcojError):
            db.transact([form])
    assert len(db) == 0
    assert db.transact([[":db/add", np.int8(5), ":n", 1], [":db/add", np.str_("new"), ":n", 2]]).tempids.keys() == {
        "new"
    }


def test_names_of_attributes_are_what_members_of_an_enumeration_hold():
    db = gw.datoms.Database()
    assert db.transact([[":db/add", 1, Color.RED, 1]]).rows() == [((1, ":red", 1), 1)]


@pytest.mark.parametrize(
    "given",
    [
        Color.RED,
        Level.LOW,
        Name("a"),
        pd.Timestamp(1, tz="UTC"),
        np.timedelta64(1, "ns"),
        np.datetime64(1, "ns"),
        np.float16(1.0),
        2**70,
        Decimal(1),
        b"a",
    ],
    ids=repr,
)
def test_inputs_of_a_question_are_judged_so_too(given):
    db = gw.datoms.Database()
    db.transact([[":db/add", 1, ":n", 1], [":db/add", 1, ":s", "a"]])
    for asks in (":in $ ?x :where [?e ?a ?x]]", ":in $ [?x ...] :where [?e ?a ?x]]"):
        for known in (1, np.int8(1), "a", np.str_("a")):
            assert len(db.query(f"[:find ?e {asks}", [known] if "..." in asks else known)) == 1
        with pytest.raises(GpuWcojError, match="cannot be used"):
            db.query(f"[:find ?e {asks}", [given] if "..." in asks else given)


# out again

EXPORTS = ("rows", "to_dict", "to_arrow", "to_numpy", "to_pandas", "to_polars", "__repr__", "_repr_html_")
LEAST = np.array([-(2**63)])
REFUSED_ON_THE_WAY_OUT: dict[str, tuple[pa.Array, set[str]]] = {
    "a zone that is not known": (
        pa.array([1], pa.timestamp("us", "Mars/Phobos")),
        {"rows", "to_dict", "to_pandas", "to_polars"},
    ),
    "a zone without a name": (pa.array([1], pa.timestamp("us", "+01:30")), {"to_polars"}),
    "nanoseconds": (pa.array([1], pa.timestamp("ns")), {"rows", "to_dict"}),
    "a day without end": (pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), {"rows", "to_dict", "to_pandas"}),
    "seconds beyond Python's years": (pa.array([2**62], pa.timestamp("s")), {"rows", "to_dict"}),
    "the least time": (pa.array(LEAST).view(pa.timestamp("us")), {"rows", "to_dict", "to_numpy", "to_pandas"}),
    "a day of the year 9999": (pa.array([dt.date(9999, 12, 31)]), set()),
}


@pytest.mark.parametrize("name", REFUSED_ON_THE_WAY_OUT)
def test_exports_raise_errors_of_the_engine(name):
    array, refused = REFUSED_ON_THE_WAY_OUT[name]
    zset = gw.ZSet.from_arrow({"x": array})
    for export in EXPORTS:
        try:
            getattr(zset, export)()
        except UnsupportedTypeError:
            assert export in refused, export
        else:
            assert export not in refused, export
