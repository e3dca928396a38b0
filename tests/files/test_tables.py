"""Names of files in place of tables, in Python and in SQL."""

import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import InputFileError, TypeMismatchError, UnknownRelationError, UnsupportedError, UsageError

TRIPS = pa.table({"id": [1, 2, 3], "city": ["a", "b", "a"], "stops": [["x"], [], ["y", "z"]]})
PER_CITY = "SELECT city, count(*) AS n FROM {} GROUP BY city"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("trips.csv").write_text("id,city\n1,a\n2,b\n3,a\n")
    Path("edges.csv").write_text("src,dst\n1,2\n2,3\n3,1\n")
    Path("vertices.csv").write_text("id,name\n1,x\n2,y\n3,z\n")
    Path("changes.csv").write_text("dst,src,weight\n2,1,-1\n")
    Path("parts").mkdir()
    for name in ("a", "b"):
        pq.write_table(TRIPS, f"parts/{name}.parquet")


@pytest.mark.parametrize(
    ("name", "times"), [("trips.csv", 1), ("parts/a.parquet", 1), ("./parts", 2), ("parts/*.parquet", 2)]
)
def test_a_name_stands_for_the_rows_of_its_files(name, times):
    expected = [("a", 2 * times), ("b", times)]
    assert gw.query(PER_CITY.format(f"'{name}'")).rows() == expected
    assert gw.query(PER_CITY.format("trips"), {"trips": name}).rows() == expected
    assert gw.query(PER_CITY.format("trips"), trips=Path(name)).rows() == expected


def test_columns_that_a_query_does_not_read_may_be_of_any_type():
    pq.write_table(TRIPS.append_column("half", pa.array([1.5] * 3, pa.float16())), "trips.parquet")
    assert gw.query("SELECT id, stops FROM 'trips.parquet' WHERE id > 2").rows() == [(3, ["y", "z"])]
    assert gw.query("SELECT count(*) AS n FROM 'trips.parquet'").rows() == [(3,)]


def test_options_follow_the_name():
    Path("pipes.txt").write_text("a note\n1|7\n2|8\n")
    rows = gw.query("t(a, b) :- e(a, b).", {"e": "pipes.txt?sep=pipe&skip=1&header=no&columns=1,0&types=string,int64"})
    assert rows.rows() == [("7", 1), ("8", 2)]
    with pytest.raises(UsageError, match="the options 'weight' and 'tick' are for the command line"):
        gw.query("t(a, b) :- e(a, b).", {"e": "edges.csv?weight=1"})
    with pytest.raises(UsageError, match="has an unknown option 'column'"):
        gw.query("t(a, b) :- e(a, b).", {"e": "edges.csv?column=1"})


def test_every_way_in_takes_names_of_files():
    triangles = "tri(a, b, c) :- edges(a, b), edges(b, c), edges(c, a)."
    deleted = [((1, 2, 3), -1), ((2, 3, 1), -1), ((3, 1, 2), -1)]
    assert gw.query(triangles, edges="edges.csv").rows() == [row for row, _ in deleted]
    assert gw.view(triangles, edges="edges.csv").apply(edges="changes.csv").rows() == deleted
    counts = gw.view("SELECT src, count(*) AS n FROM 'edges.csv' GROUP BY src")
    assert counts.apply({"edges.csv": Path("changes.csv")}).rows() == [((1, 1), -1)]
    connection = gw.connect(edges="edges.csv")
    connection.view(triangles)
    assert connection.apply(edges="changes.csv")["tri"].rows() == deleted
    program = gw.Program(triangles)
    assert len(program.step({"edges": "edges.csv"})["tri"]) == 3
    matches = gw.find("(a)-[e]->(b)", vertices="vertices.csv", edges="edges.csv", columns=["a.name", "b.name"])
    assert matches.rows() == [("x", "y"), ("y", "z"), ("z", "x")]
    matcher = gw.Matcher("(a)-[e]->(b)", edges="edges.csv", columns=["a.id", "b.id"])
    assert matcher.apply(edges="changes.csv").rows() == [((1, 2), -1)]
    query = "[:find ?a ?c :in $edges :where [$edges ?a ?b] [$edges ?b ?c]]"
    assert gw.query(query, edges="edges.csv").rows() == [(1, 3), (2, 1), (3, 2)]


def test_functions_of_duckdb_name_a_file():
    for function in ("read_csv", "read_csv_auto"):
        assert gw.query(PER_CITY.format(f"{function}('trips.csv')")).rows() == [("a", 2), ("b", 1)]
    assert gw.query("SELECT t.id FROM read_parquet('parts/a.parquet') t WHERE t.id > 2").rows() == [(3,)]
    with pytest.raises(UnsupportedError, match=r"(?s)reads files only that FROM names.*pass the file as a relation"):
        gw.query("SELECT * FROM read_csv('trips.csv', header = true)")


def test_duckdb_does_the_rest_over_files():
    assert gw.query("FROM 'trips.csv' ORDER BY id LIMIT 50%").rows() == [(1, "a")]


def test_files_that_a_text_names_are_logged_and_can_be_refused(caplog):
    with caplog.at_level(logging.INFO, "gpu_wcoj"):
        gw.query("SELECT id FROM 'trips.csv'")
    assert "relation 'trips.csv' is read from 1 file" in caplog.text
    with pytest.raises(UnknownRelationError, match=r"unknown relation 'trips\.csv'"):
        gw.query("SELECT id FROM 'trips.csv'", scan=False)
    with pytest.raises(UnknownRelationError, match="unknown relation 'parts'"):  # a name without a dot or a slash
        gw.query("SELECT id FROM parts")


@pytest.mark.parametrize("name", ["none.csv", "none*.csv", "1,2", "", "-", "a\0b", "trips", "x" * 5000])
def test_a_text_that_is_no_file_is_refused(name):
    with pytest.raises(TypeMismatchError, match=r"relation 't' is not a table: got .*(?s:.)*There is no file '"):
        gw.query("SELECT * FROM t", {"t": name})
    with pytest.raises(TypeMismatchError, match="is not a table"):
        gw.view("SELECT * FROM t", {"t": Path(name.replace("\0", "") or "none")})


def test_messages_about_files():
    with pytest.raises(UnknownRelationError, match="There is no file 'none.csv'"):
        gw.query("SELECT * FROM 'none.csv'")
    with pytest.raises(UsageError, match="query has no option 'bakend', and 'cpu' is not a table or file"):
        gw.query("SELECT * FROM t", {"t": "trips.csv"}, bakend="cpu")
    Path("sql").mkdir()
    Path("sql", "q.sql").write_text("SELECT 1")
    with pytest.raises(UsageError, match="query has no option 'langauge'"):  # although there is a folder of that name
        gw.query("SELECT * FROM t", {"t": "trips.csv"}, langauge="sql")
    assert gw.query("SELECT id FROM T", t="trips.csv").rows() == [(1,), (2,), (3,)]
    with pytest.raises(UsageError, match="is not a file of this machine"):
        gw.query("SELECT * FROM 's3://bucket/trips.parquet'")
    Path("empty").mkdir()
    with pytest.raises(InputFileError, match="the folder 'empty' has no files"):
        gw.query("SELECT * FROM t", {"t": "empty"})
    Path("broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputFileError, match=r"'broken\.parquet' is damaged or not Parquet"):
        gw.query("SELECT * FROM 'broken.parquet'")
    Path("twice.csv").write_text("a,a\n1,2\n")
    with pytest.raises(UsageError, match="has two columns 'a'"):
        gw.query("SELECT * FROM 'twice.csv'")
