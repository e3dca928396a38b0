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
    }  # fmt: skip


def _table(rows: Sequence[tuple[object, ...]], **types: pa.DataType) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table({name: pa.array(values, kind) for (name, kind), values in zip(types.items(), columns, strict=True)})
