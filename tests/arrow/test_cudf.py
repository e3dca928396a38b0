"""The border with cuDF: what goes in and out by its columns, with a stand-in for what cuDF answers."""

from __future__ import annotations

import datetime as dt
import importlib
import importlib.util
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpu_wcoj.arrow import cudf
from gpu_wcoj.errors import (
    BackendUnavailableError,
    ColumnError,
    SchemaError,
    TypeMismatchError,
    UnsupportedTypeError,
    WeightError,
)
from gpu_wcoj.zset.zset import ZSet
from tests.helpers import cudf_stand_in
from tests.helpers.cudf_stand_in import Frame, TableWithMetadata
from tests.shim import available, shim_backend

if reason := available():
    pytest.skip(reason, allow_module_level=True)

ROWS = pa.table(
    {
        "i": pa.array([3, 1, None, 3], pa.int32()),
        "t": pa.array(["x", "y", None, "x"]),
        "f": pa.array([0.5, -0.0, None, 0.5], pa.float32()),
        "b": pa.array([True, False, None, True]),
        "d": pa.array([dt.date(2026, 1, 2), dt.date(1960, 1, 1), None, dt.date(2026, 1, 2)]),
        "z": pa.array([5, 6, None, 5], pa.timestamp("us", "Europe/Oslo")),
        "m": pa.array([Decimal("1.25"), Decimal("-3.00"), None, Decimal("1.25")], pa.decimal128(9, 2)),
        "n": pa.array([2, 1, 1, -1], pa.int64()),
    }
)


@pytest.fixture
def shim(monkeypatch):
    backend = shim_backend(seed=1)
    standing_in = cudf_stand_in.modules(backend)
    plain = importlib.import_module
    monkeypatch.setattr(cudf.importlib, "import_module", lambda name: standing_in.get(name) or plain(name))
    monkeypatch.setattr(cudf, "is_installed", lambda: True)
    return backend


class TestIn:
    def test_a_frame_as_its_arrow_table(self, shim):
        expected = ZSet.from_arrow(ROWS, weight="n")
        found = ZSet.from_cudf(Frame(ROWS), weight="n", backend=shim)
        assert found == expected
        assert found.backend is shim
        assert found.names == expected.names
        assert [column.type for column in found.columns] == [column.type for column in expected.columns]

    def test_slices(self, shim):
        table = pa.concat_tables([ROWS] * 4).combine_chunks().slice(5, 9)
        assert ZSet.from_cudf(Frame(table), backend=shim) == ZSet.from_arrow(table)

    def test_numbers_do_not_pass_through_the_host(self, shim):
        frame = Frame(pa.table({"a": list(range(100)), "b": list(range(100))}))
        opened = frame.to_pylibcudf()
        frame.to_pylibcudf = lambda: opened  # type: ignore[method-assign]
        with shim.device.counted() as counts:
            ZSet.from_cudf(frame, backend=shim)
        assert counts.uploads == 0
        assert counts.bytes_read < 100

    def test_a_pylibcudf_table(self, shim):
        table, _ = Frame(ROWS.select(["i", "t"])).to_pylibcudf()
        expected = ZSet.from_arrow(ROWS.select(["i", "t"]))
        assert ZSet.from_cudf(table, backend=shim) == expected
        assert ZSet.from_cudf(table, names=["a", "b"], backend=shim).names == ("a", "b")
        assert ZSet.from_cudf(TableWithMetadata(table, ["p", "q"]), backend=shim).names == ("p", "q")
        with pytest.raises(SchemaError, match="the list of names has the wrong length: got 1"):
            ZSet.from_cudf(table, names=["a"], backend=shim)

    def test_arrows_device_interface(self, shim):
        batch = ROWS.select(["i", "t"]).to_batches()[0]
        data = SimpleNamespace(batch=batch, __arrow_c_device_array__=None)
        assert ZSet.from_cudf(data, backend=shim) == ZSet.from_arrow(batch)

    def test_nothing(self, shim):
        assert len(ZSet.from_cudf(Frame(ROWS.slice(0, 0)), backend=shim)) == 0

    def test_what_is_no_table(self, shim):
        with pytest.raises(TypeMismatchError, match="got 'builtins.list', expected a cuDF DataFrame"):
            ZSet.from_cudf([1], backend=shim)

    def test_a_type_without_a_place(self, shim):
        lists = Frame(pa.table({"l": pa.array([[1]], pa.list_(pa.int64()))}))
        with pytest.raises(UnsupportedTypeError, match="column 'l' has an unsupported cuDF type"):
            ZSet.from_cudf(lists, backend=shim)

    def test_weights_are_integers_without_nulls(self, shim):
        for name, said in (("f", "nulls"), ("t", "nulls"), ("x", "a column of type 'double'")):
            table = ROWS.append_column("x", pa.array([1.0] * 4))
            with pytest.raises(WeightError, match=said):
                ZSet.from_cudf(Frame(table), weight=name, backend=shim)
        with pytest.raises(ColumnError, match="no column 'w'"):
            ZSet.from_cudf(Frame(ROWS), weight="w", backend=shim)

    def test_an_index_without_a_name_is_refused(self, shim):
        index = SimpleNamespace(name=None, names=[None])
        with pytest.raises(SchemaError, match="an index without a name"):
            ZSet.from_cudf(Frame(ROWS, index), backend=shim)


