"""Z-sets on a device: arrays in and out without a copy, and the same Z-set as on the host."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_wcoj.backend import Backend
from gpu_wcoj.data.column import Column, Dictionary, float_codes, floats_of
from gpu_wcoj.data.schema import INT64, DataType
from gpu_wcoj.errors import (
    ArityError,
    SchemaError,
    TypeMismatchError,
    UnsupportedTypeError,
    WeightError,
    WeightOverflowError,
)
from gpu_wcoj.program import Program
from gpu_wcoj.result import Result
from gpu_wcoj.zset.zset import ZSet, moved
from tests.shim import available, shim_backend

if reason := available():
    pytest.skip(reason, allow_module_level=True)

EXTREMES = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1]


class Foreign:
    """An array of another library on the device: what it lies in is shown, and nothing else."""

    def __init__(self, array, **more):
        self.array = array
        self.more = more

    @property
    def __cuda_array_interface__(self):
        return self.array.__cuda_array_interface__ | self.more


class OnHost:
    """An array of another library in the host's memory."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.fixture
def shim() -> Backend:
    return shim_backend(seed=2)


def device_zset(shim: Backend, zset: ZSet) -> ZSet:
    columns = tuple(moved(column, shim) for column in zset.columns)
    return ZSet(zset.names, columns, shim.asarray(zset.weights), zset.weight_name, shim)


