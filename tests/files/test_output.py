"""Files that are written: whole or not at all."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpu_wcoj.errors import (
    OutputFileError,
    UsageError,
)
from gpu_wcoj.files.output import ChangeWriter, OutputSpec, write_columns, write_whole


class _Piece:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def to_arrow(self) -> pa.Table:
        return self._table


@contextmanager
def _files_of_at_most(n_bytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


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
    with (
        _files_of_at_most(1000),
        pytest.raises(OutputFileError, match="tick-000000000.parquet' cannot be written: File too large"),
    ):
        _write_two(writer, {"tri": piece, "all": piece})
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []
    _write_two(writer, {"tri": piece, "all": piece})
    assert len(list((tmp_path / "out").glob("*/tick-000000000.parquet"))) == 2


def test_no_file_of_a_tick_is_left_if_another_one_cannot_grow(tmp_path: Path):
    writer = ChangeWriter(tmp_path / "out", ["few", "many"])
    many = _Piece(pa.table({"a": np.random.default_rng(1).integers(0, 1 << 60, 5000)}))
    with (
        _files_of_at_most(10_000),
        pytest.raises(OutputFileError, match="many/tick-000000000.parquet' cannot be written: File too large"),
    ):
        _write_two(writer, {"few": _Piece(pa.table({"a": [1]})), "many": many})
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


def _write_two(writer: ChangeWriter, pieces: dict[str, _Piece]) -> None:
    with writer.tick(0):
        for relation, piece in pieces.items():
            writer.write(relation, piece)


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


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("sizes", [(0, 2), (0, 0, 1), (2, 0, 1), (0,)])
def test_batches_without_rows_write_nothing(tmp_path: Path, sizes: tuple[int, ...], header: bool):
    numbers = pa.chunked_array([pa.array(range(n), pa.int64()) for n in sizes])
    write_whole(OutputSpec("e", tmp_path / "e.facts", "\t", header=header), pa.table({"a": numbers}))
    lines = [*(["a"] if header else []), *map(str, numbers.to_pylist())]
    assert (tmp_path / "e.facts").read_text() == "".join(f"{line}\n" for line in lines)
