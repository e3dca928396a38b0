"""Dictionaries: codes are positions of first arrival, and batches cost their own size."""

from __future__ import annotations

import gc
import pickle
import random
import threading
import weakref

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpu_wcoj as gw
from gpu_wcoj.data.column import Dictionary
from gpu_wcoj.errors import TypeMismatchError, UnsupportedTypeError

TEXTS = st.lists(st.none() | st.text(max_size=3), max_size=60)
STRING_TYPES = [pa.string(), pa.large_string(), pa.string_view()]
BINARY_TYPES = [pa.binary(), pa.large_binary(), pa.binary_view()]


@given(st.lists(TEXTS, max_size=4), st.sampled_from(STRING_TYPES))
def test_codes_are_positions_of_first_arrival(batches, kind):
    dictionary, seen = Dictionary("string"), []
    for batch in batches:
        codes = dictionary.encode(pa.array(batch, kind))
        for value in batch:
            if value is not None and value not in seen:
                seen.append(value)
        assert codes.dtype == np.int64
        assert codes.tolist() == [0 if value is None else seen.index(value) for value in batch]
    assert len(dictionary) == len(seen)
    assert dictionary.decode(np.arange(len(seen))).to_pylist() == seen


@pytest.mark.parametrize("kind", STRING_TYPES + BINARY_TYPES, ids=str)
@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 2000])
def test_long_and_short_batches_agree(kind, size):
    values = [f"v{i % 700}" for i in range(size)]
    if kind in BINARY_TYPES:
        values = [value.encode() for value in values]
    dictionary = Dictionary("string" if kind in STRING_TYPES else "binary")
    codes = dictionary.encode(pa.array(values, kind))
    assert codes.tolist() == [i % 700 for i in range(size)]
    assert dictionary.decode(codes).to_pylist() == values
    chunked = pa.chunked_array([pa.array(values[:3], kind), pa.array(values[3:], kind)], kind)
    assert dictionary.encode(chunked).tolist() == codes.tolist()


def test_an_empty_chunked_array_has_no_codes():
    assert Dictionary("string").encode(pa.chunked_array([], pa.string())).tolist() == []


@pytest.mark.parametrize("is_mapped", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_any_use_agrees_with_a_list_of_values(seed, is_mapped):
    """Arrays, short and long, single values, lookups and truncations in any order."""
    chance = random.Random(seed)
    dictionary, seen = Dictionary("string", is_mapped=is_mapped), []
    texts = [f"t{i}ä" * chance.randrange(3) + str(i) for i in range(4000)]
    for _ in range(25):
        batch = [chance.choice(texts) for _ in range(chance.choice([1, 30, 600, 3000]))]
        action = chance.choice(["encode", "encode", "values", "one", "find", "decode", "truncate", "pickle", "rank"])
        if action in ("encode", "values", "one"):
            batch = batch[:1] if action == "one" else batch
            if action == "encode":
                codes = dictionary.encode(pa.array(batch, chance.choice(STRING_TYPES)))
            elif action == "values":
                codes = dictionary.codes_of(batch)
            else:
                codes = np.array([dictionary.encode_one(batch[0])])
            present = set(seen)
            seen += dict.fromkeys(text for text in batch if text not in present)
            assert codes.tolist() == list(map({text: code for code, text in enumerate(seen)}.get, batch))
        elif action == "find":
            assert dictionary.find(batch[0]) == (seen.index(batch[0]) if batch[0] in seen else None)
        elif action == "decode" and seen:
            codes = np.array([chance.randrange(len(seen)) for _ in batch])
            assert dictionary.decode(codes).to_pylist() == [seen[code] for code in codes]
            assert dictionary.values_of(codes[:5]) == [seen[code] for code in codes[:5]]
            assert dictionary.value_of(int(codes[0])) == seen[codes[0]]
        elif action == "truncate":
            del seen[chance.randrange(len(seen) + 1) :]
            dictionary.truncate(len(seen))
        elif action == "pickle":
            dictionary = pickle.loads(pickle.dumps(dictionary))
        elif action == "rank":
            places = {text: rank for rank, text in enumerate(sorted(seen, key=str.encode))}
            assert dictionary.rank().tolist() == ([places[text] for text in seen] or [0])
        assert len(dictionary) == len(seen)


@given(st.lists(st.lists(st.text(max_size=3), max_size=40), min_size=1, max_size=5))
def test_rank_orders_by_bytes_after_every_growth(batches):
    dictionary = Dictionary("string")
    for batch in batches:
        dictionary.encode(pa.array(batch, pa.string()))
        values = dictionary.decode(np.arange(len(dictionary))).to_pylist()
        order = sorted(values, key=str.encode)
        assert dictionary.rank().tolist() == ([order.index(value) for value in values] or [0])


def test_rank_is_extended_where_few_values_are_new():
    dictionary = Dictionary("binary")
    dictionary.encode(pa.array([b"%03d" % i for i in range(0, 1000, 2)]))
    dictionary.rank()
    dictionary.encode(pa.array([b"999", b"001", b"", b"003", b"998x"]))
    values = dictionary.decode(np.arange(len(dictionary))).to_pylist()
    assert dictionary.rank().tolist() == [sorted(values).index(value) for value in values]


def test_rank_is_kept_and_cannot_be_changed():
    dictionary = Dictionary("string")
    dictionary.encode(pa.array(["b", "a"]))
    assert dictionary.rank() is dictionary.rank()
    with pytest.raises(ValueError, match="read-only"):
        dictionary.rank()[0] = 7


@given(st.lists(st.text(max_size=2), max_size=40), st.lists(st.text(max_size=2), max_size=40))
def test_truncate_forgets_what_came_later(first, later):
    dictionary, other = Dictionary("string"), Dictionary("string")
    dictionary.encode(pa.array(first, pa.string()))
    other.encode(pa.array(first, pa.string()))
    size = len(dictionary)
    dictionary.rank()
    dictionary.decode(dictionary.encode(pa.array(later, pa.string())))
    dictionary.rank()
    dictionary.truncate(size)
    assert len(dictionary) == size
    assert all(dictionary.find(text) == other.find(text) for text in [*first, *later])
    assert dictionary.rank().tolist() == other.rank().tolist()
    reversed_later = pa.array(later[::-1], pa.string())
    codes = dictionary.encode(reversed_later)
    assert codes.tolist() == other.encode(reversed_later).tolist()
    assert dictionary.decode(codes).to_pylist() == later[::-1]


def test_find_and_encode_one():
    dictionary = Dictionary("string")
    assert dictionary.find("x") is None
    assert dictionary.encode_one("x") == 0
    assert dictionary.encode_one("x") == 0
    assert dictionary.find("x") == 0
    assert dictionary.find(b"x") is None
    assert repr(dictionary) == "Dictionary('string', 1 values)"


def test_a_value_of_the_other_kind_is_refused():
    with pytest.raises(TypeMismatchError, match=r"got bytes \(b'x'\), expected string"):
        Dictionary("string").encode_one(b"x")
    with pytest.raises(TypeMismatchError, match=r"got str \('x'\), expected binary"):
        Dictionary("binary").encode_one("x")


def test_one_text_that_is_not_unicode_is_refused():
    dictionary = Dictionary("string")
    with pytest.raises(UnsupportedTypeError, match=r"the text '\\ud800' is not valid Unicode"):
        dictionary.encode_one("\ud800")
    assert len(dictionary) == 0


@pytest.mark.parametrize("copies", [1, 1000])
@pytest.mark.parametrize("kind", STRING_TYPES, ids=str)
def test_text_that_is_not_utf8_is_refused(kind, copies):
    source = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}[kind]
    damaged = pa.array([b"good", b"\xff"] * copies, source).view(kind)
    dictionary = Dictionary("string")
    with pytest.raises(UnsupportedTypeError, match="not valid UTF-8"):
        dictionary.encode(damaged)
    assert len(dictionary) == 0


