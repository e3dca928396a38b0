"""Programs on cells against the engine alone: batch and stream, both layouts, several numbers of cells."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import pyarrow as pa
import pyarrow.parquet as pq

from gpu_wcoj import Program, ZSet
from gpu_wcoj.spark import normalise
from gpu_wcoj.spark.cells.commit import CellRun
from gpu_wcoj.spark.listing import Listing

TRIANGLE = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."

Tick = dict[str, list[tuple[Any, ...]]]
"""Per relation, rows with their weight last."""


def random_ticks(seed: int, n: int, rows: int, nodes: int, relations: Sequence[str] = ("edge",)) -> list[Tick]:
    """Ticks of insertions, and of deletions of a third of what is there."""
    rnd = random.Random(seed)
    held: dict[str, set[tuple[int, int]]] = {name: set() for name in relations}
    ticks = []
    for _ in range(n):
        tick: Tick = {}
        for name in relations:
            gone = set(rnd.sample(sorted(held[name]), len(held[name]) // 3))
            come = {(rnd.randrange(nodes), rnd.randrange(nodes)) for _ in range(rows)} - held[name]
            held[name] = held[name] - gone | come
            tick[name] = [(*row, -1) for row in sorted(gone)] + [(*row, 1) for row in sorted(come)]
        ticks.append(tick)
    return ticks


def alone(text: str, ticks: Sequence[Tick], bag: bool = False) -> list[dict[str, Counter[Any]]]:
    """What the engine alone answers, tick by tick."""
    program = Program(text, bag=bag, backend="cpu")
    found = []
    for tick in ticks:
        changes = {}
        for name, rows in tick.items():
            net: Counter[Any] = Counter()
            for *row, weight in rows:
                net[tuple(row)] += weight
            changes[name] = ZSet.from_dict({row: weight for row, weight in net.items() if weight})
        found.append({name: Counter(rows.to_dict()) for name, rows in program.step(changes).items()})
    return found


def written(place: Path) -> dict[int, dict[str, Counter[Any]]]:
    """The rows that a folder of outputs lists, batch by batch, added up."""
    listing = Listing(place)
    found: dict[int, dict[str, Counter[Any]]] = {}
    for batch in listing.batches():
        found[batch] = {name: Counter() for name in listing.read(batch)["relations"]}
        for path, n_rows, size, _ in listing.read(batch)["files"]:
            assert (place / path).stat().st_size == size
            table = pq.read_table(place / path, page_checksum_verification=True)
            assert table.num_rows == n_rows
            for *row, weight, of in zip(*(column.to_pylist() for column in table.columns), strict=True):
                assert of == batch
                found[batch][path.split("/")[0]][tuple(row)] += weight
    return found


class Stream:
    """Changes as files, one a tick, that a run reads as streams."""

    def __init__(self, spark: Any, folder: Path, schemas: Mapping[str, str]) -> None:
        self.spark, self.folder, self.schemas = spark, folder, schemas
        self.n = 0
        for name in schemas:
            (folder / name).mkdir(parents=True)

    def add(self, tick: Tick) -> None:
        """Write a tick."""
        for name, schema in self.schemas.items():
            kind = pa.schema(_arrow(schema))
            columns = list(zip(*tick.get(name, []), strict=True)) or [[] for _ in kind]
            table = pa.table([pa.array(list(c), f.type) for c, f in zip(columns, kind, strict=True)], schema=kind)
            pq.write_table(table, self.folder / name / f"{self.n:06}.parquet")
        self.n += 1

    def frames(self) -> dict[str, Any]:
        """The normalised streams, one file of each relation a batch."""
        return {
            name: normalise(
                self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder / name)),
                "weight",
            )
            for name, schema in self.schemas.items()
        }

    def run(self, text: str, place: Path, **options: Any) -> CellRun:
        """Take in all that has been written; a new run goes through the empty load first."""
        frames = self.frames()
        run = CellRun.open(
            text,
            {name: frame.schema for name, frame in frames.items()},
            checkpoint=place / "state",
            output=place / "out",
            **options,
        )
        with run:
            if run.is_new:
                run.load({})
            query = (
                run.frame(frames)
                .writeStream.foreachBatch(run.commit)
                .option("checkpointLocation", str(place / "spark"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        return run


def _arrow(schema: str) -> Iterator[pa.Field]:
    kinds = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}
    for part in schema.split(", "):
        name, kind = part.split()
        yield pa.field(name, kinds[kind])


def check(
    spark: Any, place: Path, text: str, ticks: Sequence[Tick], schemas: Mapping[str, str], **options: Any
) -> CellRun:
    """Run ticks on cells and alone; every batch's changes must be the same rows with the same weights."""
    stream = Stream(spark, place / "in", schemas)
    for tick in ticks:
        stream.add(tick)
    run = stream.run(text, place, **options)
    expected = alone(text, ticks, options.get("bag", False))
    found = written(place / "out")
    assert sorted(found) == list(range(-1, len(ticks)))
    for batch, answers in enumerate(expected):
        for name, rows in answers.items():
            got = {row: weight for row, weight in found[batch][name].items() if weight}
            assert got == dict(rows), (batch, name)
    assert any(rows for answers in expected for rows in answers.values())
    return run


EDGE = {"edge": "a int, b bigint, weight int"}


@pytest.mark.parametrize(("layout", "cells"), [("hypercube", 4)])
def test_stream_of_triangles(spark: Any, tmp_path: Path, layout: str, cells: int) -> None:
    run = check(spark, tmp_path, TRIANGLE, random_ticks(1, 3, 300, 40), EDGE, layout=layout, cells=cells)
    assert run.progress["batch"] == 2
    assert run.progress["load"][0]["largest"] >= run.progress["load"][0]["mean"] > 0
