"""Random graphs with columns, motifs and conditions over them, for the tests of this folder."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from gpu_wcoj.query.motif import Motif

Row = dict[str, Any]

VERTICES = pa.schema([("id", pa.int64()), ("colour", pa.string()), ("size", pa.int64())])
EDGES = pa.schema([("src", pa.int64()), ("dst", pa.int64()), ("amount", pa.int64()), ("kind", pa.string())])

MOTIFS = (
    "(a)", "(a)-[]->(b)", "(a)-[e]->(b)", "()-[e]->()", "(a)-[]->()", "()-[e]->(b)", "(a)-[e]->(a)", "(a)<-[e]-(b)",
    "(a)<-[e]->(b)", "(a)<-[]->(b)", "(a)-[e]-(b)", "(a)-[]-(b)", "(a)-[]-(a)", "(a)-[]-()",
    "(a)-[e]->(b); (b)-[f]->(c)", "(a)-[e]->(b); (b)-[f]->(c); (c)-[g]->(a)", "(a)-[]->(b); (b)-[]->(c); (c)-[]->(a)",
    "(a)-[e]->(b); (a)-[f]->(b)", "(a)-[]->(b); (a)-[]->(b)", "(a)-[e]->(b); (c)-[e]->(d)",
    "(a)-[e]-(b); (b)-[f]->(c)", "(a)-[e]-(b); (b)-[]-(a)", "(a)-[e]-(b); (c)-[e]->(d)", "(a)-[]->(b); !(b)-[]->(a)",
    "(a)-[e]-(b); (b)-[e]-(c)", "(a)-[e]-(b); (a)-[f]->(b)", "(a)-[]-(b); (b)-[]->(a)",
    "(a)-[]->(b); !(b)-[]->()", "(a)-[]->(b); !()-[]->(a)", "!(a)-[]->(b)", "!(a)-[]->()", "!(a)-[]->(a)",
    "(a); !(a)-[]->(b)", "(a)-[e]->(b); !(b)-[]->(c); !(c)-[]->(a)", "(a)-[]->(b); (b)-[]->(c); !(a)-[]->(d)",
    "(a)-[*2]->(b)", "(a)-[e*2]->(b)", "(a)-[e*3]->(a)", "(a)-[e*1]->(b)", "(a)<-[e*2]-(b)", "(a)-[*2]->()",
    "()-[e*2]->()", "(a)-[e*1..3]->(b)", "(a)-[*..2]->(b)", "(a)-[e*2]-(b)", "(a)-[e*1..2]-(b)", "(a)<-[e*1..2]-(b)",
    "(a)-[e*1..2]->(b); (b)-[f]->(c)", "(a)-[*1..2]->(b); !(b)-[]->(a)", "(a)<-[*2]->(b)", "(a); (b)",
    "(a)-[e]->(b); (c)-[f]->(d)", "(a)-[e]->(b); (b)<-[f]-(c); (c)-[]-(d)",
)  # fmt: skip


def vertices(rows: Iterable[Row], weights: Iterable[int] | None = None) -> pa.Table:
    return table(rows, VERTICES, weights)


def edges(rows: Iterable[Row], weights: Iterable[int] | None = None) -> pa.Table:
    return table(rows, EDGES, weights)


def table(rows: Iterable[Row], schema: pa.Schema, weights: Iterable[int] | None = None) -> pa.Table:
    found = pa.Table.from_pylist(list(rows), schema)
    return found if weights is None else found.append_column("weight", pa.array(list(weights), pa.int64()))


def vertex(chance: random.Random, number: int) -> Row:
    return {"id": number, "colour": chance.choice(["red", "blue", None]), "size": chance.choice([1, 2, 3, None])}


def edge(chance: random.Random, ends: list[int]) -> Row:
    src, dst = chance.choice(ends), chance.choice(ends)
    return {"src": src, "dst": dst, "amount": chance.choice([1, 2, None]), "kind": chance.choice(["p", "q"])}


def graph(chance: random.Random) -> tuple[list[Row], list[Row]]:
    """A few vertices and edges: loops, parallel and equal edges, now and then an end that is no vertex."""
    numbers = chance.sample(range(10), chance.randint(1, 5))
    ends = [*numbers, 99] if chance.random() < 0.3 else numbers
    return [vertex(chance, one) for one in numbers], [edge(chance, ends) for _ in range(chance.randint(0, 7))]


def counted(rows: Iterable[Row]) -> Counter[Any]:
    """Rows with dictionaries in them, counted."""
    return Counter(map(frozen_row, rows))


def frozen_row(row: Row) -> tuple[Any, ...]:
    return tuple((name, tuple(one.items()) if isinstance(one, dict) else one) for name, one in sorted(row.items()))


def schema_of(motif: Motif, has_vertices: bool) -> pa.Schema:
    """The types of a motif's columns."""
    vertex_type = pa.struct(list(VERTICES)) if has_vertices else pa.struct([("id", pa.int64())])
    kinds = dict.fromkeys(motif.vertices, vertex_type) | dict.fromkeys(motif.edges, pa.struct(list(EDGES)))
    told = {name: pa.int64() if "hop" in name else pa.string() for name in motif.columns if name not in kinds}
    return pa.schema([(name, (kinds | told)[name]) for name in motif.columns])


