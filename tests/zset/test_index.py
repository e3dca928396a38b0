"""Indexed Z-sets of one to three levels: prefix lookup, views, extension and merging."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_wcoj.backend import Backend, cpu_backend
from gpu_wcoj.data.column import Dictionary
from gpu_wcoj.zset.index import IndexedZSet

EXTREMES = [-(2**63), -(2**31) - 1, -(2**31), -1, 0, 1, 2**31 - 1, 2**31, 2**63 - 1]
COUNTRIES = {("Germany", "Berlin"): 1, ("Germany", "Munich"): -1, ("USA", "NYC"): -1, ("USA", "LA"): 1}


@pytest.fixture(params=["compiled", "numpy"])
def backend(request: pytest.FixtureRequest) -> Backend:
    return cpu_backend(request.param == "compiled")


def index_of(rows, backend: Backend, depth: int | None = None) -> IndexedZSet:
    """{row: weight} as a trie; rows of text as codes of the words' order."""
    depth = depth or len(next(iter(rows)))
    columns = [np.array([row[i] for row in rows], np.int64) for i in range(depth)]
    return IndexedZSet.from_columns(columns, np.array(list(rows.values()), np.int64), backend)


def rows_of(columns, weights):
    """Columns and weights as {row: weight}."""
    rows = list(zip(*(column.tolist() for column in columns), strict=True)) if columns else [()] * len(weights)
    assert len(set(rows)) == len(rows)
    return dict(zip(rows, weights.tolist(), strict=True))


class Words:
    """Text as codes and back."""

    def __init__(self) -> None:
        self.dictionary = Dictionary("string")

    def codes(self, rows):
        return {tuple(map(self.dictionary.encode_one, row)): weight for row, weight in rows.items()}

    def words(self, rows):
        return {
            tuple(self.dictionary.decode(np.array(row, np.int64)).to_pylist()): weight for row, weight in rows.items()
        }


def test_countries_and_cities(backend):
    """Two levels: cities below countries, read at each country and viewed at each level."""
    words = Words()
    index = index_of(words.codes(COUNTRIES), backend)
    assert index.depth == 2
    assert len(index) == 4
    assert words.words(rows_of(*index.as_zset_view(1))) == {("Germany",): 1, ("USA",): 1}
    assert words.words(rows_of(*index.as_zset_view(2))) == COUNTRIES
    names = ["USA", "France", "Germany"]
    owner, (cities,), weights = index.get_by_prefix([np.array([words.dictionary.encode_one(name) for name in names])])
    cities_found = words.dictionary.decode(cities).to_pylist()
    assert set(zip(owner.tolist(), cities_found, weights.tolist(), strict=True)) == {
        (0, "NYC", -1), (0, "LA", 1), (2, "Berlin", 1), (2, "Munich", -1)
    }  # fmt: skip
    assert owner.tolist() == sorted(owner.tolist())


def test_cities_extended_by_their_first_letter(backend):
    """Every leaf gets one child, the letter, with twice the weight."""
    words = Words()
    index = index_of(words.codes(COUNTRIES), backend)
    cities = words.dictionary.decode(index.columns()[1]).to_pylist()
    letters = np.array([words.dictionary.encode_one(city[0]) for city in cities])
    extended = index.extend_leaves(np.arange(len(index)), letters, np.full(len(index), 2))
    assert extended.depth == 3
    assert words.words(rows_of(extended.columns(), extended.weight_column())) == {
        ("Germany", "Berlin", "B"): 2, ("Germany", "Munich", "M"): -2, ("USA", "NYC", "N"): -2, ("USA", "LA", "L"): 2
    }  # fmt: skip
    assert words.words(rows_of(*extended.as_zset_view(2))) == dict.fromkeys(COUNTRIES, 1)
    assert words.words(rows_of(*extended.as_zset_view(1))) == {("Germany",): 1, ("USA",): 1}