class TestIn:
    def test_columns_of_the_device_are_read_where_they_lie(self, shim):
        src, dst = shim.asarray(np.array([3, 1, 3])), shim.asarray(np.array([4, 2, 4]))
        with shim.device.counted() as counts:
            zset = ZSet.from_device({"src": Foreign(src), "dst": Foreign(dst)}, backend=shim)
        assert counts.uploads == 0
        assert zset.backend is shim
        assert not isinstance(zset.columns[0].stored, np.ndarray)
        assert zset.names == ("src", "dst")
        assert zset.rows() == [((1, 2), 1), ((3, 4), 2)]

    def test_the_caller_keeps_its_arrays(self, shim):
        for rows in ([7], [1, 2, 3]):
            array, weights = shim.asarray(np.array(rows)), shim.asarray(np.ones(len(rows), np.int64))
            zset = ZSet.from_device([Foreign(array)], Foreign(weights), backend=shim)
            array.fill(9)
            weights.fill(9)
            assert zset.rows() == [((row,), 1) for row in rows]

    def test_two_dimensions_and_one(self, shim):
        matrix = shim.asarray(np.array([[1, 2], [1, 2], [5, 0]]))
        assert ZSet.from_device(matrix, backend=shim).to_dict() == {(1, 2): 2, (5, 0): 1}
        assert ZSet.from_device(matrix, names=["a", "b"], backend=shim).names == ("a", "b")
        assert ZSet.from_device(shim.asarray(np.array([5, 4])), backend=shim).rows() == [((4,), 1), ((5,), 1)]
        transposed = Foreign(matrix.T)
        assert ZSet.from_device(transposed, backend=shim).rows() == [((1, 1, 5), 1), ((2, 2, 0), 1)]

    def test_arrays_with_gaps(self, shim):
        every = shim.asarray(np.arange(10))
        assert ZSet.from_device([every[::3]], backend=shim).to_dict() == {(0,): 1, (3,): 1, (6,): 1, (9,): 1}

    @pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
    def test_integers_keep_their_type(self, shim, kind):
        info = np.iinfo(kind)
        values = np.array([info.max if kind != "uint64" else 2**63 - 1, info.min, 1], kind)
        zset = ZSet.from_device([shim.asarray(values)], backend=shim)
        assert zset.columns[0].type.name == kind
        assert zset == ZSet.from_numpy(values)
        assert zset.to_cupy(shim)["c0"].get().dtype == np.dtype(kind)
        assert zset.to_cupy(shim)["c0"].get().tolist() == sorted(values.tolist())

    def test_truth_values(self, shim):
        zset = ZSet.from_device([shim.asarray(np.array([True, False, True]))], backend=shim)
        assert zset.to_dict() == {(False,): 1, (True,): 2}
        assert zset.to_cupy()["c0"].get().tolist() == [False, True]

    @pytest.mark.parametrize("kind", ["float32", "float64"])
    def test_floats_have_the_codes_of_the_host(self, shim, kind):
        info = np.finfo(kind)
        values = [
            0.0,
            -0.0,
            np.nan,
            -np.nan,
            np.inf,
            -np.inf,
            info.smallest_subnormal,
            -info.smallest_subnormal,
            info.max,
        ]
        array = np.array([*values, *np.linspace(-3, 3, 50)], kind)
        zset = ZSet.from_device([shim.asarray(array)], backend=shim)
        assert zset == ZSet.from_numpy(array)
        back = zset.to_cupy()["c0"].get()
        want = np.unique(array)
        place = int(np.searchsorted(want, 0))
        np.testing.assert_array_equal(back, np.insert(want, place, 0))  # -0.0 and 0.0 are rows of their own
        assert np.signbit(back[[place, place + 1]]).tolist() == [True, False]
        assert back.dtype == np.dtype(kind)

    def test_of_the_host_over_dlpack_and_numpy(self, shim):
        zset = ZSet.from_dlpack({"a": OnHost(np.array([2, 1], np.int32)), "b": np.array([0.5, 0.25])}, backend=shim)
        assert [column.type.name for column in zset.columns] == ["int32", "double"]
        assert zset.rows() == [((1, 0.25), 1), ((2, 0.5), 1)]

    def test_on_the_cpu_too(self):
        array = np.array([2, 1])
        zset = ZSet.from_device([OnHost(array)], backend="cpu")
        array[:] = 7
        assert zset.backend is None
        assert zset.rows() == [((1,), 1), ((2,), 1)]

    def test_weights(self, shim):
        weights = shim.asarray(np.array([2, -2, -5], np.int32))
        zset = ZSet.from_device([shim.asarray(np.array([1, 1, 2]))], Foreign(weights), backend=shim)
        assert zset.to_dict() == {(2,): -5}
        assert ZSet.from_device([np.array([1])], [4], backend=shim).to_dict() == {(1,): 4}

    def test_nothing(self, shim):
        zset = ZSet.from_device({"a": np.empty(0, np.int64), "b": np.empty(0, np.float32)}, backend=shim)
        assert (len(zset), zset.rows(), zset.names) == (0, [], ("a", "b"))
        weighted = ZSet.from_device([np.empty(0, np.uint64)], np.empty(0, np.int64), backend=shim)
        assert len(weighted) == 0

    @pytest.mark.parametrize(
        ("data", "error", "said"),
        [
            ([["a", "b"]], TypeMismatchError, "column 0 has the wrong type: got 'builtins.list', expected"),
            ("text", TypeMismatchError, "the data has the wrong type: got 'builtins.str'"),
            ([np.array(["a"])], UnsupportedTypeError, "cannot be read as an array|of type '<U1'"),
            ([np.array([1.5], np.float16)], UnsupportedTypeError, "an array of type 'float16'"),
            ([np.array([2**63], np.uint64)], UnsupportedTypeError, "the value 9223372036854775808 is above 2\\^63-1"),
            ([np.array([[1]])], SchemaError, "wrong shape: got \\(1, 1\\), expected one dimension"),
            (np.zeros((1, 1, 1), np.int64), SchemaError, "one or two dimensions"),
            (
                [np.array([1, 2]), np.array([1])],
                ArityError,
                "column 'c1' has the wrong number of values: got 1, expected 2",
            ),
        ],
    )
    def test_what_is_refused(self, shim, data, error, said):
        with pytest.raises(error, match=said):
            ZSet.from_device(data, backend=shim)

    def test_masked_arrays_are_refused(self, shim):
        masked = Foreign(shim.asarray(np.array([1])), mask=object())
        with pytest.raises(UnsupportedTypeError, match="column 0 is a masked array"):
            ZSet.from_device([masked], backend=shim)

    def test_weights_are_integers(self, shim):
        with pytest.raises(WeightError, match="an array of type 'float64', expected integers"):
            ZSet.from_device([np.array([1])], np.array([0.5]), backend=shim)
        with pytest.raises(
            ArityError, match="column 'c0' has the wrong number of values: got 1, expected 2, the number of weights"
        ):
            ZSet.from_device([np.array([1])], np.array([1, 2]), backend=shim)


