"""Reading files: every form gives the same rows, and what is wrong is said with file and line."""

from __future__ import annotations

import gzip
import logging
import resource
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpu_wcoj.amounts import parse_bytes
from gpu_wcoj.errors import (
    GpuWcojError,
    InputFileError,
    MemoryBudgetError,
    OutputFileError,
    UsageError,
    WeightError,
)
from gpu_wcoj.files import binary, lines
from gpu_wcoj.files.budget import memory_budget
from gpu_wcoj.files.output import ChangeWriter, write_columns
from gpu_wcoj.files.reader import columns_of, open_input, read_table
from gpu_wcoj.files.spec import InputSpec, parse_input
from gpu_wcoj.files.ticks import ticks

BUDGET = 1 << 30
TABLE = pa.table(
    {
        "src": pa.array([1, 2, 3, 4, 5, 6, 7]),
        "dst": pa.array([2, 3, 1, 5, 6, 4, -8]),
        "name": ["a", "b", "c", "d", "é", "f", "g h"],
        "weight": pa.array([1, 1, -1, 1, 1, 1, -1]),
        "time": pa.array([10, 10, 11, 11, 11, 13, 14]),
    }
)


def read(path: Path, options: str = "", arity: int = 2, budget: int = BUDGET) -> pa.Table:
    return read_table(parse_input(f"edge={path}{options}"), arity, budget)


def read_text(path: Path, text: str | bytes, options: str = "", arity: int = 2) -> pa.Table:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read(path, options, arity)


def read_ticks(specs: list[str], tick_rows: int | None = None, arity: int = 2) -> list[dict[str, list[tuple]]]:
    parsed = [parse_input(spec) for spec in specs]
    readers = {spec.relation: open_input(spec, arity, True, BUDGET) for spec in parsed}
    try:
        return [{name: rows(table) for name, table in tick.items()} for tick in ticks(readers, tick_rows, BUDGET)]
    finally:
        for reader in readers.values():
            reader.close()


def rows(table: pa.Table) -> list[tuple]:
    return list(zip(*table.to_pydict().values(), strict=True))


def write_all_forms(folder: Path) -> list[str]:
    """`TABLE` in every form, plain and gzipped, each as PATH with the options that choose its columns by position."""
    cells = [[str(cell) for cell in row] for row in rows(TABLE)]
    header = ",".join(TABLE.column_names)
    pq.write_table(TABLE, folder / "t.parquet", row_group_size=3)
    with pa.ipc.new_file(folder / "t.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=3)
    with pa.ipc.new_stream(folder / "t.arrows", TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=3)
    (folder / "t.csv").write_text("\n".join([header, *map(",".join, cells)]))
    (folder / "u.csv").write_text("\r\n".join([header, *map(",".join, cells)]) + "\r\n")
    (folder / "t.tsv").write_text("\n".join(map("\t".join, cells)) + "\n")
    (folder / "t.dat").write_text("\n".join(map("|".join, cells)) + "\n\n")
    extra = {"t.tsv": "&header=no", "t.dat": "&sep=pipe&header=no"}
    plain = ["t.parquet", "t.arrow", "t.arrows", "t.csv", "u.csv", "t.tsv", "t.dat"]
    for name in plain:
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
    return [f"{folder / name}{gz}?%s{extra.get(name, '')}" for name in plain for gz in ("", ".gz")]


def test_every_form_gives_the_same_rows(tmp_path: Path):
    for path in write_all_forms(tmp_path):
        spec = parse_input("edge=" + path % "columns=2,0&weight=3")
        table = read_table(spec, 2, BUDGET)
        assert table.schema.types == [pa.string(), pa.int64(), pa.int64()], path
        assert table.column_names[-1] == "weight"
        wanted = TABLE.select(["name", "src", "weight"])
        assert rows(table) == rows(wanted), path


def test_every_form_gives_the_same_ticks(tmp_path: Path):
    sizes = [2, 3, 1, 1]
    for path in write_all_forms(tmp_path):
        spec = "edge=" + path % "columns=0,1&weight=3&tick=4"
        got = read_ticks([spec])
        assert [len(tick["edge"]) for tick in got] == sizes, path
        assert [row for tick in got for row in tick["edge"]] == rows(TABLE.select(["src", "dst", "weight"])), path


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.arrows", "t.csv"])
def test_columns_by_name(tmp_path: Path, name: str):
    write_all_forms(tmp_path)
    table = read(tmp_path / name, "?columns=dst,src&weight=weight")
    assert table.column_names == ["dst", "src", "weight"]
    with pytest.raises(UsageError, match="no column 'sorc'.\n.*'src', 'dst'.*Did you mean 'src'"):
        read(tmp_path / name, "?columns=sorc,dst")
    with pytest.raises(UsageError, match="no column 5: it has 5.\n.*0 to 4"):
        read(tmp_path / name, "?columns=0,5")


def test_a_name_can_hold_what_separates_options(tmp_path: Path):
    pq.write_table(pa.table({"a,b": [1], "c&d": [2], "0": [3]}), tmp_path / "t.parquet")
    table = read(tmp_path / "t.parquet", "?columns=a%2Cb,c%26d")
    assert rows(table) == [(1, 2)]


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
    assert rows(read_text(path, 'a,b\n"x,y","say ""hi"""\n')) == [("x,y", 'say "hi"')]


def test_columns_of_text_are_integers_floats_or_texts(tmp_path: Path):
    path = tmp_path / "g.csv"
    table = read_text(path, "a,b,c,d,e\n007,inf,2024-01-31,true,0.50\n8,nan,2024-02-01,false,1.25\n", arity=5)
    assert table.schema.types == [pa.int64(), pa.string(), pa.string(), pa.string(), pa.float64()]
    assert rows(table)[0] == (7, "inf", "2024-01-31", "true", 0.5)
    assert rows(read(path, "?columns=a,b&types=string,float64"))[0] == ("007", float("inf"))


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path):
    assert read_text(tmp_path / "g.csv", b"\xef\xbb\xbfsrc,dst\n1,2\n").column_names == ["src", "dst"]