def test_recode_adds_only_what_is_in_use():
    mine, other = Dictionary("string"), Dictionary("string")
    mine.encode(pa.array(["c", "a"]))
    codes = other.encode(pa.array(["a", "b", "c", "d"]))
    assert mine.recode(other, np.array([2, 1, 2])).tolist() == [0, 2, 0]
    assert len(mine) == 3
    assert mine.translate(other).tolist() == [1, 2, 0, 3]
    assert mine.recode(mine, codes) is codes
    assert mine.recode(other, np.array([], np.int64)).tolist() == []


def test_decode_marks_nulls_also_where_there_is_no_value():
    nulls = np.array([False, False])
    assert Dictionary("string").decode(np.zeros(2, np.int64), nulls).to_pylist() == [None, None]
    dictionary = Dictionary("string")
    dictionary.encode(pa.array([str(i) for i in range(100)]))
    assert dictionary.decode(np.array([7, 0]), np.array([True, False])).to_pylist() == ["7", None]
    many = np.arange(100)
    assert dictionary.decode(many, many % 2 == 0).to_pylist()[:3] == ["0", None, "2"]


def test_a_dictionary_survives_pickling():
    dictionary = Dictionary("string")
    codes = dictionary.encode(pa.array(["b", "a"]))
    again = pickle.loads(pickle.dumps(dictionary))
    assert again.decode(codes).to_pylist() == ["b", "a"]
    assert again.find("a") == 1


def test_values_are_read_while_another_thread_adds_some_and_takes_some_back():
    """A reader knows codes that stay; what it keeps of all values must not hold those that were taken back."""
    names, done = Dictionary(), threading.Event()
    kept = [f"kept {i:09}" for i in range(20_000)]
    codes = names.encode(pa.array(kept))

    def read() -> None:
        while not done.is_set():
            assert names.decode(codes)[-1].as_py() == kept[-1]
            assert len(names.rank()) >= len(kept)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    wrong = []
    for number in range(300):
        size = len(names)
        names.encode(pa.array([f"gone {number} {i}" for i in range(20)]))
        names.truncate(size)
        fresh = [f"new {number} {i}" for i in range(20)]
        found = names.encode(pa.array(fresh))
        every = names.decode(np.concatenate([codes, found]))
        wrong += [number] if every[-20:].to_pylist() != fresh else []
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    order = sorted(range(len(names)), key=names.value_of)
    assert names.rank()[order].tolist() == list(range(len(names)))


def test_texts_of_a_dropped_program_are_freed():
    program = gw.Program("h(x, n) :- r(x, n).")
    program.step({"r": [("a text", 1)]})
    assert program.snapshot("h").rows() == [("a text", 1)]
    dictionaries = [weakref.ref(dictionary) for dictionary in program.dictionaries]
    del program
    gc.collect()
    assert [dictionary() for dictionary in dictionaries] == [None, None]