def told(make):
    """Return the result, or the message of the overflow error."""
    try:
        return make()
    except WeightOverflowError as error:
        return str(error)


COLUMN = st.lists(st.sampled_from(EXTREMES) | st.integers(-2, 2), min_size=12, max_size=12)


class TestConsolidation:
    @given(
        codes=st.lists(COLUMN, min_size=1, max_size=3),
        masks=st.lists(st.lists(st.booleans(), min_size=12, max_size=12) | st.none(), min_size=3, max_size=3),
        weights=st.lists(st.integers(-2, 2) | st.sampled_from(EXTREMES), min_size=12, max_size=12) | st.none(),
        size=st.integers(0, 12),
    )
    def test_as_on_the_host(self, codes, masks, weights, size):
        columns = []
        for values, mask in zip(codes, masks, strict=False):
            valid = None if mask is None else np.array(mask[:size], bool)
            array = np.array(values[:size], np.int64)
            columns.append(Column(INT64, array if valid is None else np.where(valid, array, 0), valid))
        names = [f"c{i}" for i in range(len(columns))]
        signed = None if weights is None else np.array(weights[:size], np.int64)
        shim = shim_backend(seed=1)
        on_device = [moved(column, shim) for column in columns]
        on_device_weights = None if signed is None else shim.asarray(signed)
        expected = told(lambda: ZSet.from_columns(names, columns, signed))
        result = told(lambda: ZSet.from_columns(names, on_device, on_device_weights, backend=shim))
        if isinstance(expected, str) or isinstance(result, str):
            assert result == expected
            return
        assert result.backend is shim
        assert result.rows() == expected.rows()
        for result_column, expected_column in zip(result.columns, expected.columns, strict=True):
            assert (result_column.valid is None) == (expected_column.valid is None) or size <= 1

    def test_few_reads(self, shim):
        columns = [shim.asarray(np.arange(1000) % 7), shim.asarray(np.arange(1000) % 3)]
        with shim.device.counted() as counts:
            ZSet.from_device(columns, backend=shim)
        assert counts.reads <= 4

    def test_without_its_backend_it_is_fetched(self, shim):
        zset = ZSet.from_columns(["a"], [Column(INT64, shim.asarray(np.array([2, 1])))], shim.asarray(np.array([1, 1])))
        assert zset.backend is None
        assert zset.rows() == [((1,), 1), ((2,), 1)]


def mixed() -> ZSet:
    rows = [((i % 5, None if i % 3 == 0 else f"text {i % 4}", i / 2), i % 7 - 3) for i in range(40)]
    return ZSet.from_rows(rows, names=["n", "t", "x"])