def test_a_byte_order_mark_inside_is_text(tmp_path: Path):
    assert rows(read_text(tmp_path / "g.csv", "a,b\n\ufeffx,y\n")) == [("\ufeffx", "y")]


def test_a_header_that_may_be_a_row_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        assert rows(read_text(tmp_path / "g.csv", "ann,bob\nbob,eve\n")) == [("bob", "eve")]
    assert "'ann,bob', was taken for names" in caplog.text
    caplog.clear()
    assert len(read_text(tmp_path / "g.csv", "ann,bob\nbob,eve\n", "?header=no")) == 2
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("name", "text", "options", "match"),
    [
        ("g.txt", "1 2\n# c\n3\n", "", "line 3: 1 fields where the lines before have 2: '3'"),
        ("g.txt", "1 2\n3 4 5\n", "", "line 2: 3 fields"),
        ("g.txt", "1 2\n\n3 x\n", "", "line 3: 'x' is text, but '2' in the same column is a number .*line 1"),
        ("g.txt", "src dst\n1 2\n", "", "line 2: '1' is a number, but 'src' in the same column is text"),
        ("g.txt", "1 0x1F\n1 2\n", "", "line 2: '2' is a number, but '0x1F'"),
        ("g.txt", f"1 2\n3 {2**63}\n", "", f"line 2: '{2**63}' is not an integer of 64 bits"),
        (
            "g.txt",
            "1 2\n3 x\n",
            "?columns=0,1&types=int64,float64",
            "line 2: 'x' is not a number, as 'types' says.*\n.*header=yes",
        ),
        ("g.txt", "1 2\n3 4.5\n", "?columns=0,1&types=int64,int64", "line 2: '4.5' is not an integer"),
        ("g.txt", b"a b\nc \xff\n", "", r"line 2: b'\\xff' is not UTF-8"),
        ("g.txt", b"a \xff\n", "", "line 1: not UTF-8"),
        ("g.txt", b"a b\n\n\xff\n", "", r"line 3: 1 fields where the lines before have 2: '\\xff'"),
        ("g.csv", '1,2\n3,"4\n', "?header=no", "line 2: a quoted value that does not end"),
        ("g.txt", b"\0\0\0\0\n", "", "not text: it holds zero bytes"),
        ("g.csv", "", "", "is empty: it has not even names of columns.\n.*header=no"),
        ("g.csv", "\n", "", "is empty: it has not even names"),
        ("g.csv", "src,dst\n", "?skip=1", "is empty: it has not even names"),
        ("g.txt", "# only\n", "?header=yes", "is empty: it has not even names"),
        ("g.csv", "a,1\n2,3\n", "", "line 1: 'a,1' may be names of columns or a row"),
        (
            "g.csv",
            'a,b\n1,2\n"x\ny",2\n',
            "?columns=0,1&types=string,int64",
            "line 3: a quoted value that does not end",
        ),
        ("g.csv", "a,b\r1,2\r", "", "line 1: a carriage return inside a line"),
        ("g.csv", b"\xff\xfe1\0,\0", "", "UTF-16"),
        ("g.txt", b"\x28\xb5\x2f\xfd....", "", "compressed with zstd"),
        ("g.txt.gz", "1 2\n", "", "called .gz but is not"),
    ],
)
def test_bad_text(tmp_path: Path, name: str, text: str | bytes, options: str, match: str):
    with pytest.raises(InputFileError, match=match) as caught:
        read_text(tmp_path / name, text, options)
    assert name in str(caught.value)
    assert "\n\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "options", "names", "types"),
    [
        ("g.csv", "src,dst\n", "", ["src", "dst"], [pa.null(), pa.null()]),
        ("g.csv", "\ufeffsrc,dst\r\n\r\n", "?columns=dst,src", ["dst", "src"], [pa.null(), pa.null()]),
        ("g.tsv", "src\tname\tdst", "?columns=1,0&types=string,int64", ["name", "src"], [pa.string(), pa.int64()]),
        ("g.csv", "src,n,dst\n", "?weight=n", ["src", "dst", "weight"], [pa.null(), pa.null(), pa.int64()]),
        ("g.txt", "", "", ["c0", "c1"], [pa.null(), pa.null()]),
        ("g.txt", "# only\n\n", "?weight=0", ["c0", "c1", "weight"], [pa.null(), pa.null(), pa.int64()]),
        ("g.txt", "1 2\n", "?skip=1&columns=7,0", ["c0", "c1"], [pa.null(), pa.null()]),
        ("g.csv", "", "?header=no", ["c0", "c1"], [pa.null(), pa.null()]),
        ("g.csv.gz", gzip.compress(b"a,b\n", mtime=0), "", ["a", "b"], [pa.null(), pa.null()]),
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


def test_one_line_that_may_be_a_row_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    assert len(read_text(tmp_path / "g.csv", "ann,bob\n")) == 0
    assert "only line, 'ann,bob', was taken for names" in caplog.text
    caplog.clear()
    assert len(read(tmp_path / "g.csv", "?header=yes")) == 0
    assert len(read(tmp_path / "g.csv", "?columns=bob,ann")) == 0
    assert len(read(tmp_path / "g.csv", "?header=no")) == 1
    assert read_ticks([f"edge={tmp_path / 'g.csv'}?columns=0&weight=bob"], arity=1) == []
    assert caplog.text == ""


def test_text_in_several_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lines, "BLOCK_BYTES", 16)
    path = tmp_path / "g.txt"
    good = "".join(f"{i} {i + 1}\n" for i in range(100))
    assert rows(read_text(path, good)) == [(i, i + 1) for i in range(100)]
    assert rows(read_text(path, good.rstrip("\n"), "?skip=7"))[0] == (7, 8)
    with pytest.raises(
        InputFileError, match="line 101: 'x' is not an integer of 64 bits, as the column's values before"
    ):
        read_text(path, good + "1 x\n")
    with pytest.raises(InputFileError, match="line 101: 1 fields"):
        read_text(path, good + "1\n")
    monkeypatch.setattr(lines, "LINE_BYTES", 100)
    with pytest.raises(InputFileError, match="line 101: longer than"):
        read_text(path, good + "1" * 1000)


