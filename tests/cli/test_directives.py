"""Lines ``.input`` and ``.output`` on the command line: which files they name, how these are read and written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpu_wcoj.cli.main import main
from gpu_wcoj.files import formats as blocks

PATH = """
    .decl edge(x: number, y: number)
    .input edge
    .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a program, which is not that in which the command runs."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "edge.facts").write_text("1\t2\n2\t3\n")
    return tmp_path / "program"


def run(capfd: pytest.CaptureFixture[str], *arguments: object) -> dict:
    assert main(["run", *map(str, arguments), "--json"]) == 0, capfd.readouterr().err
    printed = capfd.readouterr()
    assert printed.err == ""
    return json.loads(printed.out.splitlines()[-1])


def complaint(capfd: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["run", *map(str, arguments)]) == 2
    printed = capfd.readouterr()
    assert "Traceback" not in printed.err
    assert "internal error" not in printed.err
    return printed.err


def written(folder: Path, text: str) -> Path:
    (folder / "p.dl").write_text(text)
    return folder / "p.dl"


def rows(path: Path) -> list[str]:
    return sorted(path.read_text().splitlines())


def test_a_program_runs_by_itself(capfd: pytest.CaptureFixture[str], folder: Path):
    total = run(capfd, written(folder, PATH))
    assert (total["total"], total["ticks"]) == ({"path": 3}, 1)
    assert rows(folder / "path.csv") == ["1\t2", "1\t3", "2\t3"]
    assert list((folder.parent / "elsewhere").iterdir()) == []


def test_a_text_runs_in_the_folder_of_the_command(capfd: pytest.CaptureFixture[str], folder: Path):
    (folder.parent / "elsewhere" / "edge.facts").write_text("7\t8\n")
    assert run(capfd, "-e", PATH)["total"] == {"path": 1}
    assert rows(Path("path.csv")) == ["7\t8"]


@pytest.mark.parametrize("option", ["--input", "--changes"])
def test_files_of_the_command_line_come_first(capfd: pytest.CaptureFixture[str], folder: Path, option: str):
    Path("other.txt").write_text("5 6\n")
    assert run(capfd, written(folder, PATH), option, "edge=other.txt")["total"] == {"path": 1}
    assert not (folder / "path.csv").exists()


def test_parameters_count_beside_the_command_line(capfd: pytest.CaptureFixture[str], folder: Path):
    (folder / "n.csv").write_text("node,name\n1,a\n2,b\n")
    Path("other.txt").write_text("1 2\n1 3\n")
    program = """
        .input edge
        .input node(IO=file, filename="n.csv", delimiter=",", headers=true)
        .output h(filename="out/h.txt", delimiter="|", headers=true)
        .output g
        h(name, y) :- node(x, name), edge(x, y). g(x) :- h(x, _).
    """
    run(capfd, written(folder, program), "--input", "edge=other.txt")
    assert (folder / "out" / "h.txt").read_text().splitlines()[0] == "name|y"
    assert rows(folder / "out" / "h.txt") == ["a|2", "a|3", "name|y"]
    assert not (folder / "g.csv").exists()


@pytest.mark.parametrize("option", [["--count"], ["--output", "changes"]])
def test_another_output_comes_first(capfd: pytest.CaptureFixture[str], folder: Path, option: list[str]):
    run(capfd, written(folder, PATH), *option)
    assert not (folder / "path.csv").exists()


def test_types_are_those_that_are_declared(capfd: pytest.CaptureFixture[str], folder: Path):
    (folder / "r.facts").write_text("007\t5\t1\t2024-02-29\tx\n8\t-3\t2.5\t1999-12-31\ty\n")
    program = """
        .decl r(code: symbol, small: int8, share: float, day: date32, free)
        .input r
        .output h(filename="h.parquet")
        h(a, b, c, d, e) :- r(a, b, c, d, e), d > "2000-01-01".
    """
    run(capfd, written(folder, program))
    table = pq.read_table(folder / "h.parquet")
    assert table.schema.types == [pa.string(), pa.int8(), pa.float32(), pa.date32(), pa.string()]
    assert [str(value) for value in table.to_pylist()[0].values()] == ["007", "5", "1.0", "2024-02-29", "x"]