class TestEveryMethod:
    """Whatever a Z-set does, one on the device does too."""

    @pytest.mark.parametrize(
        "do",
        [
            len, list, repr, ZSet.rows, ZSet.to_dict, ZSet.negate, ZSet.distinct, ZSet._repr_html_,
            lambda z: z + z, lambda z: z - z, lambda z: z - z.scale(2), lambda z: z * 3, lambda z: z.scale(0),
            lambda z: z.filter(lambda n, t, x: n > 2), lambda z: z.map(["n"]), lambda z: z.map(["t"], ["u"]),
            lambda z: z.map(lambda row: (row[0],)), lambda z: z.to_arrow().to_pylist(), lambda z: z.weights.tolist(),
            lambda z: [column.codes.tolist() for column in z.columns], lambda z: z.to_host(),
            lambda z: z.with_weight_name(None).to_arrow().schema.names, lambda z: pickle.loads(pickle.dumps(z)).rows(),
        ],
    )  # fmt: skip
    def test_it_does_the_same(self, shim, do):
        zset = mixed()
        assert do(device_zset(shim, zset)) == do(zset)

    def test_equality_across(self, shim):
        zset = mixed()
        assert device_zset(shim, zset) == zset
        assert zset == device_zset(shim, zset)
        assert device_zset(shim, zset) + zset == zset.scale(2)

    def test_arrays_of_the_host_are_fetched_once(self, shim):
        zset = device_zset(shim, mixed())
        assert zset.columns[0].codes is zset.columns[0].codes
        assert zset.weights is zset.weights

    def test_length_and_names_fetch_nothing_and_the_picture_little(self, shim):
        zset = ZSet.from_device([np.arange(10_000)], backend=shim)
        with shim.device.counted() as counts:
            assert (len(zset), zset.names, zset.shown_weight_name) == (10_000, ("c0",), "weight")
        assert counts.bytes_read == 0
        with shim.device.counted() as counts:
            repr(zset)
        assert counts.bytes_read < 1000

    @pytest.mark.parametrize(
        "do",
        [
            len, list, repr, Result.rows, Result.to_dicts, Result._repr_html_, lambda r: r.rows(weights=True),
            lambda r: r.head(3).rows(), lambda r: r.sort_by("x", "n").rows(), lambda r: r.to_zset().rows(),
            lambda r: r.to_arrow().to_pylist(), lambda r: r.to_arrow(weights=True).to_pylist(),
        ],
    )  # fmt: skip
    def test_results_do_the_same(self, shim, do):
        zset = mixed()
        zset = zset.filter(zset.weights > 0)
        assert len(zset) > 1
        assert do(Result(device_zset(shim, zset))) == do(Result(zset))

    def test_the_first_rows_of_a_result_are_all_that_is_fetched(self, shim):
        result = Result(ZSet.from_device([np.arange(10_000)], backend=shim))
        n_rows = len(result)  # which reads the weights
        for read in (repr, lambda one: one.head(3).rows()):
            with shim.device.counted() as counts:
                read(result)
            assert counts.bytes_read < 1000
        assert n_rows == 10_000

    def test_recoding_passes_only_the_codes_in_use_through_the_host(self, shim):
        zset = mixed()
        string, binary = Dictionary("string"), Dictionary("binary")
        string.encode_one("something else")
        expected = zset.encoded_for(string, binary)
        unused = zset.columns[1].dictionary
        unused.encode_one("never used")
        encoded = device_zset(shim, zset).encoded_for(string, binary)
        assert not encoded[1].is_on_host
        assert encoded[1].dictionary is string
        assert encoded[1].codes.tolist() == expected[1].codes.tolist()
        assert string.find("never used") is None


class TestOut:
    def test_cupy_arrays_are_copies_on_the_device(self, shim):
        zset = ZSet.from_device({"a": np.array([2, 1])}, backend=shim)
        with shim.device.counted() as counts:
            arrays = zset.to_cupy()
        assert list(arrays) == ["a", "weight"]
        assert counts.reads == counts.uploads == 0
        for array in arrays.values():
            array[:] = 7
        assert zset.rows() == [((1,), 1), ((2,), 1)]

    def test_of_the_host_they_are_moved(self, shim):
        arrays = ZSet.from_rows([(1, 0.5)]).to_cupy(shim)
        assert [array.get().tolist() for array in arrays.values()] == [[1], [0.5], [1]]

    def test_dates_are_counted(self, shim):
        zset = ZSet.from_numpy(np.array(["1970-01-03"], "M8[s]"))
        assert zset.to_cupy(shim)["c0"].get().tolist() == [172800]

    @pytest.mark.parametrize(("row", "said"), [((None,), "'c0' has nulls"), (("a",), "of type 'string'")])
    def test_what_no_array_holds(self, shim, row, said):
        with pytest.raises(UnsupportedTypeError, match=said):
            ZSet.from_rows([row, ((1,) if row == (None,) else ("b",))]).to_cupy(shim)

    def test_columns_are_arrays_to_others(self, shim):
        zset = ZSet.from_device({"a": np.array([2, 1])}, backend=shim)
        column = zset.columns[0]
        assert column.__cuda_array_interface__["data"][0] != column.stored.data.ptr
        assert ZSet.from_device([column], backend=shim) == zset
        assert not hasattr(ZSet.from_rows([(1,)]).columns[0], "__cuda_array_interface__")
        floats = ZSet.from_device([np.array([0.5])], backend=shim).columns[0]
        assert not hasattr(floats, "__cuda_array_interface__")

    def test_dlpack_on_the_host(self):
        column = ZSet.from_rows([(1,), (2,)]).columns[0]
        shared = np.from_dlpack(column)
        assert np.shares_memory(shared, column.codes)
        for row in ((0.5,), ("a",)):
            with pytest.raises(BufferError, match="stored as codes"):
                np.from_dlpack(ZSet.from_rows([row]).columns[0])
        with pytest.raises(BufferError, match="nulls"):
            np.from_dlpack(ZSet.from_rows([(1,), (None,)]).columns[0])


