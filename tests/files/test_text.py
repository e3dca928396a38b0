"""Files of text: their columns, their lines of names, and what is said of wrong ones."""

from __future__ import annotations

import csv
import gzip
import io
import random
from pathlib import Path

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import (
    InputFileError,
    UsageError,
)
from gpu_wcoj.files import formats
from gpu_wcoj.files.reader import columns_of
from gpu_wcoj.files.spec import parse_input
from tests.helpers.input_files import BUDGET, read, read_text, read_ticks, rows


def test_snap_text(tmp_path: Path):
    text = "# Directed graph\r\n# From\tTo\r\n 1\t 2 \r\n\r\n3  4\n  # remark\n-5\t6"
    assert rows(read_text(tmp_path / "g.txt", text)) == [(1, 2), (3, 4), (-5, 6)]


def test_options_of_text(tmp_path: Path):
    text = "one line\nanother\n7;8;x\n9;10;y\n"
    path = tmp_path / "g.txt"
    assert rows(read_text(path, text, "?sep=semicolon&skip=2&columns=1,2&header=no")) == [(8, "x"), (10, "y")]
    assert rows(read_text(path, text, "?sep=;&skip=3&columns=1,2&header=no")) == [(10, "y")]
    assert rows(read_text(path, "a b\n1 2\n", "?header=yes&columns=b,a")) == [(2, 1)]
    assert rows(read_text(path, "1,2\n3,4\n", "?format=csv")) == [(1, 2), (3, 4)]
    assert rows(read_text(path, "007 1\n8 2\n", "?columns=0,1&types=string,float64")) == [("007", 1.0), ("8", 2.0)]


def test_numbers_and_text(tmp_path: Path):
    path = tmp_path / "g.csv"
    table = read_text(path, "a,b,c,d\n+1,1.5,x,\n-2,2,,3\n", arity=4)
    assert table.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.int64()]
    assert rows(table) == [(1, 1.5, "x", None), (-2, 2.0, "", 3)]
    limits = f"{2**63 - 1},{-(2**63)}\n"
    assert rows(read_text(path, limits)) == [(2**63 - 1, -(2**63))]
    assert rows(read_text(path, "1, 2\n3, +4\n")) == [(1, 2), (3, 4)]
    assert rows(read_text(path, 'a,b\n"x,y","say ""hi"""\n', "?header=yes")) == [("x,y", 'say "hi"')]


def test_columns_of_text_are_integers_floats_or_texts(tmp_path: Path):
    path = tmp_path / "g.csv"
    table = read_text(path, "a,b,c,d,e\n7,inf,2024-01-31,true,0.50\n8,nan,2024-02-01,false,1.25\n", arity=5)
    assert table.schema.types == [pa.int64(), pa.string(), pa.string(), pa.string(), pa.float64()]
    assert rows(table)[0] == (7, "inf", "2024-01-31", "true", 0.5)
    path.write_text("a,b\n007,inf\n8,nan\n")
    assert rows(read(path, "?columns=a,b&types=string,float64"))[0] == ("007", float("inf"))


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path):
    assert read_text(tmp_path / "g.csv", b"\xef\xbb\xbfsrc,dst\n1,2\n").column_names == ["src", "dst"]


def test_a_byte_order_mark_inside_is_text(tmp_path: Path):
    assert rows(read_text(tmp_path / "g.csv", "a,b\n\ufeffx,y\n", "?header=yes")) == [("\ufeffx", "y")]