def test_what_is_written_is_read_again(capfd: pytest.CaptureFixture[str], folder: Path):
    (folder / "r.facts").write_text('1\t"a ""b"""\n2\t"c\td"\n3\tplain\n')
    text = ".decl r(x: number, s: symbol)\n.input r\n.output h\nh(x, s) :- r(x, s)."
    run(capfd, written(folder, text))
    again = text.replace(".input r", '.input r(filename="h.csv")').replace(".output h", '.output h(filename="g.csv")')
    assert run(capfd, written(folder, again))["total"] == {"h": 3}
    assert rows(folder / "g.csv") == rows(folder / "h.csv")


def test_an_empty_file_has_no_rows(capfd: pytest.CaptureFixture[str], folder: Path):
    (folder / "edge.facts").write_text("")
    assert run(capfd, written(folder, PATH))["total"] == {"path": 0}
    assert (folder / "path.csv").read_text() == ""


def test_parquet_and_gzip(capfd: pytest.CaptureFixture[str], folder: Path):
    import gzip

    pq.write_table(pa.table({"a": [1, 2]}), folder / "r.parquet")
    (folder / "s.gz").write_bytes(gzip.compress(b"2\n3\n"))
    text = '.input r(filename="r.parquet")\n.input s(filename="s.gz")\n.output h\nh(x) :- r(x), s(x).'
    run(capfd, written(folder, text))
    assert rows(folder / "h.csv") == ["2"]


def test_facts_need_no_files(capfd: pytest.CaptureFixture[str], folder: Path):
    text = '.output h\nr(1). r(2). h(x * 10, cat(s, s)) :- r(x), t(x, s). t(2, "b").'
    assert run(capfd, written(folder, text))["ticks"] == 1
    assert rows(folder / "h.csv") == ["20\tbb"]


def test_an_input_that_is_a_head(capfd: pytest.CaptureFixture[str], folder: Path):
    text = PATH + "edge(y, x) :- edge(x, y), x < 2. edge(9, 9)."
    run(capfd, written(folder, text))
    assert rows(folder / "path.csv") == ["1\t1", "1\t2", "1\t3", "2\t1", "2\t2", "2\t3", "9\t9"]


def test_a_checkpoint_of_it(capfd: pytest.CaptureFixture[str], folder: Path):
    program = written(folder, PATH + 'edge(3, 4). name(1, "a").')
    first = run(capfd, program, "--checkpoint", "c")
    (folder / "path.csv").unlink()
    assert run(capfd, program, "--checkpoint", "c")["total"] == first["total"]
    assert len(rows(folder / "path.csv")) == 6


def test_a_checkpoint_does_not_mind_where_files_are(capfd: pytest.CaptureFixture[str], folder: Path):
    program = written(folder, PATH)
    first = run(capfd, program, "--checkpoint", "c")
    (folder / "edge.facts").rename(folder / "moved")
    moved = PATH.replace(".input edge", ".input edge(filename=moved)").replace(".output path", ".output path(IO=file)")
    assert run(capfd, written(folder, moved), "--checkpoint", "c")["total"] == first["total"]


