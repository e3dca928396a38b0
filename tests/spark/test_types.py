"""Times of every kind, in zones with gaps, and columns for which the engine has no place, on any PySpark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj as gw
import gpu_wcoj.spark as gws
from gpu_wcoj.errors import UnsupportedTypeError

TIMES = """
select * from values
  (1L, timestamp'2026-03-08 06:59:59.999999Z', timestamp_ntz'2026-03-08 02:30:00', date'2026-03-08'),
  (2L, timestamp'2026-03-08 07:00:00Z', timestamp_ntz'2026-11-01 01:30:00.000001', date'1900-02-28'),
  (3L, timestamp'2026-11-01 05:30:00Z', null, null),
  (4L, timestamp'2026-11-01 06:30:00Z', timestamp_ntz'1969-12-31 23:59:59', date'9999-12-31')
as times(id, t, n, d)
"""
"""Moments and wall clock times around the hour that New York skips, and the one that it has twice."""

ODD = """
select id, array(id) as tags, named_struct('x', id) as pair, map('k', id) as props, interval '1' hour as span,
       parse_json('{"a": 1}') as doc, cast(1.5 as decimal(38, 18)) as wide, timestamp'2026-01-01 00:00:00Z' as t
from range(1, 4)
"""


BLANKS = "o(id) :- odd(id, _, _, _, _, _, _, _)."


@pytest.fixture(params=["UTC", "America/New_York"])
def zoned(spark, request):
    """The session, in a time zone."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def rows(frame):
    return sorted(map(tuple, frame.collect()), key=repr)


@pytest.mark.parametrize(
    "program",
    ["select id, t, n, d from times", "again(id, t, n, d) :- times(id, t, n, d).", "select id, t from times"],
)
def test_times_of_a_join_come_back_as_they_went_in(zoned, program):
    times = zoned.sql(TIMES)
    expected = times if " n" in program else times.select("id", "t")
    found = gws.join(zoned, program, {"times": times}).select(*expected.columns)
    assert [one.dataType for one in found.schema] == [one.dataType for one in expected.schema]
    assert rows(found) == rows(expected)
    assert list(gws.count(zoned, program, {"times": times}).values()) == [4]


def test_times_of_files_and_of_cells(zoned, tmp_path):
    zoned.sql(TIMES).write.parquet(str(tmp_path / "times"))
    times = zoned.read.parquet(str(tmp_path / "times"))
    program = "same(a, b, t, n) :- times(a, t, n, d), times(b, t, n, d)."
    expected = rows(zoned.sql(TIMES).where("n is not null").selectExpr("id", "id", "t", "n"))
    assert rows(gws.join(zoned, program, {"times": times})) == expected
    assert rows(gws.join(zoned, program, {"times": times}, layout="hypercube", cells=2)) == expected


def test_times_of_a_view_and_of_its_outputs(zoned, tmp_path):
    times = zoned.sql(TIMES)
    query = "select id, t, n, d from times"
    view = gws.maintain({"times": times}, query, checkpoint=tmp_path / "c", output=tmp_path / "out")
    view.load()
    view.close()
    assert rows(gws.read_output(zoned, tmp_path / "out").select("id", "t", "n", "d")) == rows(times)
    view = gws.maintain({"times": times}, query, checkpoint=tmp_path / "c2", output=tmp_path / "orc", format="orc")
    view.load()
    view.close()
    (name,) = view.program.outputs
    assert rows(zoned.read.orc(str(tmp_path / "orc" / name)).select("id", "t", "n", "d")) == rows(times)


def test_times_of_edges_in_a_motif(zoned):
    edges = zoned.sql(TIMES).selectExpr("id as src", "id + 1 as dst", "t", "n", "d")
    found = gw.find("(a)-[e]->(b); (b)-[f]->(c)", edges=edges, columns=["e.t", "f.d"], where="e.src = 1")
    ((moment, day),) = found.rows()
    assert (moment.timestamp(), day.isoformat()) == (1772953199.999999, "1900-02-28")


def test_a_frame_of_spark_in_a_query_without_spark(zoned):
    times = zoned.sql(TIMES)
    for program in ("select id, t, d from times", "o(id, t, d) :- times(id, t, _, d)."):
        found = gw.query(program, times=times)
        assert sorted((row[0], row[1].timestamp(), row[2]) for row in found) == sorted(
            (one.id, one.t.timestamp(), one.d) for one in times.collect()
        )


@pytest.mark.parametrize(
    "program",
    ["select id from odd", "select count(*) as id from odd group by t having count(*) > 2", BLANKS],
)
def test_columns_that_are_not_read_do_no_harm(spark, program):
    odd = spark.sql(ODD)
    expected = [(3,)] if "count" in program else [(1,), (2,), (3,)]
    assert sorted(row[:1] for row in rows(gws.join(spark, program, {"odd": odd}))) == expected
    assert list(gws.count(spark, program, {"odd": odd}).values()) == [len(expected)]
    assert "odd" in gws.explain(spark, program, {"odd": odd})


def test_columns_that_a_view_does_not_read_do_no_harm(spark, tmp_path):
    changes = spark.sql(f"select *, 1L as weight from ({ODD})")
    query = "select id, t from odd where id > 1"
    view = gws.maintain({"odd": changes}, query, checkpoint=tmp_path / "c", output=tmp_path / "out")
    view.load()
    view.close()
    assert [row[0] for row in rows(gws.read_output(spark, tmp_path / "out"))] == [2, 3]


@pytest.mark.parametrize("column", ["tags", "pair", "props", "span", "doc"])
def test_a_column_that_is_read_and_has_no_place_is_named(spark, tmp_path, column):
    odd = {"odd": spark.sql(ODD)}
    problem = f"relation 'odd', column '{column}': type '.*' is not supported: expected integers"
    named = f"{problem}.*\n.*Cast the column, or leave it out"
    with pytest.raises(UnsupportedTypeError, match=named):
        gws.join(spark, f"select id, {column} from odd", odd)
    with pytest.raises(UnsupportedTypeError, match="relation 'odd', column 'tags': type"):
        gws.count(spark, "select * from odd", odd)
    with pytest.raises(UnsupportedTypeError, match=named):
        gws.maintain(odd, f"select id, {column} from odd", checkpoint=tmp_path / "c")
    with pytest.raises(UnsupportedTypeError, match="relation 'odd', column 'tags': type"):  # sets need whole rows
        gws.maintain(odd, BLANKS, checkpoint=tmp_path / "c")