def test_leaves_without_children_fall_away_and_several_add_up(backend):
    index = index_of({(1, 5): 2, (1, 6): 1, (2, 5): 1}, backend)
    owner, children, weights = (
        np.array(column) for column in ([2, 0, 0, 0, 1, 1], [9, 8, 7, 7, 4, 4], [1, 1, 2, 1, 3, -3])
    )
    extended = index.extend_leaves(owner, children, weights)
    assert rows_of(extended.columns(), extended.weight_column()) == {(1, 5, 7): 6, (1, 5, 8): 2, (2, 5, 9): 1}
    none = index.extend_leaves(owner[:0], children[:0], weights[:0])
    assert len(none) == 0
    assert none.depth == 3


THREE = {(1, 10, 100): 1, (1, 10, 101): 2, (1, 11, 100): -3, (2, 10, 100): 4, (3, 12, 7): 1}


def test_three_levels_read_at_a_prefix(backend):
    index = index_of(THREE, backend)
    owner, remaining, weights = index.get_by_prefix([np.array([1]), np.array([10])])
    assert owner.tolist() == [0, 0]
    assert rows_of(remaining, weights) == {(100,): 1, (101,): 2}
    owner, remaining, weights = index.get_by_prefix([np.array([2, 1, 4])])
    assert owner.tolist() == [0, 1, 1, 1]
    assert [column.tolist() for column in remaining] == [[10, 10, 10, 11], [100, 100, 101, 100]]
    assert weights.tolist() == [4, 1, 2, -3]
    owner, remaining, weights = index.get_by_prefix([np.array([3, 3]), np.array([12, 12]), np.array([7, 8])])
    assert owner.tolist() == [0]
    assert remaining == []
    assert weights.tolist() == [1]
    owner, remaining, weights = index.get_by_prefix([np.empty(0, np.int64)])
    assert [len(part) for part in (owner, *remaining, weights)] == [0, 0, 0, 0]


def test_three_levels_viewed_at_each(backend):
    index = index_of(THREE, backend)
    assert rows_of(*index.as_zset_view(1)) == {(1,): 1, (2,): 1, (3,): 1}
    assert rows_of(*index.as_zset_view(2)) == {(1, 10): 1, (1, 11): 1, (2, 10): 1, (3, 12): 1}
    assert rows_of(*index.as_zset_view(3)) == THREE


def test_locate(backend):
    index = index_of(THREE, backend)
    assert index.locate([np.array([3, 0, 1])]).tolist() == [2, -1, 0]
    assert index.locate([np.array([1, 1, 2, 9]), np.array([11, 12, 10, 10])]).tolist() == [1, -1, 2, -1]
    columns = [np.array(column) for column in zip(*sorted(THREE), strict=True)]
    assert index.locate(columns).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_empty(backend, depth):
    empty = IndexedZSet.empty(depth, backend)
    assert len(empty) == 0
    assert empty.depth == depth
    assert repr(empty) == f"IndexedZSet(0 rows, {depth} level{'s' * (depth > 1)})"
    assert [len(column) for column in empty.columns()] == [0] * depth
    assert empty.locate([np.array([1, 2])] * depth).tolist() == [-1, -1]
    owner, remaining, weights = empty.get_by_prefix([np.array([1])])
    assert [len(part) for part in (owner, *remaining, weights)] == [0] * (depth + 1)
    assert empty.largest_weight == 1
    assert empty.n_negative == 0
    assert len(empty.weight_column()) == 0
    single = index_of({(5,) * depth: 1}, backend)
    assert empty.merge(single) is single
    assert single.merge(empty) is single
    gone = single.merge(index_of({(5,) * depth: -1}, backend))
    assert len(gone) == 0
    assert [len(level) for level in gone.offsets] == [1] * (depth - 1)


def test_weights_are_kept_only_where_some_are_not_one(backend):
    assert index_of({(1, 2): 1, (3, 4): 1}, backend).weights is None
    weighted = index_of({(1, 2): 1, (3, 4): -7, (3, 5): 2}, backend)
    assert weighted.weight_column().tolist() == [1, -7, 2]
    assert weighted.largest_weight == 7
    assert weighted.n_negative == 1


