"""Programs on cells against the engine alone: batch and stream, both layouts, several numbers of cells."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import pyarrow as pa
import pyarrow.parquet as pq

from gpu_wcoj import Program, ZSet
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.errors import UsageError
from gpu_wcoj.spark import normalise
from gpu_wcoj.spark.cluster.driver import CellOptions, CellRun
from gpu_wcoj.spark.cluster.exchange import EXCHANGE
from gpu_wcoj.spark.output import Listing
from tests.helpers.answers import named

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
    program = Program(text, bag=bag, backend="cpu", inputs=named(text))
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
            file = self.folder / name / f"{self.n:06}.parquet"
            pq.write_table(table, file)
            os.utime(file, (1_700_000_000 + self.n,) * 2)  # Spark takes files in the order of their times
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
            cell_options(**options),
            checkpoint=place / "state",
            output=place / "out",
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


def cell_options(**options: Any) -> CellOptions:
    """Options of cells, and of the program among them."""
    names = {declared.name for declared in fields(CellOptions)}
    program = ProgramOptions(**{name: value for name, value in options.items() if name not in names})
    return CellOptions(**{name: value for name, value in options.items() if name in names}, program=program)


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


LAYOUTS = [(layout, cells) for layout in ("hypercube", "replicated") for cells in (1, 3, 4, 8)]

STRATA = """
hop(a, c) :- edge(a, b), edge(b, c), a != c.
busy(a) :- hop(a, b), label(b, "red").
busy(a) :- edge(a, a).
triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).
both(a, b) :- edge(a, b), edge(b, a).
kinds(a, l, m) :- edge(a, b), label(a, l), label(b, m).
.output busy
.output triangle
.output both
.output kinds
"""

STRATA_COLUMNS = {"edge": "a int, b bigint, weight int", "label": "n bigint, name string, weight int"}


def strata_ticks(seed: int, n: int) -> list[Tick]:
    """Ticks of edges, and of labels, some of which are null."""
    rnd = random.Random(seed)
    ticks = random_ticks(seed, n, 60, 25)
    held: set[tuple[int, str | None]] = set()
    for tick in ticks:
        gone = {row for row in held if rnd.random() < 0.3}
        come = {(rnd.randrange(25), rnd.choice(("red", "green", "blü", "", None))) for _ in range(20)} - held
        held = held - gone | come
        tick["label"] = [(*row, -1) for row in gone] + [(*row, 1) for row in come]
    return ticks


def loaded(spark: Any, place: Path, text: str, tick: Tick, schemas: Mapping[str, str], **options: Any) -> CellRun:
    """One tick as tables, on cells and alone."""
    frames = {name: normalise(spark.createDataFrame(tick[name], schema), "weight") for name, schema in schemas.items()}
    columns = {name: frame.schema for name, frame in frames.items()}
    with CellRun.open(text, columns, cell_options(**options), checkpoint=place / "state", output=place / "out") as run:
        run.load(frames)
    (expected,) = alone(text, [tick], options.get("bag", False))
    found = written(place / "out")[-1]
    assert {name: dict(rows) for name, rows in found.items()} == {name: dict(rows) for name, rows in expected.items()}
    assert all(expected.values())
    return run


@pytest.mark.parametrize(("layout", "cells"), LAYOUTS)
def test_tables_of_triangles(spark: Any, tmp_path: Path, layout: str, cells: int) -> None:
    run = loaded(spark, tmp_path, TRIANGLE, random_ticks(1, 1, 300, 40)[0], EDGE, layout=layout, cells=cells)
    assert "triangle: keeps all variables" in run.explain()


@pytest.mark.parametrize(("layout", "cells"), [("hypercube", 3), ("replicated", 4)])
def test_streams_of_several_relations(spark: Any, tmp_path: Path, layout: str, cells: int) -> None:
    run = check(spark, tmp_path, STRATA, strata_ticks(2, 3), STRATA_COLUMNS, layout=layout, cells=cells)
    assert run.progress["batch"] == 2
    load = run.progress["load"][0]
    assert load["largest"] >= load["mean"] > 0
    assert "stage 2: counts derivations of hop" in run.explain()


@pytest.mark.parametrize("layout", ["hypercube", "replicated"])
def test_bags(spark: Any, tmp_path: Path, layout: str) -> None:
    ticks = random_ticks(3, 2, 60, 15)
    ticks[0]["edge"] = [(a, b, 3 * weight) for a, b, weight in ticks[0]["edge"]]
    text = "hop(a, c) :- edge(a, b), edge(b, c). triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
    check(spark, tmp_path, text, ticks, EDGE, layout=layout, cells=4, bag=True)


GROUPS = """
known("red").
known("green").
busy(a, n) :- label(a, _), n = count : { edge(a, b), !label(b, "red") }, n > 1.
top(l, max(b)) :- edge(a, b), label(a, l).
apart(a) :- label(a, l), !edge(a, a), l != null.
fresh(a, c) :- edge(a, b), c = 2 * a + b, label(a, l), !known(l).
same(a, b) :- label(a, l?), label(b, l?), edge(a, b).
total(n) :- n = sum b : { edge(_, b) }.
above(a) :- edge(a, b), total(n), 100 * b > n.
.output busy
.output top
.output apart
.output fresh
.output same
.output total
.output above
"""


@pytest.mark.parametrize(("layout", "cells"), [("hypercube", 3), ("replicated", 2)])
def test_streams_of_programs_that_negate_calculate_and_aggregate(
    spark: Any, tmp_path: Path, layout: str, cells: int
) -> None:
    stream = Stream(spark, tmp_path / "in", STRATA_COLUMNS)
    ticks = strata_ticks(4, 3)
    for tick in ticks:
        stream.add(tick)
    run = stream.run(GROUPS, tmp_path, layout=layout, cells=cells)
    expected = alone(GROUPS, [{}, *ticks])  # the facts come with the empty load
    found = written(tmp_path / "out")
    for batch, answers in enumerate(expected, -1):
        for name, rows in answers.items():
            assert {row: weight for row, weight in found[batch][name].items() if weight} == dict(rows), (batch, name)
    assert {name: sum(answers[name].total() for answers in expected) for name in expected[0]} == run.answers
    assert all(run.answers.values())
    program = run.state_reader.program(ProgramOptions(backend="cpu"))
    assert {name: program.count(name) for name in run.answers} == run.answers


@pytest.mark.parametrize("layout", ["hypercube", "replicated"])
def test_rows_that_expressions_route(spark: Any, tmp_path: Path, layout: str) -> None:
    """As where the RAPIDS Accelerator runs: in two stages, with deletions, strings and nulls."""
    spark.conf.set(EXCHANGE, "expressions")
    try:
        check(spark, tmp_path, STRATA, strata_ticks(4, 2), STRATA_COLUMNS, layout=layout, cells=3)
    finally:
        spark.conf.unset(EXCHANGE)


def test_an_exchange_that_is_unknown(spark: Any, tmp_path: Path) -> None:
    spark.conf.set(EXCHANGE, "rows")
    try:
        with pytest.raises(UsageError, match="cells.exchange='rows'.*expected 'auto', 'arrow' or 'expressions'"):
            loaded(spark, tmp_path, TRIANGLE, random_ticks(1, 1, 30, 9)[0], EDGE, layout="hypercube", cells=2)
    finally:
        spark.conf.unset(EXCHANGE)