class TestOut:
    @pytest.mark.parametrize("name", [name for name in ROWS.column_names if name != "z"])
    @pytest.mark.parametrize("on_device", [True, False])
    def test_there_and_back(self, shim, name, on_device):
        table = ROWS.select([name])
        zset = ZSet.from_cudf(Frame(table), backend=shim) if on_device else ZSet.from_arrow(table)
        frame = zset.to_cudf(shim)
        expected = zset.to_arrow()
        assert list(frame) == [name, "weight"]
        for column in (name, "weight"):
            assert frame[column].to_arrow().to_pylist() == expected.column(column).to_pylist()
        assert len(frame[name].to_arrow()) == len(zset)

    def test_times_with_a_zone_are_instants_of_utc(self, shim):
        zset = ZSet.from_arrow(ROWS.select(["z"]))
        (column,) = [cudf.column_to_cudf(cudf._pylibcudf(), c, shim, "it") for c in zset.columns]
        assert column.to_arrow().cast(pa.int64()).to_pylist() == [None, 5, 6]

    def test_wide_decimals_categories_and_dates_of_milliseconds(self, shim):
        table = pa.table(
            {
                "w": pa.array([Decimal("-0.5")], pa.decimal256(40, 1)),
                "c": pa.array(["p"]).dictionary_encode(),
                "d": pa.array([dt.date(2026, 1, 2)], pa.date64()),
            }
        )
        frame = ZSet.from_arrow(table).to_cudf(shim)
        assert frame["w"].to_arrow().to_pylist() == [Decimal("-0.5")]
        assert frame["c"].to_arrow().to_pylist() == ["p"]
        assert frame["d"].to_arrow().to_pylist() == [dt.datetime(2026, 1, 2)]

    def test_text_that_is_null_alone_or_not_there(self, shim):
        nulls = ZSet.from_arrow(pa.table({"t": pa.array([None], pa.string())}))
        assert nulls.to_cudf(shim)["t"].to_arrow().to_pylist() == [None]
        assert nulls.filter([False]).to_cudf(shim)["t"].to_arrow().to_pylist() == []

    def test_bytes_have_no_type(self, shim):
        with pytest.raises(UnsupportedTypeError, match="column 'c0' is of type 'bytes', and cuDF has no such type"):
            ZSet.from_rows([(b"a",)]).to_cudf(shim)


class TestParquet:
    @pytest.fixture
    def path(self, tmp_path):
        pq.write_table(ROWS.append_column("c", ROWS["t"].dictionary_encode()), tmp_path / "rows.parquet")
        return tmp_path / "rows.parquet"

    def test_by_cudf(self, shim, path):
        found = ZSet.read_parquet(path, weight="n", backend=shim)
        assert found == ZSet.from_arrow(pq.read_table(path), weight="n")
        assert found.backend is shim
        kinds = {name: column.type for name, column in zip(found.names, found.columns, strict=True)}
        expected = ZSet.from_arrow(pq.read_table(path), weight="n")
        assert kinds == {name: column.type for name, column in zip(expected.names, expected.columns, strict=True)}

    def test_some_columns(self, shim, path):
        assert ZSet.read_parquet(path, ["t", "i"], backend=shim).names == ("t", "i")
        with pytest.raises(ColumnError, match="no column 'nope'"):
            ZSet.read_parquet(path, ["nope"], backend=shim)

    def test_without_cudf_through_the_host(self, path, monkeypatch):
        monkeypatch.setattr(cudf, "is_installed", lambda: False)
        shim = shim_backend()
        found = ZSet.read_parquet(path, weight="n", backend=shim)
        assert found.backend is shim
        assert found == ZSet.read_parquet(path, weight="n", backend="cpu") == ZSet.from_arrow(pq.read_table(path), "n")


@pytest.mark.skipif(importlib.util.find_spec("pylibcudf") is not None, reason="pylibcudf is installed")
def test_without_pylibcudf_the_extra_is_named():
    with pytest.raises(BackendUnavailableError, match=r"pylibcudf cannot be loaded(.|\n)*gpu_wcoj\[gpu-cudf\]"):
        ZSet.from_cudf(object(), backend=shim_backend())


@pytest.mark.parametrize(("set_to", "stream"), [(None, 1), ("0", 1), ("1", 2)])
def test_arrays_name_the_stream_that_cudf_works_in(monkeypatch, set_to, stream):
    """CuPy waits for that stream before it reads; cuDF goes by the variable."""
    if set_to is None:
        monkeypatch.delenv("CUDF_PER_THREAD_STREAM", raising=False)
    else:
        monkeypatch.setenv("CUDF_PER_THREAD_STREAM", set_to)
    shown = cudf._Memory(SimpleNamespace(ptr=4096), 8).__cuda_array_interface__
    assert (shown["stream"], shown["data"], shown["shape"]) == (stream, (4096, False), (8,))