def test_weights_are_written_in_bags(capfd: pytest.CaptureFixture[str], folder: Path):
    run(capfd, written(folder, ".input edge\n.output h\nh(1) :- edge(_, _)."), "--bag")
    assert rows(folder / "h.csv") == ["1\t2"]


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        (".input edge(IO=sqlite)", "IO='sqlite' is not allowed: expected 'file' or 'stdin'"),
        (".input edge(file=x)", "'file': expected one of .*Did you mean 'filename'"),
        ('.input edge(delimiter="ab")', "delimiter cannot be 'ab'"),
        ('.input edge(delimiter="")', "delimiter cannot be ''"),
        (".input edge(headers=maybe)", "headers cannot be 'maybe'.\n  Give true or false"),
        ('.input edge(filename="")', "filename is empty"),
        ('.input edge(filename="e.parquet", headers=true)', "'headers' is for text files only"),
        ('.input edge(filename="none.csv")', "none.csv' cannot be read: No such file"),
        ('.input edge\n.output h(filename="h.arrow")', "output 'h.arrow' is not supported"),
        ('.input edge\n.output h(filename="/dev/null/h.csv")', "/dev/null/h.csv' cannot be written"),
        (".decl edge(x: int8, y: number)\n.input edge(filename=large)", r"large', column 0, is declared as 'int8'"),
        (
            ".decl edge(x: number, y: number)\n.input edge(filename=text)",
            "line 2: 'a' is not an integer of 64 bits, and column 0 is declared as 'int64'.\n.*or say headers=true if",
        ),
        (
            '.decl edge(x: number, y: float)\n.input edge(filename="g.csv", delimiter=",")',
            "line 1: 'src' is not an integer of 64 bits, and column 0 is declared as 'int64'.\n.*headers=true",
        ),
        (
            '.decl edge(x: symbol, y: float)\n.input edge(filename="g.csv", delimiter=",")',
            "line 1: 'dst' is not a number, and column 1 is declared as 'float.*'.\n.*headers=true",
        ),
        (
            '.decl edge(x: symbol, y: date32)\n.input edge(filename="g.csv", delimiter=",")',
            "g.csv', column 1, is declared as 'date32.*\n.*headers=true if the first line",
        ),
        (
            '.decl edge(x: number, y: number)\n.input edge(filename="g.csv")',
            "'edge' has 2 columns, but '.*g.csv' has 1.\n.*separated by tabs;.* say delimiter=\",\" in .input",
        ),
        ('.input edge(filename="g.csv", delimiter="|")', "g.csv' has 1.\n.*separated by '[|]';.* say delimiter"),
        (
            '.input edge(filename="g.csv", delimiter=",")',
            "line 2: '1' is a number, but 'src' .*\n  Mend the line; or say headers=true .*; or declare .* as symbol",
        ),
        (".input edge(filename=ragged)", "line 2: 3 fields .*\n.*or set delimiter or headers of .input"),
        (".input edge(filename=late)", "'x' is not an integer .* before it are.\n.*or declare the column as float"),
    ],
)
def test_mistakes(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path, lines: str, match: str
):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
    (folder / "large").write_text("1\t2\n300\t1\n")
    (folder / "text").write_text("1\t2\na\t1\n")
    (folder / "g.csv").write_text("src,dst\n1,2\n")
    (folder / "ragged").write_text("1\t2\n1\t2\t3\n")
    (folder / "late").write_text("1\t2\n" * 50 + "x\t2\n")
    program = written(folder, f"{lines}\nh(x) :- edge(x, _).")
    message = complaint(capfd, program)
    assert re.search(match, message)
    assert not re.search("types=|columns=|sep=|header=", message)


def test_a_line_of_names_is_passed_over(capfd: pytest.CaptureFixture[str], folder: Path):
    (folder / "g.csv").write_text("src,dst\n1,2\n")
    (folder / "none.csv").write_text("src,dst\n")
    program = """
        .decl edge(x: number, y: number)
        .decl gone(x: number, y: number)
        .input edge(filename="g.csv", delimiter=",", headers=true)
        .input gone(filename="none.csv", delimiter=",", headers=true)
        h(x) :- edge(x, y), !gone(x, y).
    """
    assert run(capfd, written(folder, program))["total"] == {"h": 1}
    (folder / "g.csv").write_text("y,x\n1,2\n")
    run(capfd, written(folder, program + '.output h(filename="h.txt")'))
    assert rows(folder / "h.txt") == ["2"]  # names that are declared count, as in tables
    (folder / "g.csv").write_text("x,z\n1,2\n")
    assert "relation 'edge' has no column 'z'" in complaint(capfd, written(folder, program))


def test_nothing_to_run_on(capfd: pytest.CaptureFixture[str], folder: Path):
    assert "Give --input edge=PATH" in complaint(capfd, written(folder, "h(x) :- edge(x, _)."))
    said = complaint(capfd, written(folder, ".decl edge(x, y)\nh(x) :- edge(x, _)."))
    assert "or name files in the program" in said


@pytest.mark.parametrize("atom", ["lnik(b, c)", "!lnik(b, 1)"])
def test_a_relation_that_nothing_names_is_refused_before_anything_is_read_or_written(capfd, folder, atom):
    path = written(folder, f".decl link(x: number, y: number)\n.input link\n.output far\nfar(b) :- link(b, c), {atom}.")
    said = complaint(capfd, path)  # link.facts is not there either
    assert re.search(r"unknown relation 'lnik' \(line 4, column 2\d\)\n(?s:.*)Did you mean 'link'\?", said)
    assert "Give --input lnik=PATH or --changes lnik=PATH, or declare it with .decl" in said
    assert sorted(one.name for one in folder.iterdir()) == ["edge.facts", path.name]


def test_a_declared_relation_needs_no_rows(capfd, folder):
    path = written(folder, ".decl edge(x, y)\n.decl cut(x)\n.input edge\n.output h\nh(x) :- edge(x, _), !cut(x).")
    assert run(capfd, path)["total"] == {"h": 2}