@pytest.mark.parametrize(
    ("name", "text", "options", "names", "types"),
    [
        ("g.csv", "src,dst\n", "?header=yes", ["src", "dst"], [pa.null(), pa.null()]),
        ("g.csv", "\ufeffsrc,dst\r\n\r\n", "?columns=dst,src", ["dst", "src"], [pa.null(), pa.null()]),
        ("g.tsv", "src\tname\tdst", "?columns=1,0&types=string,int64", ["name", "src"], [pa.string(), pa.int64()]),
        ("g.csv", "src,n,dst\n", "?weight=n", ["src", "dst", "weight"], [pa.null(), pa.null(), pa.int64()]),
        ("g.txt", "", "", ["c0", "c1"], [pa.null(), pa.null()]),
        ("g.txt", "# only\n\n", "?weight=0", ["c0", "c1", "weight"], [pa.null(), pa.null(), pa.int64()]),
        ("g.txt", "1 2\n", "?skip=1&columns=7,0", ["c0", "c1"], [pa.null(), pa.null()]),
        ("g.csv", "", "?header=no", ["c0", "c1"], [pa.null(), pa.null()]),
        ("g.csv.gz", gzip.compress(b"a,b\n", mtime=0), "?header=yes", ["a", "b"], [pa.null(), pa.null()]),
        ("g.gz", gzip.compress(b"", mtime=0), "", ["c0", "c1"], [pa.null(), pa.null()]),
    ],
)
def test_text_without_rows_is_an_empty_relation(
    tmp_path: Path, name: str, text: str | bytes, options: str, names: list[str], types: list[pa.DataType]
):
    table = read_text(tmp_path / name, text, options)
    assert (table.num_rows, table.column_names, table.schema.types) == (0, names, types)
    assert read_ticks([f"edge={tmp_path / name}{options}"]) == []


def test_no_rows_beside_ticks(tmp_path: Path):
    (tmp_path / "none.csv").write_text("a,t\n")
    (tmp_path / "some.csv").write_text("a,t\n7,1\n8,2\n")
    none, some = (f"{name}={tmp_path / name}.csv?tick=t" for name in ("none", "some"))
    assert read_ticks([none, some], arity=1) == [{"some": [(7,)]}, {"some": [(8,)]}]
    with pytest.raises(UsageError, match="none.csv' has no column 'x'.\n.*'a', 't'"):
        read_ticks([none.replace("tick=t", "tick=x")], arity=1)
    with pytest.raises(UsageError, match="relation 'none' has 3 columns, but '.*none.csv' has 2"):
        read_ticks([none.partition("?")[0]], arity=3)


def test_no_rows_and_no_names(tmp_path: Path):
    path = tmp_path / "g.txt"
    with pytest.raises(UsageError, match="no column 'src': its columns have no names"):
        read_text(path, "", "?columns=src,dst")
    with pytest.raises(UsageError, match="chooses 3"):
        read(path, "?columns=0,1,2")
    with pytest.raises(InputFileError, match="does not tell how many columns 'edge' has.\n.*columns=0,1"):
        columns_of(parse_input(f"edge={path}"), False, BUDGET)
    assert columns_of(parse_input(f"edge={path}?columns=0,1"), False, BUDGET) == {"c0": None, "c1": None}


def test_one_line_of_texts_is_not_guessed(tmp_path: Path):
    with pytest.raises(
        InputFileError, match="line 1: 'ann,bob' may be names of columns or a row.\n.*header=yes or head"
    ):
        read_text(tmp_path / "g.csv", "ann,bob\n")
    assert len(read(tmp_path / "g.csv", "?header=yes")) == 0
    assert len(read(tmp_path / "g.csv", "?columns=bob,ann")) == 0
    assert len(read(tmp_path / "g.csv", "?header=no")) == 1
    assert read_ticks([f"edge={tmp_path / 'g.csv'}?columns=0&weight=bob"], arity=1) == []
    with pytest.raises(UsageError, match="has 3 columns, but '.*g.csv' has 2"):
        read(tmp_path / "g.csv", arity=3)


def test_text_in_several_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(formats, "BLOCK_BYTES", 16)
    path = tmp_path / "g.txt"
    good = "".join(f"{i} {i + 1}\n" for i in range(100))
    assert rows(read_text(path, good)) == [(i, i + 1) for i in range(100)]
    assert rows(read_text(path, good.rstrip("\n"), "?skip=7"))[0] == (7, 8)
    with pytest.raises(
        InputFileError, match="line 101: 'x' is not an integer of 64 bits, as the column's values before"
    ):
        read_text(path, good + "1 x\n")
    with pytest.raises(InputFileError, match="line 101: 1 field"):
        read_text(path, good + "1\n")
    monkeypatch.setattr(formats, "LINE_BYTES", 100)
    with pytest.raises(InputFileError, match="line 101: longer than"):
        read_text(path, good + "1" * 1000)