def test_a_pipe_can_be_read(tmp_path: Path):
    import os
    import threading

    path = tmp_path / "pipe"
    os.mkfifo(path)
    feeder = threading.Thread(target=lambda: path.write_text("1 2\n3 4\n"))
    feeder.start()
    assert rows(read(path)) == [(1, 2), (3, 4)]
    feeder.join()


def test_missing_files_and_folders(tmp_path: Path):
    with pytest.raises(InputFileError, match="nothing' cannot be read: No such file"):
        read(tmp_path / "nothing")
    with pytest.raises(InputFileError, match="is a folder"):
        read(tmp_path)
    for name in ("e.parquet", "e.arrow", "e.csv.gz"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(InputFileError, match=f"{name}' is empty"):
            read(tmp_path / name)


def test_reading_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InputFileError, match="/proc/self/mem' cannot be read: Input/output error"):
        read(Path("/proc/self/mem"))
    path = tmp_path / "g.txt"
    path.write_text("1 2\n")
    file = lines.TextFile(path, 0)
    with Path("/proc/self/mem").open("rb", buffering=0) as broken:
        monkeypatch.setattr(file, "_unpacked", broken)
        with pytest.raises(InputFileError, match="g.txt' cannot be read: Input/output error"):
            list(file.blocks())
    file.close()