@given(st.lists(st.floats(width=32), max_size=20))
def test_codes_of_floats_order_as_the_floats_do(values):
    for kind in ("f4", "f8"):
        array = np.array(values, kind)
        codes = float_codes(array)
        assert codes.dtype == np.int64
        back = floats_of(codes, int(kind[1]))
        np.testing.assert_array_equal(back, array)
        order = np.argsort(codes, kind="stable")
        np.testing.assert_array_equal(np.sort(array), back[order])
        assert np.array_equal(np.signbit(back), np.signbit(array) & ~np.isnan(array))


def test_a_column_is_immutable():
    column = Column(DataType("int64"), np.array([1]))
    with pytest.raises(AttributeError):
        column.type = INT64  # type: ignore[misc]


class TestPrograms:
    """Z-sets of a device go into programs on either side, and come out of those on the device."""

    TEXT = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
    EDGES = np.unique(np.random.default_rng(3).integers(0, 20, (90, 2)), axis=0)

    @pytest.fixture
    def expected(self) -> ZSet:
        return Program(self.TEXT, backend="cpu").step({"edge": ZSet.from_numpy(self.EDGES)})["triangle"]

    def edges(self, shim: Backend) -> ZSet:
        return ZSet.from_device({"a": self.EDGES[:, 0].copy(), "b": self.EDGES[:, 1].copy()}, backend=shim)

    def test_arrays_in_arrays_out(self, shim, expected):
        triangles = Program(self.TEXT, backend=shim, route="device").step({"edge": self.edges(shim)})["triangle"]
        assert triangles.backend is shim
        assert triangles == expected
        assert not isinstance(triangles.to_cupy()["a"], np.ndarray)

    def test_out_of_one_program_into_the_next(self, shim, expected):
        triangles = Program(self.TEXT, backend=shim, route="device").step({"edge": self.edges(shim)})["triangle"]
        corner = "corner(a) :- triangle(a, b, c)."
        again = Program(corner, backend=shim, route="device").step({"triangle": triangles})["corner"]
        assert again == Program(corner, backend="cpu").step({"triangle": expected})["corner"]

    def test_into_a_program_on_the_cpu(self, shim, expected):
        assert Program(self.TEXT, backend="cpu").step({"edge": self.edges(shim)})["triangle"] == expected

    @pytest.mark.parametrize("on_device", [True, False])
    def test_text_with_nulls(self, shim, on_device):
        rows = [(f"v{a}", f"v{b}" if b % 7 else None) for a, b in self.EDGES.tolist()]
        zset = ZSet.from_rows(rows)
        expected = Program(self.TEXT, backend="cpu").step({"edge": zset})["triangle"]
        program = Program(self.TEXT, backend=shim if on_device else "cpu", route="device" if on_device else "auto")
        assert program.step({"edge": device_zset(shim, zset)})["triangle"] == expected
        assert len(expected)
