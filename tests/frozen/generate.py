"""Write ``programs.jsonl``: the random programs, by the generators of the other tests.

The texts are stored, so that they stay when a generator changes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bench.suite.random_queries import random_query
from tests.frozen.cases import PROGRAMS, tables_of
from tests.helpers.sql_conditions import FEATURES
from tests.helpers.sql_queries import Writer
from tests.helpers.sql_tables import random_tables
from tests.reference.random_programs import chance_text, random_text

SIGNED = [0, 1, 2, -2, 7, 3]


def programs() -> Iterator[dict[str, Any]]:
    """Fields of cases: joins, strata with loops, aggregates and negation, conjunctive queries, SQL."""
    for seed in range(70):
        fields: dict[str, Any] = {"nulls": 0.2} if seed % 5 == 0 else {}
        if seed % 2:
            fields |= {"bag": True, "signed": True}
        yield _datalog(f"join {seed}", random_text(random.Random(seed)), **fields)
    for seed in range(60):
        text = random_query(seed)
        yield _datalog(f"query {seed}", replace(text, is_textual=False).text, bag=seed % 3 == 2)
    for seed in range(60):
        negative = seed % 3 > 0
        text = chance_text(random.Random(f"set {seed}"), negative)
        yield _datalog(f"strata {seed}", text, **({"values": SIGNED} if negative else {}))
    for seed in range(30):
        text = chance_text(random.Random(f"bag {seed}"), negative=True)
        yield _datalog(f"strata, bag {seed}", text, bag=True, values=SIGNED)
    for seed in range(20):
        text = chance_text(random.Random(f"null {seed}"), seed % 3 > 0)
        yield _datalog(f"strata, null {seed}", text, bag=seed % 2 == 0, nulls=0.2)
    for seed in range(20):
        text = chance_text(random.Random(f"nested {seed}"), negative=True, nested=True)
        yield _datalog(f"nested {seed}", text, bag=seed % 2 == 0, values=SIGNED)
    kinds = {"int", "text", "float", "truth"}
    n_queries = seed = 0
    while n_queries < 40:
        chance = random.Random(f"frozen {seed}")
        seed += 1
        tables = random_tables(chance)
        if not all(column.kind in kinds for table in tables for column in table.columns):
            continue
        text = Writer(chance, tables, FEATURES - {"views"}).query()[0]
        columns = {table.name: {column.name: column.kind for column in table.columns} for table in tables}
        yield {
            "name": f"SQL {n_queries}",
            "text": text,
            "tables": columns,
            "language": "sql",
            "bag": True,
            "nulls": 0.15,
        }
        n_queries += 1


def _datalog(name: str, text: str, **fields: Any) -> dict[str, Any]:
    tables = {table: len(columns) for table, columns in tables_of(text).items()}
    return {"name": name, "text": text, "tables": tables} | {key: value for key, value in fields.items() if value}


def write() -> None:
    """Replace ``programs.jsonl``."""
    PROGRAMS.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in programs()))