def test_a_crash_of_the_reading_process_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_all_forms(tmp_path)
    for death, match in (
        ("os.kill(os.getpid(), 11)", "ended with signal SIGSEGV"),
        ("os._exit(9)", "ended with status 9"),
    ):
        monkeypatch.setattr(binary, "_COMMAND", f"import os; {death}")
        with pytest.raises(InputFileError, match=f"t.arrow' is damaged: the process that read it {match}"):
            read(tmp_path / "t.arrow")


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.arrows"])
def test_truncated_binary_files(tmp_path: Path, name: str):
    write_all_forms(tmp_path)
    whole = (tmp_path / name).read_bytes()
    for size in (1, 5, 9, len(whole) // 2, len(whole) - 9):
        (tmp_path / name).write_bytes(whole[:size])
        with pytest.raises(InputFileError, match="damaged or not|is empty"):
            read(tmp_path / name, "?columns=0,1")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.arrow"])
def test_damaged_gzip(tmp_path: Path, name: str):
    write_all_forms(tmp_path)
    whole = (tmp_path / f"{name}.gz").read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0x10
    for data in (whole[:-1], whole[: len(whole) // 2], whole[:5], bytes(flipped), whole + b"rest"):
        (tmp_path / f"{name}.gz").write_bytes(data)
        spec = parse_input(f"edge={tmp_path / name}.gz?columns=0,1")
        with pytest.raises(InputFileError, match="not a whole gzip file"):
            read_table(spec, 2, BUDGET)
        with pytest.raises(InputFileError, match="not a whole gzip file"):
            open_input(spec, 2, True, BUDGET)  # before a row of it becomes a change


def test_a_flipped_bit_in_a_parquet_page_is_seen(tmp_path: Path):
    path = tmp_path / "t.parquet"
    edges = {"src": np.arange(1000), "dst": np.arange(1000)[::-1].copy()}
    write_columns(edges, path)
    assert len(read(path)) == 1000
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[500] ^= 1
    path.write_bytes(bytes(flipped))
    with pytest.raises(InputFileError, match="CRC"):
        read(path)


def test_binary_files_take_no_text_options(tmp_path: Path):
    write_all_forms(tmp_path)
    for option in ("sep=tab", "header=yes", "skip=1", "columns=0,1&types=int64,int64"):
        with pytest.raises(UsageError, match="is not text, so option '(sep|header|skip|types)' says nothing"):
            read(tmp_path / "t.parquet", f"?{option}")


def test_two_columns_of_one_name(tmp_path: Path):
    schema = pa.schema([("a", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], schema=schema)
    pq.write_table(table, tmp_path / "t.parquet")
    with pa.ipc.new_file(tmp_path / "t.arrow", schema) as writer:
        writer.write_table(table)
    with pytest.raises(UsageError, match="2 columns called 'a'"):
        read(tmp_path / "t.arrow", "?columns=a,b")
    assert rows(read(tmp_path / "t.arrow", "?columns=1,2")) == [(2, 3)]
    with pytest.raises(InputFileError, match="two columns of the file are called 'a'"):
        read(tmp_path / "t.parquet", "?columns=1,2")


def test_an_empty_parquet_file_is_an_empty_relation(tmp_path: Path):
    pq.write_table(TABLE.slice(0, 0), tmp_path / "t.parquet")
    table = read(tmp_path / "t.parquet", "?columns=0,2")
    assert table.num_rows == 0
    assert table.schema.types == [pa.int64(), pa.string()]
    assert read_ticks([f"edge={tmp_path / 't.parquet'}?columns=0,2"], 5) == []


def test_types_of_parquet_survive(tmp_path: Path):
    table = pa.table(
        {
            "a": pa.array([datetime(2026, 1, 2, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "b": pa.array(["x"]).dictionary_encode(),
            "c": pa.array([1], pa.uint8()),
            "d": pa.array([None], pa.large_string()),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet", arity=4).equals(table)


@pytest.mark.parametrize(
    ("options", "arity", "match"),
    [
        ("", 2, "relation 'edge' has 2 columns, but '.*' has 5 .*'src', 'dst'.*\n.*columns=0,1"),
        ("?weight=3", 2, "has 5 .*, 4 beside weight"),
        ("?columns=0,1,2", 2, "'columns' of .* chooses 3.\n  Choose 2"),
        ("", 9, "separated by something else"),
    ],
)
def test_wrong_number_of_columns(tmp_path: Path, options: str, arity: int, match: str):
    write_all_forms(tmp_path)
    for name in ("t.csv", "t.parquet"):
        with pytest.raises(UsageError, match=match):
            read(tmp_path / name, options, arity)


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
def test_json_is_not_read(tmp_path: Path, name: str):
    text = b'{"src": 1, "dst": 2}\n'
    with pytest.raises(UsageError, match="is JSON by its name, which is not read.\n  Parquet, Arrow IPC, CSV, TSV"):
        read_text(tmp_path / name, gzip.compress(text, mtime=0) if name.endswith("gz") else text)
    (tmp_path / "h.json").write_text("1 2\n")
    assert rows(read(tmp_path / "h.json", "?format=text")) == [(1, 2)]
    assert rows(read(tmp_path / "h.json", "?sep=space")) == [(1, 2)]
    with pytest.raises(InputFileError, match="i.json' cannot be read: No such file"):
        read(tmp_path / "i.json")


def test_names_need_a_header(tmp_path: Path):
    with pytest.raises(UsageError, match="no column 'src': its columns have no names"):
        read_text(tmp_path / "g.txt", "1 2\n", "?columns=src,dst")


def test_a_column_called_weight_is_a_weight_among_changes_only(tmp_path: Path):
    path = tmp_path / "g.csv"
    with pytest.raises(UsageError, match="has 3 .*'weight'"):
        read_text(path, "src,dst,weight\n1,2,-1\n")
    assert read_ticks([f"edge={path}"], 10) == [{"edge": [(1, 2, -1)]}]
    chosen = read(path, "?columns=src,weight")
    assert chosen.column_names == ["c0", "c1"]
    assert rows(chosen) == [(1, -1)]


@pytest.mark.parametrize(
    ("text", "options", "error", "match"),
    [
        ("1 2 1.0\n", "weight=2", WeightError, "weight column is of type double, for example 1.0"),
        ("1 2 x\n", "weight=2", WeightError, "weight column is of type string, for example x"),
        ("1 2 1\n1 2 1.5\n", "weight=2", WeightError, "type double"),
        ("1 2 7\n\n1 2 5\n", "tick=2", InputFileError, "line 3: tick 5 comes after tick 7.\n.*sort"),
        ("1 2 x\n", "tick=2", InputFileError, "tick column is of type string"),
    ],
)
def test_bad_weights_and_ticks(tmp_path: Path, text: str, options: str, error: type[GpuWcojError], match: str):
    (tmp_path / "g.txt").write_text(text)
    with pytest.raises(error, match=match):
        read_ticks([f"edge={tmp_path / 'g.txt'}?{options}"])


def test_missing_weights_and_ticks(tmp_path: Path):
    (tmp_path / "g.csv").write_text("a,b,w\n1,2,1\n1,2,\n")
    with pytest.raises(WeightError, match="line 3: the weight is missing"):
        read_ticks([f"edge={tmp_path / 'g.csv'}?weight=w"])
    with pytest.raises(InputFileError, match="line 3: the tick is missing"):
        read_ticks([f"edge={tmp_path / 'g.csv'}?tick=w"])
    pq.write_table(pa.table({"a": [1, 2], "w": pa.array([1, 2**63], pa.uint64())}), tmp_path / "t.parquet")
    with pytest.raises(WeightError, match="a weight is outside int64"):
        read_ticks([f"edge={tmp_path / 't.parquet'}?weight=w"], arity=1)
    pq.write_table(pa.table({"a": [1, 2, 3], "w": [3, 3, 2]}), tmp_path / "t.parquet")
    with pytest.raises(InputFileError, match="row 3: tick 2 comes after tick 3"):
        read_ticks([f"edge={tmp_path / 't.parquet'}?tick=w"], arity=1)


def test_ticks_are_told_over_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lines, "BLOCK_BYTES", 16)
    path = tmp_path / "g.txt"
    path.write_text("".join(f"{i} {i // 10}\n" for i in range(100)))
    assert [len(tick["r"]) for tick in read_ticks([f"r={path}?tick=1"], arity=1)] == [10] * 10
    assert [len(tick["r"]) for tick in read_ticks([f"r={path}"], 30)] == [30, 30, 30, 10]
    path.write_text("".join(f"{i} {i // 10}\n" for i in range(100)) + "0 0\n")
    with pytest.raises(InputFileError, match="line 101: tick 0 comes after tick 9"):
        read_ticks([f"r={path}?tick=1"], arity=1)


def test_ticks_by_dates_and_timestamps(tmp_path: Path):
    days = pa.array([1, 1, 2], pa.int32()).cast(pa.date32())
    table = pa.table({"a": [1, 2, 3], "day": days, "time": days.cast(pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "t.parquet")
    for column in ("day", "time"):
        got = read_ticks([f"r={tmp_path / 't.parquet'}?columns=a&tick={column}"], arity=1)
        assert got == [{"r": [(1,), (2,)]}, {"r": [(3,)]}]


def test_several_files_of_changes(tmp_path: Path):
    (tmp_path / "a").write_text("1 1\n2 1\n3 4\n")
    (tmp_path / "b").write_text("7 2\n8 4\n9 5\n")
    by_value = read_ticks([f"a={tmp_path / 'a'}?tick=1", f"b={tmp_path / 'b'}?tick=1"], arity=1)
    assert by_value == [{"a": [(1,), (2,)]}, {"b": [(7,)]}, {"a": [(3,)], "b": [(8,)]}, {"b": [(9,)]}]
    by_rows = read_ticks([f"a={tmp_path / 'a'}?columns=0", f"b={tmp_path / 'b'}?columns=0"], 2, arity=1)
    assert by_rows == [{"a": [(1,), (2,)], "b": [(7,), (8,)]}, {"a": [(3,)], "b": [(9,)]}]
    with pytest.raises(UsageError, match="changes of 'b' have no tick column"):
        read_ticks([f"a={tmp_path / 'a'}?tick=1", f"b={tmp_path / 'b'}?columns=0"], arity=1)
    with pytest.raises(UsageError, match="by --tick-rows 3"):
        read_ticks([f"a={tmp_path / 'a'}?tick=1"], 3, arity=1)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("edge", "does not say which file"),
        ("=x", "does not say which file"),
        ("edge=", "does not say which file"),
        ("edge=?columns=1", "does not say which file"),
        ("edge=f?colums=1", "unknown option 'colums'.\n.*Did you mean 'columns'"),
        ("edge=f?skip=1&skip=2", "'skip' twice"),
        ("edge=f?skip=-1", "'skip' cannot be '-1'"),
        ("edge=f?header=maybe", "'header' cannot be 'maybe'.\n  Give 'yes' or 'no'"),
        ("edge=f?sep=ab", "'sep' cannot be 'ab'.\n.*'comma'"),
        ("edge=f?sep=%0A", "'sep' cannot be"),
        ("edge=f?columns=1,,2", "'columns' cannot be '1,,2'"),
        ("edge=f?format=xls", "'format' cannot be 'xls'.\n.*'parquet'"),
        ("edge=f?columns=0&types=integer", "'integer' is none of 'int64'"),
        ("edge=f?types=int64", "1 types and no columns"),
        ("edge=f?columns=0,1&types=int64", "1 types and 2 columns"),
    ],
)
def test_bad_options(text: str, match: str):
    with pytest.raises(UsageError, match=match):
        parse_input(text)


def test_a_file_whose_name_looks_like_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    name = "odd name?&=.csv"
    (tmp_path / name).write_text("a,b,c\n1,2,3\n")
    (tmp_path / "g.csv?header=no").write_text("a,b,c\n")
    for folder in (tmp_path, "~"):
        assert parse_input(f"edge={folder}/{name}") == InputSpec("edge", tmp_path / name)
        assert parse_input(f"edge={folder}/g.csv?header=no") == InputSpec("edge", tmp_path / "g.csv?header=no")
    assert rows(read(tmp_path / name, arity=3)) == [(1, 2, 3)]
    assert rows(read(tmp_path / name, "?columns=c,a")) == [(3, 1)]
    assert parse_input(f"edge={tmp_path}/h.csv?header=no") == InputSpec("edge", tmp_path / "h.csv", header=False)
    for other in ("even name?&=.csv", "x" * 300 + "?&=.csv"):
        with pytest.raises(UsageError, match="unknown option ''.\n  There is no file '.*[?]&=.csv', and the options"):
            parse_input(f"edge={tmp_path}/{other}")
    assert parse_input("edge=~nobody_of_this_name/g.csv").path == Path("~nobody_of_this_name/g.csv")


def test_standard_input_has_a_name():
    assert parse_input("edge=-?format=csv") == InputSpec("edge", Path("/dev/stdin"), format="csv")
    assert parse_input("edge=./-") == InputSpec("edge", Path("-"))


def test_options_stand_after_the_last_question_mark():
    assert parse_input("edge=a?b.txt?skip=2") == InputSpec("edge", Path("a?b.txt"), skip=2)
    assert parse_input("edge=a=b.txt") == InputSpec("edge", Path("a=b.txt"))


def test_memory_budget(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GPU_WCOJ_MEMORY_BUDGET", "3MB")
    assert memory_budget() == 3_000_000
    assert memory_budget("2KiB") == 2048
    monkeypatch.delenv("GPU_WCOJ_MEMORY_BUDGET")
    assert memory_budget() > 1 << 20
    for bad in ("", "x", "0", "-1", "1.5GB"):
        with pytest.raises(UsageError, match="not an amount of memory"):
            parse_bytes(bad)


def test_bombs_are_refused(tmp_path: Path):
    budget = 20_000_000
    zeros = np.zeros(3_000_000, np.int64)
    write_columns({"a": zeros, "b": zeros}, tmp_path / "rows.parquet")
    assert (tmp_path / "rows.parquet").stat().st_size < 1_000_000
    with pytest.raises(MemoryBudgetError, match="3000000 rows of 2 columns, which takes 48.0 MB"):
        read(tmp_path / "rows.parquet", budget=budget)
    long = pa.array(["x" * 1_000_000]).take(pa.array([0] * 1000))
    pq.write_table(pa.table({"a": long}), tmp_path / "long.parquet")
    assert (tmp_path / "long.parquet").stat().st_size < 1_000_000
    with pytest.raises(MemoryBudgetError, match="long.parquet"):
        read(tmp_path / "long.parquet", arity=1, budget=budget)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    table = pa.table({"a": zeros})
    with pa.ipc.new_file(tmp_path / "zstd.arrow", table.schema, options=options) as writer:
        writer.write_table(table)
    with pytest.raises(MemoryBudgetError, match="zstd.arrow"):
        read(tmp_path / "zstd.arrow", arity=1, budget=budget)
    with gzip.open(tmp_path / "rows.txt.gz", "wb", 1) as file:
        for _ in range(12):
            file.write(b"1 2\n" * 200_000)
    with pytest.raises(MemoryBudgetError, match="rows.txt.gz"):
        read(tmp_path / "rows.txt.gz", budget=budget)
    with gzip.open(tmp_path / "line.gz", "wb", 1) as file:
        for _ in range(80):
            file.write(b"1" * 1_000_000)
    with pytest.raises(InputFileError, match="longer than 64 MiB"):
        read(tmp_path / "line.gz", budget=budget)
    with pytest.raises(MemoryBudgetError, match="unpacking"):
        read(tmp_path / "line.gz", "?format=arrow", budget=budget)


def test_one_tick_is_bounded_too(tmp_path: Path):
    write_columns({"a": np.arange(2_000_000), "t": np.zeros(2_000_000, np.int64)}, tmp_path / "t.parquet")
    reader = open_input(parse_input(f"r={tmp_path / 't.parquet'}?tick=t"), 1, True, 5_000_000)
    with pytest.raises(MemoryBudgetError, match="one tick of 'r'"):
        list(ticks({"r": reader}, None, 5_000_000))
    reader.close()


class _Piece:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def to_arrow(self) -> pa.Table:
        return self._table


def _write_and_fail(writer: ChangeWriter, piece: _Piece) -> None:
    with writer.tick(1):
        writer.write("tri", piece)
        raise RuntimeError("half way")


def test_changes_are_written_whole_or_not_at_all(tmp_path: Path):
    writer = ChangeWriter(tmp_path / "out", ["tri"])
    piece = _Piece(pa.table({"a": [1], "weight": [1]}))
    with writer.tick(0):
        writer.write("tri", piece)
        writer.write("tri", piece)
        assert list((tmp_path / "out" / "tri").glob("*.parquet")) == []
    with pytest.raises(RuntimeError, match="half way"):
        _write_and_fail(writer, piece)
    with writer.tick(2):
        writer.write("tri", _Piece(pa.table({"tick": [1], "weight": [1]})))
        writer.write("tri", _Piece(pa.table({"tick": pa.array([], pa.int64()), "weight": pa.array([], pa.int64())})))
    with writer.tick(3):
        pass
    files = sorted(path.name for path in (tmp_path / "out" / "tri").iterdir())
    assert files == ["tick-000000000.parquet", "tick-000000002.parquet"]
    first, third = (pq.read_table(tmp_path / "out" / "tri" / name) for name in files)
    assert first.to_pydict() == {"a": [1, 1], "weight": [1, 1], "tick": [0, 0]}
    assert third.to_pydict() == {"tick": [1], "weight": [1], "_tick": [2]}


def test_a_file_that_cannot_grow_is_named_and_leaves_nothing(tmp_path: Path):
    writer = ChangeWriter(tmp_path / "out", ["tri", "all"])
    piece = _Piece(pa.table({"a": np.random.default_rng(1).integers(0, 1 << 60, 5000)}))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OutputFileError, match="tick-000000000.parquet' cannot be written: File too large"):
            _write_both(writer, piece)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []
    _write_both(writer, piece)
    assert len(list((tmp_path / "out").glob("*/tick-000000000.parquet"))) == 2


def _write_both(writer: ChangeWriter, piece: _Piece) -> None:
    with writer.tick(0):
        writer.write("tri", piece)
        writer.write("all", piece)


def test_where_nothing_can_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputFileError, match="cannot be written: Not a directory"):
        ChangeWriter(tmp_path / "file", ["tri"])
    with pytest.raises(OutputFileError, match="cannot be written"):
        write_columns({"a": np.arange(3)}, tmp_path / "file" / "t.parquet")
    ChangeWriter(tmp_path / "out", ["tri"])
    (tmp_path / "out" / "tri" / "old").write_text("x")
    with pytest.raises(UsageError, match="holds files already"):
        ChangeWriter(tmp_path / "out", ["tri"])
    writer = ChangeWriter(tmp_path / "gone", ["tri"])
    (tmp_path / "gone" / "tri").rmdir()
    with pytest.raises(OutputFileError, match="cannot be written: No such file"), writer.tick(0):
        writer.write("tri", _Piece(pa.table({"a": [1], "weight": [1]})))


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.arrows", "t.csv.gz", "t.parquet.gz"])
def test_mutated_files_never_crash(tmp_path: Path, name: str):
    """A byte changed anywhere gives the rows of some file or an error of ours, in the process that asks."""
    write_all_forms(tmp_path)
    whole = (tmp_path / name).read_bytes()
    random = np.random.default_rng(len(name))
    for _ in range(6):
        data = bytearray(whole)
        for _ in range(random.integers(1, 4)):
            data[random.integers(len(data))] = random.integers(256)
        (tmp_path / name).write_bytes(bytes(data))
        try:
            read(tmp_path / name, "?columns=0,2&weight=3", budget=100_000_000)
        except GpuWcojError as error:
            assert str(error)  # noqa: PT017  # either outcome is right; anything else fails the test