def condition(chance: random.Random, motif: Motif, has_vertices: bool, depth: int = 0) -> str:
    """A random condition in SQL."""
    roll = chance.random()
    if depth < 3 and roll < 0.58:
        left, right = (condition(chance, motif, has_vertices, depth + 1) for _ in range(2))
        return f"({left} AND {right})" if roll < 0.25 else f"({left} OR {right})" if roll < 0.5 else f"NOT ({left})"
    told = [name for name in motif.columns if "_direction" in name or "_hop" in name]
    if told and roll < 0.65:
        name = chance.choice(told)
        return f"{name} = 'out'" if "_direction" in name else f"{name} >= 2"
    if roll < 0.75:
        op = chance.choice(["=", "!=", "<>", "<", "<=", ">", ">="])
        return f"{number(chance, motif, has_vertices)} {op} {number(chance, motif, has_vertices)}"
    texts = [f"{one}.colour" for one in motif.vertices if has_vertices] + [f"{one}.kind" for one in motif.edges]
    column = number_column(chance, motif, has_vertices)
    of_numbers = [
        f"{column} IN (1, 2, 3)", f"{column} NOT IN (1, 2)", f"{column} BETWEEN 1 AND 2", f"{column} IS NOT NULL",
        f"{column} NOT BETWEEN 1 AND 2", f"{column} IS NULL", f"{column} IN (1, NULL)", f"{column} NOT IN (1, NULL)",
        f"({column} + 1) IS NULL", f"{column} IN (1.5, 2)", f"abs({column} - 2) = 1", f"{column} / 2 > 1", "TRUE",
        f"{column} % 2 = 1", f"{column} IN (NULL)", f"{column} NOT IN (1, 4, 5, 6, 7, 8)",
    ]  # fmt: skip
    if not texts or chance.random() < 0.6:
        return chance.choice(of_numbers)
    text = chance.choice(texts)
    return chance.choice(
        [
            f"{text} = 'red'", f"{text} IN ('red', 'p')", f"{text} NOT IN ('blue')", f"{text} IS NULL",
            f"{text} LIKE 'r%'", f"{text} NOT LIKE '%e%'", f"upper({text}) = 'RED'", f"length({text}) < 4",
        ]
    )  # fmt: skip


def number(chance: random.Random, motif: Motif, has_vertices: bool, depth: int = 0) -> str:
    roll = chance.random()
    if roll < 0.3 or depth > 1:
        return str(chance.choice([0, 1, 2, 3, 1.5]))
    if roll < 0.75:
        return number_column(chance, motif, has_vertices)
    left, right = (number(chance, motif, has_vertices, depth + 1) for _ in range(2))
    return (
        f"({left} {chance.choice('+-*')} {right})" if roll < 0.9 else f"-{number_column(chance, motif, has_vertices)}"
    )


def number_column(chance: random.Random, motif: Motif, has_vertices: bool) -> str:
    of_vertices = [f"{one}.{name}" for one in motif.vertices for name in (("id", "size") if has_vertices else ("id",))]
    return chance.choice(of_vertices + [f"{one}.{name}" for one in motif.edges for name in ("src", "dst", "amount")])
