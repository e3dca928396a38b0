"""Programs in SQL, EDN and as motifs on the command line: told by suffix or option, over files, tick by tick."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpu_wcoj.cli.main import main
from gpu_wcoj.query.languages import language_of

SQL = "CREATE VIEW hop AS SELECT e.src, f.dst, e.weight FROM edges e JOIN edges f ON e.dst = f.src"
EDN = "[:find ?a ?c :where [$edges ?a ?b _] [$edges ?b ?c _]]"
MOTIF = "(a)-[t]->(b); (b)-[]->(c)"
DATALOG = "hop(a, c) :- edges(a, b, _), edges(b, c, _)."


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with edges that have a column `weight` of their own, and with a change of them."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"src": [1, 2, 3], "dst": [2, 3, 1], "weight": [5, 6, 7]}), "edges.parquet")
    (tmp_path / "edges.csv").write_text("src,dst,weight\n1,2,5\n2,3,6\n3,1,7\n")
    (tmp_path / "changes.csv").write_text("src,dst,weight,w\n1,2,5,-1\n3,3,9,1\n")
    return tmp_path


CHANGES = "edges=changes.csv?columns=src,dst,weight&weight=w"


def run(capfd, *arguments):
    assert main(["run", *arguments, "--json"]) == 0, capfd.readouterr().err
    *ticks, _ = map(json.loads, capfd.readouterr().out.splitlines())
    return [{name: change["net"] if "net" in change else change["inserted"] - change["deleted"]
             for name, change in tick["changes"].items()} for tick in ticks]  # fmt: skip


def complaint(capfd, *arguments):
    assert main(list(arguments)) == 2
    printed = capfd.readouterr()
    assert "internal error" not in printed.err
    return printed.err


@pytest.mark.parametrize(
    ("name", "text", "output"),
    [("a.sql", SQL, "hop"), ("a.EDN", EDN, "find"), ("a.motif", MOTIF, "matches"), ("a.dl", DATALOG, "hop"),
     ("rules.txt", DATALOG, "hop"), ("rules", DATALOG, "hop")],
)  # fmt: skip
def test_the_suffix_tells(place, capfd, name, text, output):
    (place / name).write_text(text)
    assert run(capfd, name, "--input", "edges=edges.csv", "--changes", CHANGES) == [{output: 3}, {output: 1}]


@pytest.mark.drawn("language", "text", "output", share=3)
@pytest.mark.parametrize(
    ("language", "text", "output"), [("sql", SQL, "hop"), ("edn", EDN, "find"), ("motif", MOTIF, "matches")]
)
def test_columns_are_told_by_parquet_too(place, capfd, language, text, output):
    arguments = ("-e", text, "--language", language, "--input", "edges=edges.parquet")
    assert run(capfd, *arguments, "--changes", CHANGES, "--count") == [{output: 3}, {output: 1}]


@pytest.mark.parametrize(
    ("language", "text", "output"), [("sql", SQL, "hop"), ("edn", EDN, "find"), ("motif", MOTIF, "matches")]
)
def test_the_option_tells(place, capfd, language, text, output):
    assert run(capfd, "-e", text, "--language", language, "--input", "edges=edges.csv") == [{output: 3}]
    (place / "a.dl").write_text(text)
    assert run(capfd, "a.dl", "--language", language, "--input", "edges=edges.csv") == [{output: 3}]
    assert "gpu-wcoj: " in complaint(capfd, "run", "a.dl", "--input", "edges=edges.csv")


def test_what_changes_is_written(place, capfd):
    run(capfd, "-e", SQL, "--language", "sql", "--input", "edges=edges.csv", "--changes", CHANGES, "--output", "out")
    rows = pq.read_table("out/hop").to_pylist()
    found = Counter()
    for row in rows:
        found[row["src"], row["dst"], row["weight"]] += row["_weight"]
    assert +found == {(2, 1, 6): 1, (2, 3, 6): 1, (3, 1, 9): 1, (3, 3, 9): 1}
    assert {row["tick"] for row in rows} == {0, 1}
    run(
        capfd, "-e", MOTIF, "--language", "motif", "--input", "edges=edges.csv", "--changes", CHANGES,
        "--output", "matches", "--where", "t.weight > 5", "--show", "a.id,t.weight,c.id",
    )  # fmt: skip
    rows = pq.read_table("matches/matches").to_pylist()
    assert rows == [
        {"a.id": 2, "t.weight": 6, "c.id": 1, "weight": 1, "tick": 0},
        {"a.id": 3, "t.weight": 7, "c.id": 2, "weight": 1, "tick": 0},
        {"a.id": 2, "t.weight": 6, "c.id": 3, "weight": 1, "tick": 1},
        {"a.id": 3, "t.weight": 7, "c.id": 2, "weight": -1, "tick": 1},
        {"a.id": 3, "t.weight": 9, "c.id": 1, "weight": 1, "tick": 1},
        {"a.id": 3, "t.weight": 9, "c.id": 3, "weight": 1, "tick": 1},
    ]


def test_changes_alone_tell_the_columns(place, capfd):
    (place / "only.csv").write_text("src,dst,weight\n1,2,1\n2,3,1\n1,2,-1\n")
    text = "SELECT COUNT(*) AS n FROM edges"
    ticks = run(capfd, "-e", text, "--language", "sql", "--changes", "edges=only.csv", "--tick-rows", "2")
    assert len(ticks) == 2


@pytest.mark.parametrize("feed", ["op.csv", "cdf.parquet", "debezium.json?format=json"])
@pytest.mark.parametrize("program", [("hop(a, c) :- e(a, b), e(b, c).", "hop"), ("SELECT src, dst FROM e", "answer")])
def test_change_feeds(place, capfd, feed, program):
    (place / "e.csv").write_text("src,dst\n1,2\n2,3\n")
    (place / "op.csv").write_text("op,src,dst\nd,2,3\nc,2,2\nc,7,8\nd,7,8\n")
    pq.write_table(
        pa.table({
            "src": [2, 2, 7, 7], "dst": [3, 2, 8, 8], "_change_type": ["delete", "insert", "insert", "delete"],
            "_commit_version": [1, 1, 1, 2],
        }),
        "cdf.parquet",
    )  # fmt: skip
    events = [{"op": "u", "before": {"src": 2, "dst": 3}, "after": {"src": 2, "dst": 2}}]
    (place / "debezium.json").write_text("\n".join(map(json.dumps, events)))
    text, output = program
    (place / "p").write_text(text)
    language = ("--language", "sql") if output == "answer" else ()
    main(["run", "p", *language, "--input", "e=e.csv", "--changes", f"e={feed}", "--output", "out"])
    total = Counter()
    for row in pq.read_table(f"out/{output}").to_pylist():
        total[tuple(row.values())[:2]] += row["weight"]
    expected = {(1, 2): 1, (2, 2): 1}
    assert {row: weight for row, weight in total.items() if weight} == expected


def test_columns_without_names_are_numbered(place, capfd):
    (place / "plain.txt").write_text("1 2\n2 3\n")
    text = "SELECT c0 FROM e WHERE c1 > 2"
    assert run(capfd, "-e", text, "--language", "sql", "--input", "e=plain.txt") == [{"answer": 1}]
    arguments = ("-e", "(a)-[]->(b)", "--language", "motif", "--input", "edges=plain.txt")
    assert run(capfd, *arguments) == run(capfd, *arguments, "--src", "c0", "--dst", "c1") == [{"matches": 2}]
    (place / "plain.txt").write_text("1 2 5\n2 3 5\n")
    assert "the edges need a column 'src', which is missing" in complaint(capfd, "run", *arguments)


def test_files_without_rows_tell_the_columns(place, capfd):
    (place / "none.csv").write_text("src,dst,weight\n")
    text = "SELECT src FROM edges WHERE dst NOT IN (SELECT src FROM none WHERE weight > 5)"
    arguments = ("-e", text, "--language", "sql", "--input", "edges=edges.csv", "--input", "none=none.csv?header=yes")
    assert run(capfd, *arguments) == [{"answer": 3}]
    (place / "later.csv").write_text("src,dst,weight,w\n2,9,9,1\n")
    assert run(capfd, *arguments, "--changes", "none=later.csv?weight=w") == [{"answer": 3}, {"answer": -1}]
    assert main(["explain", *arguments, "--as", "datalog"]) == 0
    assert ".decl none(src, dst, weight)" in capfd.readouterr().out
    for language, text, output in (("edn", EDN, "find"), ("motif", MOTIF, "matches")):
        arguments = ("-e", text, "--language", language, "--input", "edges=none.csv?header=yes")
        assert run(capfd, *arguments) == [{output: 0}]
        assert run(capfd, *arguments, "--changes", "edges=edges.csv?columns=0,1,2") == [{output: 0}, {output: 3}]
        assert run(capfd, "-e", text, "--language", language, "--input", "edges=edges.csv", "--changes",
                   "edges=none.csv?columns=src,dst,weight") == [{output: 3}]  # fmt: skip


def test_types_are_those_of_changes_where_the_first_file_has_no_rows(place, capfd):
    (place / "none.csv").write_text("src,dst,weight\n")
    arguments = (
        "-e",
        "SELECT src // 2 AS half FROM edges",
        "--language",
        "sql",
        "--input",
        "edges=none.csv?header=yes",
    )
    assert run(capfd, *arguments, "--changes", CHANGES) == [{"answer": 0}, {"answer": 0}]
    assert main(["explain", *arguments, "--changes", CHANGES, "--as", "datalog"]) == 0
    assert ".decl edges(src: int64, dst: int64, weight: int64)" in capfd.readouterr().out


def test_nothing_tells_the_columns(place, capfd):
    (place / "none.txt").write_text("")
    arguments = ("-e", "SELECT c0 FROM t", "--language", "sql", "--input")
    assert "does not tell how many columns 't' has" in complaint(capfd, "run", *arguments, "t=none.txt")
    assert run(capfd, *arguments, "t=none.txt?columns=0,1") == [{"answer": 0}]


def test_vertices_and_semantics_of_a_motif(place, capfd):
    (place / "people.csv").write_text("name,age\n1,20\n2,30\n")
    arguments = ("-e", "(a)-[]->(b); (b)-[]->(c)", "--language", "motif", "--input", "edges=edges.csv")
    assert run(capfd, *arguments, "--semantics", "nodes-distinct") == [{"matches": 3}]
    own = ("-e", "(a)-[]->(b)", *arguments[2:], "--input", "vertices=people.csv", "--id", "name")
    assert run(capfd, *own, "--where", "a.age < b.age") == [{"matches": 1}]


def test_the_program_as_datalog(place, capfd):
    for language, text in (("sql", SQL), ("edn", EDN), ("motif", MOTIF), ("datalog", DATALOG)):
        arguments = ["explain", "-e", text, "--language", language, "--input", "edges=edges.csv", "--as", "datalog"]
        assert main(arguments) == 0
        printed = capfd.readouterr().out
        (place / "again.dl").write_text(printed)
        assert main(["explain", "again.dl", "--format", "datalog"]) == 0
        assert capfd.readouterr().out == printed.replace("// of bags: run it with bag=True, or --bag\n", "")
    message = complaint(capfd, "explain", "-e", DATALOG, "--as", "datalog", "--analyze")
    assert "Datalog text has no plan" in message
    message = complaint(capfd, "explain", "-e", DATALOG, "--as", "datalog", "--stats", "here")
    assert "--format datalog and statistics cannot be combined" in message


@pytest.mark.parametrize(
    ("name", "text", "place_shown", "what"),
    [
        ("a.sql", "SELECT src\nFROM edge", "line 2, column 6 of a.sql", "Did you mean 'edges'"),
        ("a.sql", "SELECT\n  sorce FROM edges", "line 2, column 3 of a.sql", "no column 'sorce'"),
        ("a.motif", "(a)-[t->(b)", "line 1, column 7 of a.motif", "~"),
        ("a.edn", "[:find ?a\n :where [$edge ?a _ _]]", "line 2, column 9 of a.edn", "Did you mean"),
        ("a.dl", "h(x) :-\n r(x", "line 2, column 5 of a.dl", "expected"),
    ],
)
def test_errors_name_file_line_and_column(place, capfd, name, text, place_shown, what):
    (place / name).write_text(text)
    message = complaint(capfd, "run", name, "--input", "edges=edges.csv")
    assert place_shown in message
    assert what in message
    assert "~" in message


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("-e", DATALOG, "--where", "a.b > 1"), "--where, --semantics, --show, --id, --src and --dst are for motifs"),
        (("-e", DATALOG, "--language", "datalogs"), "datalogs"),
        (("-e", MOTIF, "--language", "motif", "--checkpoint", "here"), "a stored state of a motif is not supported"),
        (("-e", MOTIF, "--language", "motif", "--semantics", "any"), "any"),
        (("-e", SQL, "--language", "sql", "--dialect", "klingon"), "unknown dialect 'klingon'"),
        (("-e", "SELECT 1 FROM nodes", "--language", "sql"), "unknown relation 'nodes'"),
    ],
)
def test_options_that_do_not_fit(place, capfd, arguments, what):
    assert what in complaint(capfd, "run", *arguments, "--input", "edges=edges.csv")


def test_tables_of_a_motif(place, capfd):
    arguments = ("run", "-e", MOTIF, "--language", "motif", "--input")
    assert "unknown table of a motif 'edge': expected one of 'edges', 'vertices'" in complaint(
        capfd, *arguments, "edge=edges.csv"
    )
    assert "a motif needs a table 'edges'" in complaint(capfd, *arguments, "vertices=edges.csv")


def test_tables_of_sql_that_cannot_be_told(place, capfd):
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), "twice.parquet")
    arguments = ("run", "-e", "SELECT a FROM t", "--language", "sql", "--input")
    assert "two columns of the file are called 'a'" in complaint(capfd, *arguments, "t=twice.parquet")
    (place / "twice.csv").write_text("a,a\n1,2\n")
    assert "'twice.csv' has two columns 'a'" in complaint(capfd, *arguments, "t=twice.csv")
    assert "cannot be read" in complaint(capfd, *arguments, "t=nothing.parquet")
    alone = complaint(capfd, "explain", "-e", "SELECT a FROM t", "--language", "sql")
    assert "unknown relation 't'" in alone
    assert "Give the file of the relation: --input RELATION=PATH" in alone


@pytest.mark.parametrize(("text", "output"), [(SQL, "hop"), (EDN, "find"), (MOTIF, "matches"), (DATALOG, "hop")])
def test_the_first_word_of_a_text_tells(place, capfd, monkeypatch, text, output):
    expected = run(capfd, "-e", text, "--language", language_of(text), "--input", "edges=edges.csv")
    assert run(capfd, "-e", text, "--input", "edges=edges.csv") == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run(capfd, "-", "--input", "edges=edges.csv") == expected


def test_sql_reads_files_by_name(place, capfd):
    text = "SELECT e.src, f.dst FROM 'edges.csv' e JOIN 'edges.parquet' f ON e.dst = f.src"
    assert run(capfd, "-e", text) == [{"answer": 3}]
    assert main(["explain", "-e", text, "--as", "datalog"]) == 0
    assert "edges.csv" in capfd.readouterr().out


def test_sql_reads_folders_and_patterns_by_name(place, capfd):
    for name, row in (("1.csv", "1,2"), ("2.csv", "3,4")):
        (place / "parts").mkdir(exist_ok=True)
        (place / "parts" / name).write_text(f"a,b\n{row}\n")
    for name in ("parts/*.csv", "parts/"):
        assert main(["run", "-e", f"SELECT * FROM '{name}'", "--format", "csv"]) == 0
        assert capfd.readouterr().out == "a,b\n1,2\n3,4\n"


def test_files_are_converted_and_changes_read_again(place, capfd):
    for target in ("x.parquet", "x.csv", "x.tsv", "x.csv.gz", "x.facts"):
        assert main(["convert", "edges.csv", target]) == 0
        assert capfd.readouterr().out == "3 rows of src, dst, weight\n"
        assert main(["run", "-e", "SELECT count(*) AS n FROM e", "--input", f"e={target}", "--format", "csv"]) == 0
        assert capfd.readouterr().out == "n\n3\n"
    (place / "rows.jsonl").write_text('{"a": 1, "b": "x"}\n{"a": 2, "b": "y\\tz"}\n')
    assert main(["convert", "rows.jsonl", "y.facts"]) == 0
    assert (place / "y.facts").read_text() == '1\t"x"\n2\t"y\tz"\n'
    assert capfd.readouterr().out == "2 rows of a, b\n"
    assert main(["convert", "edges.csv", "x.txt"]) == 2
    assert "ends in .parquet, .csv, .tsv or .facts" in capfd.readouterr().err
    rules = "h(x, y) :- e(x, y)."
    assert main(["run", "-e", rules, "--input", "e=edges.csv?columns=src,dst", "--output", "out"]) == 0
    for option, file in (("--input", "h=out/h?columns=x,y&weight=weight"), ("--changes", "h=out/h?tick=tick")):
        capfd.readouterr()
        assert main(["run", "-e", "SELECT count(*) AS n FROM h", option, file, "--format", "csv"]) == 0
        assert capfd.readouterr().out == "n\n3\n"
