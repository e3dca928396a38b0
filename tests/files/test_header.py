"""The first line of a text file, names or a row; and other guesses that would lose or change a value."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest

from gpu_wcoj.cli.main import main
from gpu_wcoj.errors import InputFileError
from gpu_wcoj.files import formats
from gpu_wcoj.files.output import OutputSpec, write_whole
from tests.helpers.command_line import complaint
from tests.helpers.input_files import read, read_text, read_ticks, rows

OPEN = "may be names of columns or a row.\n  Say header=yes or header=no"


@pytest.mark.parametrize(
    ("name", "text", "options", "wanted"),
    [
        ("g.csv", "src,n\nann,1\nbo,2\n", "", [("ann", 1), ("bo", 2)]),  # texts over numbers are names
        ("g.tsv", "src\tn\nann\t1\n", "", [("ann", 1)]),
        ("g.csv", ",n\n7,1\n8,2\n", "", [(7, 1), (8, 2)]),  # as data frames are written with their index
        ("g.csv", "1,2\n3,4\n", "", [(1, 2), (3, 4)]),
        ("g.csv", "1,2\n", "", [(1, 2)]),
        ("g.csv", "1,\n,2\n", "", [(1, None), (None, 2)]),
        ("g.csv", "name,city,age\nann,rome,3\n", "?columns=0,1", [("ann", "rome")]),  # a column that is not used tells
        ("g.csv", "ann,bo\nbo,cy\n", "?header=no", [("ann", "bo"), ("bo", "cy")]),
        ("g.csv", "ann,bo\nbo,cy\n", "?header=yes", [("bo", "cy")]),
        ("g.csv", "x,y\nbo,cy\n", "?columns=y,x", [("cy", "bo")]),  # names that are asked for are there
        ("g.csv", "ann,5\nbo,6\n", "?columns=0,1&types=string,int64", [("ann", 5), ("bo", 6)]),
        ("g.csv", "who,age\nbo,6\n", "?columns=0,1&types=string,int64", [("bo", 6)]),
        ("g.csv", "who,age\n", "?columns=0,1&types=string,int64", []),
        ("g.csv", "ann,bo,1\nbo,cy,-1\n", "?weight=2", [("ann", "bo", 1), ("bo", "cy", -1)]),
        ("g.csv", "a,b,w\n", "?weight=2", []),
        ("g.csv", "nan,1\n0.5,2\n", "?columns=0,1&types=float64,int64", None),
        ("g.facts", "ann\tbo lee\nbo\tcy\n", "", [("ann", "bo lee"), ("bo", "cy")]),  # never has names
        ("g.facts", "src\tdst\n", "", [("src", "dst")]),
        ("g.facts", "", "", []),
        ("g.facts", "src\tdst\nbo\tcy\n", "?header=yes", [("bo", "cy")]),
        ("g.txt", "a b\nbo cy\n", "?columns=b,a", [("cy", "bo")]),
    ],
)
def test_what_tells_a_first_line(tmp_path: Path, name: str, text: str, options: str, wanted: list[tuple] | None):
    for packed in (False, True):
        path = tmp_path / (name + ".gz" * packed)
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        if packed and not text:
            continue
        found = rows(read(path, options))
        assert (len(found) == 2) if wanted is None else (found == wanted)


def test_a_column_called_weight_tells_changes(tmp_path: Path):
    (tmp_path / "g.csv").write_text("a,b,weight\nann,bo,-1\n")
    assert read_ticks([f"edge={tmp_path / 'g.csv'}"]) == [{"edge": [("ann", "bo", -1)]}]
    (tmp_path / "g.csv").write_text("a,b,weight\n")
    assert read_ticks([f"edge={tmp_path / 'g.csv'}"]) == []
    (tmp_path / "g.csv").write_text("height,weight\n")
    with pytest.raises(InputFileError, match=OPEN):
        read_ticks([f"edge={tmp_path / 'g.csv'}"])


PROGRAMS = {
    "texts": ".decl e(x: symbol, y: symbol)\nh(x, y) :- e(x, y).\n.output h(headers=true)\n",
    "numbers": ".decl e(x: symbol, y: number)\nh(x, y) :- e(x, y).\n.output h(headers=true)\n",
    "no types": ".decl e(x, y)\nh(x, y) :- e(x, y).\n.output h(headers=true)\n",
}


@pytest.mark.parametrize("option", ["--input", "--changes"])
@pytest.mark.parametrize(
    ("program", "text", "wanted"),
    [
        ("texts", "x,y\nann,bo\n", [("ann", "bo")]),  # the names that are declared
        ("texts", "y,x\nann,bo\n", [("bo", "ann")]),  # in another order
        ("texts", "x,y\n", []),
        ("texts", "ann,bo\nbo,cy\n", None),
        ("texts", "from,to\nann,bo\n", None),
        ("numbers", "ann,5\nbo,6\n", [("ann", "5"), ("bo", "6")]),  # a row of the types
        ("numbers", "ann,5\n", [("ann", "5")]),
        ("numbers", "y,x\n5,ann\n", [("ann", "5")]),
        ("numbers", "y,x\n", []),
        ("numbers", "ann,007\n", [("ann", "7")]),
        ("no types", "x,y\nann,bo\n", [("ann", "bo")]),
        ("no types", "ann,bo\nbo,cy\n", None),
        ("texts", "1,2\n", [("1", "2")]),  # a column of symbols, whatever it looks like
        ("texts", "007,2\n3,4\n", [("007", "2"), ("3", "4")]),
    ],
)
def test_a_declaration_tells_a_first_line(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    option: str,
    program: str,
    text: str,
    wanted: list[tuple] | None,
):
    (tmp_path / "p.dl").write_text(PROGRAMS[program].replace(".output h(", f'.output h(filename="{tmp_path}/h", '))
    (tmp_path / "e.csv").write_text(text)
    arguments = ["run", str(tmp_path / "p.dl"), option, f"e={tmp_path}/e.csv"]
    if wanted is None:
        assert OPEN in complaint(capfd, *arguments)
        assert not (tmp_path / "h").exists()
        return
    assert main(arguments) == 0, capfd.readouterr().err
    assert capfd.readouterr().err == ""
    names, *found = (tuple(line.split("\t")) for line in (tmp_path / "h").read_text().replace('"', "").splitlines())
    assert (names, sorted(found)) == (("x", "y"), wanted)


def test_a_value_that_is_not_of_its_declared_type_has_its_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    (tmp_path / "p.dl").write_text(PROGRAMS["numbers"])
    (tmp_path / "e.csv").write_text("ann,5\nbo,x\n")
    message = complaint(capfd, "run", tmp_path / "p.dl", "--input", f"e={tmp_path}/e.csv")
    assert "line 2: 'x' is not an integer of 64 bits, and column 1 is declared as 'int64'" in message
    assert "header=yes" in message


def test_a_header_that_a_program_does_not_mention_is_asked_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    (tmp_path / "e.csv").write_text("x,y\nann,bo\n")
    program = (
        '.decl e(x: symbol, y: symbol)\n.input e(filename="e.csv", delimiter=","{})\nh(x) :- e(x, _).\n.output h\n'
    )
    (tmp_path / "p.dl").write_text(program.format(""))
    message = complaint(capfd, "run", tmp_path / "p.dl")
    assert "line 1: 'x,y' may be names of columns or a row.\n  Say headers=true or headers=false in .input." in message
    for headers, wanted in (("true", ["ann"]), ("false", ["ann", "x"])):
        (tmp_path / "p.dl").write_text(program.format(f", headers={headers}"))
        assert main(["run", str(tmp_path / "p.dl")]) == 0
        assert sorted((tmp_path / "h.csv").read_text().split()) == wanted
    (tmp_path / "e.facts").write_text("x\ty\nann\tbo\n")
    (tmp_path / "p.dl").write_text(".decl e(x: symbol, y: symbol)\n.input e\nh(x) :- e(x, _).\n.output h\n")
    assert main(["run", str(tmp_path / "p.dl")]) == 0
    assert sorted((tmp_path / "h.csv").read_text().split()) == ["ann", "x"]
    capfd.readouterr()


def test_the_columns_of_a_motif_tell_a_first_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    (tmp_path / "e.csv").write_text("src,dst\nann,bo\nbo,ann\n")
    arguments = ["run", "-e", "(a)-[]->(b); (b)-[]->(a)", "--language", "motif", "--input", f"edges={tmp_path}/e.csv"]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[-1])["total"] == {"matches": 2}
    (tmp_path / "e.csv").write_text("von,nach\nann,bo\nbo,ann\n")
    assert OPEN in complaint(capfd, *arguments)


def test_what_is_said_is_no_guess(tmp_path: Path):
    assert rows(read_text(tmp_path / "g.txt", "1 ann\n#2 bo\n")) == [(1, "ann")]  # numbers: so this is a comment
    path = tmp_path / "g.csv"
    text = "007,0.5\n8,9007199254740993\n"
    assert rows(read_text(path, text, "?columns=0,1&types=string,float64")) == [("007", 0.5), ("8", 9007199254740992.0)]
    assert rows(read(path, "?columns=0,1&types=int64,string"))[0] == (7, "0.5")
    with pytest.raises(InputFileError, match="'1e400' would be read as the number inf.\n  Mend the line, or give"):
        read_text(path, "1e400,1\n", "?columns=0,1&types=float64,int64")
    assert rows(read_text(path, 'a,b\n0,"say ""0""7"\n100.01,5" x\n')) == [(0.0, 'say "0"7'), (100.01, '5" x')]
    assert rows(read_text(tmp_path / "g.tsv", "#cy\t2\n", "?header=no")) == [("#cy", 2)]


def test_later_blocks_are_looked_at_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(formats, "BLOCK_BYTES", 16)
    text = "".join(f"{i},{i}\n" for i in range(100))
    assert len(read_text(tmp_path / "g.csv", text)) == 100
    with pytest.raises(InputFileError, match="line 101: '05' would be read as the number 5"):
        read_text(tmp_path / "g.csv", text + "05,1\n")


@pytest.mark.parametrize("size", [4, 8 << 20])
def test_an_empty_line_among_rows_of_one_field_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int):
    monkeypatch.setattr(formats, "BLOCK_BYTES", size)
    for text, line in (("aa\n\nbb\ncc\n", 2), ("aa\nbb\n\n\ncc\n", "[34]"), ("1\n2\n\n3\n", 3)):
        with pytest.raises(InputFileError, match=f'line {line}: an empty line may be a row.*\n  Write ""'):
            read_text(tmp_path / "g.csv", text, "?header=no", arity=1)
    assert rows(read_text(tmp_path / "g.csv", 'aa\n""\nbb\n\n\n', "?header=no", arity=1)) == [("aa",), ("",), ("bb",)]


def test_an_empty_text_alone_in_its_row_is_written_so_that_it_is_read(tmp_path: Path):
    table = pa.table({"a": ["x", "", "y"]})
    write_whole(OutputSpec("r", tmp_path / "r.csv", ",", header=True), table)
    assert read(tmp_path / "r.csv", "?header=yes", arity=1).to_pydict() == table.to_pydict()
