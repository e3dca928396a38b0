"""Views in one place and on cells: the same program, sources and options give the same to whoever asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj import Program
from gpu_wcoj.errors import CheckpointError, CheckpointMismatchError, SchemaError, UsageError
from tests.spark.file_streams import assert_same, payments, write_stream

TEXT = """
far(a, c) :- edge(a, b), edge(b, c), a != c.
triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).
named(a, weight) :- edge(a, b), name(b, weight).
.output far
.output triangle
.output named
"""
EDGE = "src bigint, dst bigint, weight bigint"


def written(place: Path) -> list[pa.Table]:
    """A table of edges and four files of changes, and a table of names that are null, equal and empty."""
    tables = payments(5, 590, 60, seed=7)
    write_stream(place / "first", tables[:1])
    write_stream(place / "changes", tables[1:])
    names = [None if i % 7 == 0 else "" if i % 5 == 0 else f"n{i % 11}" for i in range(60)]
    write_stream(place / "names", [pa.table({"node": range(60), "name": names})])
    return tables


def view_of(spark: Any, place: Path, layout: str, **options: Any) -> Any:
    first = spark.read.schema(EDGE).parquet(str(place / "first"))
    stream = spark.readStream.schema(EDGE).option("maxFilesPerTrigger", 1).parquet(str(place / "changes"))
    return gws.maintain(
        {"edge": [first, stream], "name": spark.read.parquet(str(place / "names"))},
        options.pop("text", TEXT), changes={"edge": "weight", "name": "append"}, layout=layout,
        cells=None if layout == "one" else 3,
        checkpoint=place / layout / "checkpoint", **options,
    )  # fmt: skip


def run(view: Any) -> Any:
    view.start("availableNow")
    view.wait()
    return view


@pytest.mark.parametrize("layout", ["hypercube", "replicated"])
def test_what_a_view_tells(spark: Any, tmp_path: Path, layout: str) -> None:
    written(tmp_path)
    views = {
        one: run(view_of(spark, tmp_path, one, output=tmp_path / one / "out", keep=["far"])) for one in ("one", layout)
    }
    alone, spread = views.values()
    for name in ("far", "triangle", "named"):
        found, expected = (gws.read_output(spark, tmp_path / one / "out", name).toArrow() for one in views)
        assert_same(expected, found)
        assert found.num_rows > 100
        assert set(found["batch"].to_pylist()) == {-1, 0, 1, 2, 3}
    assert spread.answers == alone.answers
    assert spread.progress.keys() == alone.progress.keys()
    for key in ("batch", "rows", "changes", "answers", "skipped", "hint"):
        assert spread.progress[key] == alone.progress[key]
    assert spread.progress["spark"]["numInputRows"] == alone.progress["spark"]["numInputRows"] > 0
    assert spread.progress["checkpoint_bytes"] > 0
    restored = gws.View.restore(tmp_path / layout / "checkpoint", backend="cpu")
    for name in ("edge", "name", "far", "triangle", "named"):
        rows = alone.relation(name).to_dict()
        assert spread.count(name) == alone.count(name) == restored.count(name) == len(rows) > 40
        assert spread.relation(name).to_dict() == restored.relation(name).to_dict() == rows
        assert spread.program.relation(name).to_dict() == rows
        assert restored.relation(name).names == alone.relation(name).names
    assert f"layout {layout}, 3 cells: as asked for" in spread.explain()
    assert "far: is kept" in spread.explain()
    assert alone.explain().startswith("layout one, in the driver: as asked for")
    with pytest.raises(CheckpointError, match=r"spread over cells.*\n.*View\.restore"):
        Program.restore(tmp_path / layout / "checkpoint" / "engine")
    with pytest.raises(CheckpointMismatchError, match="in its kept heads"):
        view_of(spark, tmp_path, layout, output=tmp_path / layout / "out").load()


def test_functions_and_formats_get_what_cells_change(spark: Any, tmp_path: Path) -> None:
    written(tmp_path)
    seen: dict[str, list[Any]] = {"one": [], "hypercube": []}
    for layout, batches in seen.items():
        view = view_of(
            spark, tmp_path, layout, output=lambda changes, batch, to=batches: to.append((batch, changes)),
            emit_loaded=layout == "one",
        )  # fmt: skip
        run(view)
    assert [batch for batch, _ in seen["hypercube"]] == [-1, 0, 1, 2, 3]
    assert all(table.num_rows == 0 for table in seen["hypercube"][0][1].values())  # emit_loaded=False
    for (_, expected), (_, found) in zip(seen["one"][1:], seen["hypercube"][1:], strict=True):
        assert found.keys() == expected.keys()
        for name, table in expected.items():
            assert_same(found[name], table.cast(found[name].schema))
    assert not list((tmp_path / "hypercube").glob("**/handed/*/*.parquet"))

    options = {"format": "json", "options": {"compression": "gzip"}}
    view = run(view_of(spark, tmp_path, "replicated", output=tmp_path / "json", **options))
    schema = "a bigint, b bigint, c bigint, weight bigint, batch bigint"
    rows = spark.read.schema(schema).json(str(tmp_path / "json" / "triangle")).toArrow()
    assert list((tmp_path / "json" / "triangle").glob("*.json.gz"))
    expected = pa.concat_tables(
        table["triangle"].append_column("batch", pa.repeat(pa.scalar(batch), table["triangle"].num_rows))
        for batch, table in seen["one"]
    )
    assert_same(rows, expected)
    assert view.answers["triangle"] == view.program.count("triangle") > 0


def test_a_function_gets_a_batch_again_that_was_not_committed(spark: Any, tmp_path: Path) -> None:
    written(tmp_path)
    seen: list[tuple[int, dict[str, pa.Table]]] = []

    def receiver(changes: dict[str, pa.Table], batch: int) -> None:
        seen.append((batch, changes))
        if len(seen) == 3:
            raise RuntimeError("the table is locked")

    with pytest.raises(Exception, match="the table is locked"):
        run(view_of(spark, tmp_path, "hypercube", output=receiver))
    assert list((tmp_path / "hypercube").glob("**/handed/*/*.parquet"))
    run(view_of(spark, tmp_path, "hypercube", output=receiver))
    assert [batch for batch, _ in seen] == [-1, 0, 1, 1, 2, 3]
    for name, table in seen[2][1].items():
        assert_same(seen[3][1][name], table)
    assert not list((tmp_path / "hypercube").glob("**/handed/*/*.parquet"))


def test_a_table_and_a_stream_of_one_relation(spark: Any, tmp_path: Path) -> None:
    """The table has no versions, and counts by its weights; in the stream the last operation on a row wins."""
    write_stream(tmp_path / "first", [pa.table({"a": [1, 2, 5, 5], "b": [2, 3, 6, 6], "weight": [1, 1, 1, -1]})])
    stream = [
        pa.table({"a": [3, 3, 1], "b": [1, 1, 2], "weight": [1, -1, 1], "version": [2, 1, 3]}),
        pa.table({"a": [2], "b": [3], "weight": [-1], "version": [4]}),
    ]
    write_stream(tmp_path / "changes", stream)
    for layout in ("one", "hypercube"):
        first = spark.read.parquet(str(tmp_path / "first"))
        schema = "a bigint, b bigint, weight bigint, version bigint"
        changes = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "changes"))
        view = gws.maintain(
            {"edge": [first, changes]}, "hop(a, c) :- edge(a, b), edge(b, c). e(a, b) :- edge(a, b).",
            changes={"edge": ("weight", "weight")}, order_by="version",
            layout=layout, cells=None if layout == "one" else 2,
            checkpoint=tmp_path / layout / "ckpt", output=tmp_path / layout / "out",
        )  # fmt: skip
        run(view)
        found = sorted(map(tuple, gws.read_output(spark, tmp_path / layout / "out", "e").collect()))
        assert found == [(1, 2, 1, -1), (2, 3, -1, 1), (2, 3, 1, -1), (3, 1, 1, 0)]
        assert view.answers == {"hop": 1, "e": 2}
        assert view.relation("hop").rows() == [((3, 2), 1)]


def test_sources_of_one_relation_that_do_not_go_together(spark: Any, tmp_path: Path) -> None:
    table = spark.range(3).selectExpr("id AS src", "id AS dst")
    stream = spark.readStream.schema("src bigint, dst bigint").parquet(str(tmp_path))
    for pair, message in (([stream, stream], "a stream, a stream"), ([stream, table], "a stream, a table")):
        with pytest.raises(UsageError, match=f"the sources of 'edge' are {message}"):
            gws.maintain({"edge": pair}, "p(a) :- edge(a, b).", changes="append", checkpoint=tmp_path / "ckpt")
    for other in (table.selectExpr("dst", "src AS source"), table.selectExpr("CAST(src AS int)", "dst")):
        with pytest.raises(SchemaError, match="Select, rename and cast"):
            gws.maintain({"edge": [other, stream]}, "p(a) :- edge(a, b).", changes="append", checkpoint=tmp_path / "c")


SQL = """
SELECT n.name, count(*) AS payments, sum(e.weight) AS amount, avg(e.dst) AS mean, min(e.src) AS least
FROM edge e JOIN name n ON e.src = n.node
WHERE NOT EXISTS (SELECT 1 FROM edge back WHERE back.src = e.dst AND back.dst = e.src)
GROUP BY n.name HAVING count(*) > 2
"""


@pytest.mark.parametrize("layout", ["hypercube", "replicated"])
def test_sql_that_groups(spark: Any, tmp_path: Path, layout: str) -> None:
    written(tmp_path)
    views = {
        one: run(view_of(spark, tmp_path, one, text=SQL.replace("e.weight", "e.dst"), output=tmp_path / one / "out"))
        for one in ("one", layout)
    }
    found, expected = (gws.read_output(spark, tmp_path / one / "out", "answer").toArrow() for one in (layout, "one"))
    assert_same(expected, found)
    assert found.num_rows > 20
    assert views[layout].answers == views["one"].answers
    assert views[layout].progress["changes"] == views["one"].progress["changes"]
    assert "groups answer" in views[layout].explain()
