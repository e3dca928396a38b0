"""Small tables with nulls and equal rows, which the statements of `bench.sql` read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

_EMP = [
    (1, "Anna", 1, None, "4100.00", "2020-03-01", 100.0, True),
    (2, "Ben", 1, 1, "3100.50", "2021-05-17", None, True),
    (3, "Carla", 2, 1, "2800.00", "2021-05-17", 250.5, False),
    (4, "Dan", 2, 3, "1900.00", "2022-11-30", 100.0, None),
    (5, "Eva", None, 3, "2800.00", None, None, True),
    (6, "anna", 3, 2, "1500.25", "2023-01-15", 0.0, False),
    (7, None, 9, 2, "2200.00", "2024-02-29", 75.25, True),
    (8, "Hana", 1, 4, None, "2019-07-04", 100.0, False),
]
_DEPT = [
    (1, "Sales", "Oslo", 900_000),
    (2, "Design", "Bern", 350_000),
    (3, "Law", None, 120_000),
    (4, "Lab", "Oslo", None),
]
_SALE = [
    (1, 1, "pen", 3, "1.50", "2024-01-05 09:30:00", "3 pens for anna"),
    (2, 1, "desk", 1, "250.00", "2024-02-10 15:45:10", "heavy"),
    (3, 2, "pen", 10, "1.40", "2024-02-28 00:00:00", "blue pens"),
    (4, 3, "lamp", 2, "39.90", "2024-03-03 11:11:11", None),
    (5, 3, "pen", None, "1.50", "2024-03-03 18:00:00", "no count"),
    (6, None, "desk", 1, "249.00", "2024-03-20 07:05:00", " returned "),
    (7, 6, "lamp", 4, None, "2024-04-01 23:59:59", ""),
    (8, 8, None, 1, "12.00", None, "unknown item"),
    (9, 2, "pen", 10, "1.40", "2024-02-28 00:00:00", "blue pens"),
]
_NUM = [
    (1, 2, 1.5, 1, 10_000_000_000, "a"),
    (2, 1, -2.25, -3, 7, "b"),
    (2, 3, None, 5, None, "a"),
    (3, 3, float("nan"), None, -8, None),
    (3, 2, float("inf"), 7, 0, "c"),
    (None, 1, 0.0, 2, 7, "b"),
    (4, None, 1e12, 2, 9, "a"),
    (2, 1, -2.25, -3, 7, "b"),
    (0, 0, 3.75, 0, 1, ""),
]


_LARGE = 2**63 - 1
_NAN, _INFINITY = float("nan"), float("inf")
_LIMITS = [
    (1, 1.5, "1.10", "123456789012345678.1234567890", _LARGE, 127, "a"),
    (2, _NAN, "-2.25", None, -_LARGE - 1, -128, "b"),
    (2, _INFINITY, "0.00", "0.0000000001", 0, 1, "a"),
    (3, -_INFINITY, None, "-5", 1, None, "c"),
    (3, -0.0, "99999.99", "7.5", None, 0, None),
    (None, 0.0, "1.10", "7.5000000000", _LARGE, 3, "b"),
    (4, None, "0.05", "-123456789012345678.1234567890", -1, -7, "a"),
    (4, _NAN, "0.05", "2", 5, 7, ""),
    (2, _INFINITY, "0.00", "0.0000000001", 0, 1, "a"),
    (0, 1e308, "3.33", "1", 2, 2, "d"),
    (5, 1e308, "3.34", "1", 2, 2, "d"),
]
_WORDS = [
    (1, "", "x%y"),
    (2, "\u00dcn\u00efc\u00f6d\u00e9", "a_b"),
    (3, "stra\u00dfe", "A_B"),
    (4, "\u65e5\u672c\u8a9e", "%"),
    (5, None, "\\"),
    (6, "\u0130stanbul", ""),
    (7, "e\u0301a", "a\nb"),
    (8, "\U0001f469\u200d\U0001f469\u200d\U0001f467 fam", " x "),
    (9, "  pad ", None),
    (10, "abc123def", "x,y,,z"),
    (10, "ABC", "12"),
    (11, "abc", "1e3"),
    (12, "o'k", "-7.5"),
    (13, "A.b*c", "2024-02-29"),
    (14, "\u00df", "true"),
]
_TIMES = [
    (1, "2024-01-31", "2024-03-31 01:30:00", "2024-03-31 01:30:00"),
    (2, "2024-02-29", "2024-03-31 02:30:00", "2024-03-31 00:59:59.999999"),
    (3, "2023-02-28", "2024-10-27 02:30:00", "2024-10-27 00:30:00"),
    (4, "2024-12-31", "2024-12-31 23:59:59.999999", "2024-10-27 01:30:00"),
    (5, None, None, None),
    (6, "1969-12-31", "1969-12-31 23:59:59.500000", "1969-12-31 23:00:00"),
    (7, "1900-02-28", "1900-03-01 00:00:00", "1900-03-01 00:00:00"),
    (8, "2024-02-29", "2024-02-29 12:00:00", None),
    (9, "2020-12-28", "2021-01-03 00:00:00", "2021-01-03 05:00:00"),
    (3, "2023-02-28", "2024-10-27 02:30:00", "2024-10-27 00:30:00"),
]
_PAIRS = [(1, 1, 10), (1, 2, 20), (2, 1, None), (2, 3, 5), (3, None, 7), (None, 1, 1), (4, 4, 0), (1, 2, 20)]
_ODD = [(1, 2, "k"), (2, None, None), (1, 2, "k")]


def tables() -> dict[str, pa.Table]:
    """Return the tables by name."""
    date, money = dt.date.fromisoformat, Decimal
    emp = [(*row[:4], row[4] and money(row[4]), row[5] and date(row[5]), *row[6:]) for row in _EMP]
    sale = [
        (
            *row[:4],
            row[4] and money(row[4]),
            row[5] and dt.datetime.fromisoformat(row[5]),
            row[5] and date(row[5][:10]),
            row[6],
        )
        for row in _SALE
    ]
    limits = [(*row[:2], row[2] and money(row[2]), row[3] and money(row[3]), *row[4:]) for row in _LIMITS]
    moment = dt.datetime.fromisoformat
    times = [(row[0], row[1] and date(row[1]), *(text and moment(text) for text in row[2:])) for row in _TIMES]
    return {
        "emp": _table(
            emp, id=pa.int32(), name=pa.string(), dept=pa.int32(), boss=pa.int32(), salary=pa.decimal128(8, 2),
            hired=pa.date32(), bonus=pa.float64(), active=pa.bool_(),
        ),
        "dept": _table(_DEPT, id=pa.int32(), title=pa.string(), city=pa.string(), budget=pa.int64()),
        "sale": _table(
            sale, id=pa.int32(), emp=pa.int32(), item=pa.string(), qty=pa.int32(), price=pa.decimal128(6, 2),
            moment=pa.timestamp("us"), day=pa.date32(), note=pa.string(),
        ),
        "num": _table(
            _NUM, i=pa.int32(), j=pa.int32(), d=pa.float64(), s=pa.int16(), b=pa.int64(), x=pa.string()
        ),
        "limits": _table(
            limits, i=pa.int32(), f=pa.float64(), m=pa.decimal128(7, 2), w=pa.decimal128(28, 10), b=pa.int64(),
            t=pa.int8(), x=pa.string(),
        ),
        "words": _table(_WORDS, id=pa.int32(), x=pa.string(), y=pa.string()),
        "times": _table(times, id=pa.int64(), d=pa.date32(), ts=pa.timestamp("us"), tz=pa.timestamp("us", "UTC")),
        "pairs": _table(_PAIRS, a=pa.int64(), b=pa.int64(), v=pa.int64()),
        "nothing": _table(
            [], a=pa.int64(), f=pa.float64(), x=pa.string(), d=pa.date32(), m=pa.decimal128(7, 2)
        ),
        "Odd Names": _table(_ODD, **{"select": pa.int64(), "Group By": pa.int64(), 'a"b': pa.string()}),
    }  # fmt: skip


def _table(rows: Sequence[tuple[object, ...]], **types: pa.DataType) -> pa.Table:
    columns = {name: [row[i] for row in rows] for i, name in enumerate(types)}
    return pa.table({name: pa.array(columns[name], kind) for name, kind in types.items()})