def test_bytes_and_widths(backend):
    """Codes take 4 bytes if all of a level fit; a merge with wider codes widens that level only."""
    narrow = index_of({(1, 2): 1, (1, 3): 1}, backend)
    assert [level.dtype for level in narrow.values] == [np.int32, np.int32]
    assert narrow.nbytes == 4 + 2 * 4 + 2 * 8
    wide = index_of({(1, 2**31): 5, (-4, 0): 1}, backend)
    assert [level.dtype for level in wide.values] == [np.int32, np.int64]
    assert wide.nbytes == 2 * 4 + 2 * 8 + 3 * 8 + 2 * 8
    for merged in (narrow.merge(wide), wide.merge(narrow)):
        assert [level.dtype for level in merged.values] == [np.int32, np.int64]
        assert rows_of(merged.columns(), merged.weight_column()) == {(-4, 0): 1, (1, 2): 1, (1, 3): 1, (1, 2**31): 5}
        assert merged.locate([np.array([1, 1]), np.array([2**31, -(2**31)])]).tolist() == [3, -1]


def test_bytes_beside_are_those_that_searches_have_asked_for(backend):
    """A batch that was not searched has no search structures; large levels need few bytes a value."""
    index = index_of({(key, key % 7): 1 for key in range(1_000)}, backend)
    assert index.bytes_beside == 0
    index.locate([np.arange(5)])
    at_top = index.bytes_beside
    index.locate([np.arange(5), np.arange(5)])
    assert at_top <= index.bytes_beside
    if backend.name == "numba":
        assert 8 * 1_000 <= at_top < index.bytes_beside <= 40 * 1_000
    assert index.nbytes == 1_000 * (4 + 4) + 1_001 * 8


cell = st.integers(-2, 2) | st.sampled_from(EXTREMES)
weight = st.sampled_from([-2, -1, 1, 2, 2**62, -(2**63)])


@given(st.integers(1, 3).flatmap(lambda depth: st.tuples(
    st.just(depth), *[st.lists(st.tuples(st.tuples(*[cell] * depth), weight), max_size=25)] * 2
)), st.booleans())  # fmt: skip
@settings(max_examples=80)
def test_merging_is_consolidating_both(parts, compiled):
    depth, *lists = parts
    backend = cpu_backend(compiled)

    def columns_and_weights(pairs):
        columns = [np.array([row[i] for row, _ in pairs], np.int64) for i in range(depth)]
        return columns, np.array([weight for _, weight in pairs], np.int64)

    left, right = (IndexedZSet.from_columns(*columns_and_weights(pairs), backend) for pairs in lists)
    merged = left.merge(right)
    both = IndexedZSet.from_columns(*columns_and_weights([*lists[0], *lists[1]]), backend)
    assert rows_of(merged.columns(), merged.weight_column()) == rows_of(both.columns(), both.weight_column())
    assert [level.tolist() for level in merged.values] == [level.tolist() for level in both.values]
    assert [level.tolist() for level in merged.offsets] == [level.tolist() for level in both.offsets]
    assert (merged.weights is None) == (both.weights is None)
    merged_columns = merged.columns()
    assert merged.locate(merged_columns).tolist() == list(range(len(merged)))


def test_threads_that_ask_at_once_get_one_description(monkeypatch):
    """Kernels store addresses of the description, so it must not be replaced."""
    index = IndexedZSet.from_columns([np.array([1, 1, 2]), np.array([5, 7, 5])])
    describe = type(index.backend.kernels).describe

    def slowly(*arguments):
        time.sleep(0.02)
        return describe(*arguments)

    monkeypatch.setattr(index.backend.kernels, "describe", slowly, raising=False)
    with ThreadPoolExecutor(4) as pool:
        descriptions = list(pool.map(lambda _: index.levels, range(4)))
    assert all(levels is descriptions[0] for levels in descriptions)
