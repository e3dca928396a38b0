"""The same changes in every format, as rows and a schema: what a source would have written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

EXPECTED = [((1, 2), 1), ((2, 3), 1), ((1, 3), 1), ((2, 3), -1), ((1, 3), -1), ((1, 4), 1)]
"""In order: three edges come, (2, 3) goes, and (1, 3) becomes (1, 4)."""

CAME = [row for row, weight in EXPECTED if weight > 0]


@dataclass(frozen=True)
class Case:
    """Rows of one format."""

    changes: str
    schema: str
    rows: list[Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    expected: list[tuple[tuple[int, int], int]] = field(default_factory=lambda: EXPECTED)


def coded(*codes: Any) -> list[tuple[Any, ...]]:
    """The expected rows, each with its code and its place."""
    return [(*row, code, place) for place, ((row, _), code) in enumerate(zip(EXPECTED, codes, strict=True))]


EDGE = "struct<src: int, dst: int>"

EVENTS = [
    ("r", None, (1, 2), 0),
    ("c", None, (2, 3), 1),
    ("c", None, (1, 3), 2),
    ("d", (2, 3), None, 3),
    ("u", (1, 3), (1, 4), 4),
]

CASES = {
    "append": Case("append", "src int, dst int, place int", [(*row, i) for i, row in enumerate(CAME)], expected=[
        (row, 1) for row in CAME
    ]),
    "weight": Case("weight", "src int, dst int, weight smallint, place int", coded(1, 1, 1, -1, -1, 1)),
    "weight under another name": Case(
        "weight", "src int, dst int, n bigint, place int", coded(1, 1, 1, -1, -1, 1), {"column": "n"}
    ),
    "sign": Case("sign", "src int, dst int, sign tinyint, place int", coded(1, 1, 1, -1, -1, 1)),
    "op": Case("op", "src int, dst int, op string, place int", coded("c", "I", "insert", "DELETE", "-U", "+u")),
    "op with codes": Case(
        "op",
        "src int, dst int, kind string, place int",
        coded("new", "new", "new", "old", "old", "new"),
        {"column": "kind", "codes": {"new": 1, "old": -1}},
    ),
    "op with numbers": Case(
        "op", "src int, dst int, op int, place int", coded(7, 7, 7, 9, 9, 8), {"codes": {7: 1, 8: 1, 9: -1}}
    ),
    "delta_cdf": Case(
        "delta_cdf",
        "src int, dst int, _change_type string, _commit_version bigint",
        coded("insert", "insert", "insert", "delete", "update_preimage", "update_postimage"),
        {"order_by": "_commit_version"},
    ),
    "iceberg": Case(
        "iceberg",
        "src int, dst int, _change_type string, _change_ordinal int",
        coded("INSERT", "INSERT", "INSERT", "DELETE", "UPDATE_BEFORE", "UPDATE_AFTER"),
        {"order_by": "_change_ordinal"},
    ),
    "flink": Case(
        "flink", "src int, dst int, row_kind string, place int", coded("+I", "+I", "INSERT", "-D", "-U", "+U")
    ),
    "risingwave": Case(
        "risingwave", "src int, dst int, changelog_op smallint, place int", coded(1, 1, 1, 2, 4, 3)
    ),
    "debezium": Case(
        "debezium",
        f"op string, before {EDGE}, after {EDGE}, place int",
        EVENTS,
    ),
    "debezium in a payload": Case(
        "debezium",
        f"payload struct<before: {EDGE}, after: {EDGE}, op: string, source: struct<lsn: bigint>>",
        [((before, after, op, (place,)),) for op, before, after, place in EVENTS],
        {"column": "payload", "order_by": "payload.source.lsn"},
    ),
}  # fmt: skip
"""Every format; where `arguments` name no order, the column ``place`` is it."""