def test_a_name_that_does_not_tell_what_it_holds(tmp_path: Path):
    for name in ("g", "g.data", "g.txt.gz"):
        with pytest.raises(
            UsageError, match=f"has 1.\n.*between blanks: if it is CSV, say 'edge=.*{name}[?]format=csv'"
        ):
            read_text(tmp_path / name, gzip.compress(b"1,2\n", mtime=0) if name.endswith("gz") else b"1,2\n")
    for options in ("?format=text", "?sep=pipe"):
        with pytest.raises(UsageError, match="If the fields are separated by something else"):
            read(tmp_path / "g", options)
    assert rows(read(tmp_path / "g", "?format=csv")) == [(1, 2)]


@pytest.mark.parametrize("name", ["g.json", "g.jsonl", "g.NDJSON", "g.json.gz"])
def test_lines_of_json(tmp_path: Path, name: str):
    text = b'{"src": 1, "dst": 2}\n{"dst": 4, "src": 3}\n'
    content = gzip.compress(text, mtime=0) if name.endswith("gz") else text
    assert rows(read_text(tmp_path / name, content)) == [(1, 2), (3, 4)]
    assert rows(read(tmp_path / name, "?columns=dst,src")) == [(2, 1), (4, 3)]
    (tmp_path / "h.json").write_text("1 2\n")
    assert rows(read(tmp_path / "h.json", "?format=text")) == [(1, 2)]
    assert rows(read(tmp_path / "h.json", "?sep=space")) == [(1, 2)]
    with pytest.raises(InputFileError, match="i.json' cannot be read: No such file"):
        read(tmp_path / "i.json")
    for bad in ('{"src": 1', '[{"src": 1, "dst": 2}]', "1 2"):
        with pytest.raises(InputFileError, match="g.jsonl' is damaged or not lines of JSON: JSON parse error"):
            read_text(tmp_path / "g.jsonl", bad)
    with pytest.raises(UsageError, match="is not text, so option 'header' says nothing"):
        read_text(tmp_path / "g.jsonl", text, "?header=yes")


def test_names_need_a_header(tmp_path: Path):
    with pytest.raises(UsageError, match="no column 'src': its columns have no names"):
        read_text(tmp_path / "g.txt", "1 2\n", "?columns=src,dst")


@pytest.mark.parametrize("block_bytes", [7, 40, 8 << 20])
def test_quoted_values_may_hold_line_ends(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr("gpu_wcoj.files.formats.BLOCK_BYTES", block_bytes)
    seed = random.randrange(2**32)
    print("seed", seed)
    draw = random.Random(seed)
    path = tmp_path / "t.csv"
    for _ in range(40):
        texts = ["".join(draw.choices(["a", "ä", "\n", "\r\n", '"', ",", " "], k=draw.randrange(6))) for _ in range(9)]
        rows = list(enumerate(["a", *texts]))
        out = io.StringIO(newline="")
        writer = csv.writer(out, lineterminator=draw.choice(["\n", "\r\n"]))
        writer.writerows([("n", "s"), *rows])
        path.write_bytes(out.getvalue().encode())
        assert sorted(gw.query("q(n, s) :- t(n, s).", t=f"{path}?header=yes").rows()) == rows, out.getvalue()


def test_lines_are_counted_with_the_line_ends_in_values(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('n,s\n1,"x\n\ny"\n2,z\n3,"a",b\n')
    with pytest.raises(InputFileError, match="line 6: 3 fields where the lines before have 2"):
        gw.query("q(n, s) :- t(n, s).", t=path)
    path.write_text('n,s\n1,"x\ny"\n2,"z\n')
    with pytest.raises(InputFileError, match="line 4: a quoted value that does not end"):
        gw.query("q(n, s) :- t(n, s).", t=path)


def test_the_character_that_stands_for_carriage_returns_is_kept_or_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'k,v\n1,"p\x1dq"\n2,"x"\n')
    assert sorted(gw.query("h(k, v) :- t(k, v).", t=path).rows()) == [(1, "p\x1dq"), (2, "x")]
    path.write_bytes(b'k,v\n1,"p\x1dq"\n2,"x\ny"\n')
    with pytest.raises(gw.errors.InputFileError, match="the character 0x1D beside them"):
        gw.query("h(k, v) :- t(k, v).", t=path)
