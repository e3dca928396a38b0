"""Odd values through every way in: the same values come through everywhere, unchanged, or are refused alike."""

from __future__ import annotations

import datetime as dt
import enum
import math
import uuid
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
from gpu_wcoj.errors import (
    GpuWcojError,
    SchemaError,
    TypeMismatchError,
    UnsupportedTypeError,
    WeightError,
)


class Color(str, enum.Enum):
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
    "NumPy's days": ([np.datetime64("2020-01-01"), None, np.datetime64("NaT")], [dt.date(2020, 1, 1), None, None]),
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
    "integers of 64 bits without sign": ([2**63, 1], UNSUPPORTED),
    "decimals of 19 digits": ([Decimal("1234567890123456789")], UNSUPPORTED),
    "a decimal of 300 digits": ([Decimal("1E+300")], UNSUPPORTED),
    "decimals that need 20 digits together": ([Decimal("1E-18"), Decimal("10")], UNSUPPORTED),
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
    "UUIDs": ([uuid.UUID(int=1)], UNSUPPORTED),
    "complex numbers": ([1j], UNSUPPORTED),
    "NumPy's complex numbers": ([np.complex64(1j)], UNSUPPORTED),
    "half floats": ([np.float16(1.5)], UNSUPPORTED),
    "long floats": ([np.longdouble(1.5)], UNSUPPORTED),
    "NumPy's durations": ([np.timedelta64(1, "ns")], UNSUPPORTED),
    "NumPy's hours": ([np.datetime64("2020-01-01T05")], UNSUPPORTED),
    "NumPy's raw bytes": ([np.void(b"ab")], UNSUPPORTED),
    "days beyond 32 bits": ([np.datetime64(2**62, "D")], UNSUPPORTED),
    "arrays without dimensions": ([1, np.array(2)], UNSUPPORTED),
    "masked": ([1, np.ma.masked], UNSUPPORTED),
    "pandas' NA": ([1, pd.NA], UNSUPPORTED),
    "pandas' NaT": ([dt.datetime(2020, 1, 1), pd.NaT], UNSUPPORTED),
    "pandas' times": ([pd.Timestamp("2020-01-01T00:00:00.000000001")], UNSUPPORTED),
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
    return rows_of(gw.query("h(x) :- e(x).", e=data, bag=True))


def through_sql(data: Any) -> list[Any]:
    name = "c0" if isinstance(data, (list, np.ndarray)) and getattr(data, "dtype", np.dtype("O")).names is None else "x"
    return rows_of(gw.query(f"select {name} from e", {"e": data}))


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
        return shown(door(data))
    except GpuWcojError as error:
        assert str(error).count("\n") >= 1, f"nothing is said of what to do: {error}"
        return type(error)


def expected(values: list[Any], says: Any) -> Any:
    return says if isinstance(says, type) else shown(values if says is SAME else says)


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
