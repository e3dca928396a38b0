"""Memory that is handed out or taken in: nothing that a user writes to changes what the engine holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from warnings import catch_warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.data.column import Column

ROWS = [(2**40 + number, number % 3) for number in range(40)]
"""Values of 64 bits, which the engine does not store in fewer bytes."""


def arrays_in(found: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Every array of NumPy that can be reached from what was handed out, and those that it is a view of."""
    if isinstance(found, gw.ZSet):
        for column in found.columns:
            yield from arrays_in(column)
        yield from arrays_in((found.weights, found.stored_weights))
        for export in EXPORTS.values():
            yield from arrays_in(export(found))
    elif isinstance(found, Column):
        yield from arrays_in((found.codes, found.stored, found.valid, found.stored_valid))
        if found.valid is None and found.type.family == "integer":
            with catch_warnings(action="ignore", category=DeprecationWarning):  # of memory without a version
                shared = [np.from_dlpack(found), np.from_dlpack(Unversioned(found))]
            yield from arrays_in(shared)
    elif isinstance(found, np.ma.MaskedArray):
        yield from arrays_in((found.data, found.mask))
    elif isinstance(found, np.ndarray):
        while isinstance(found, np.ndarray):
            yield found
            found = found.base
    elif isinstance(found, dict):
        for part in found.values():
            yield from arrays_in(part)
    elif isinstance(found, (list, tuple)):
        for part in found:
            yield from arrays_in(part)
    elif isinstance(found, pa.Table):
        for chunk in (chunk for column in found.columns for chunk in column.chunks):
            for buffer in filter(None, chunk.buffers()):
                yield from arrays_in(np.frombuffer(buffer, np.uint8))
            with suppress(pa.ArrowInvalid):
                yield from arrays_in(chunk.to_numpy())
            with catch_warnings(action="ignore", category=DeprecationWarning):
                shared = [] if chunk.null_count or not pa.types.is_integer(chunk.type) else [np.from_dlpack(chunk)]
            yield from arrays_in(shared)
    elif isinstance(found, (pd.DataFrame, pl.DataFrame)):
        for name in found.columns:
            yield from arrays_in(found[name].to_numpy())


class Unversioned:
    """Reads a column as libraries do that cannot be told that memory is read-only."""

    def __init__(self, column: Column) -> None:
        self.column = column

    def __dlpack__(self, **_: Any) -> Any:
        return self.column.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.column.__dlpack_device__()


EXPORTS: dict[str, Callable[[gw.ZSet], Any]] = {
    "to_numpy": lambda zset: zset.to_numpy(),
    "to_arrow": lambda zset: zset.to_arrow(),
    "the stream": lambda zset: pa.table(zset),
    "to_pandas": lambda zset: zset.to_pandas(),
    "to_polars": lambda zset: zset.to_polars(),
    "to_host": lambda zset: zset.to_host().weights,
}


def overwrite(found: Any) -> int:
    """Write to every array that lets itself be written to; how many there are."""
    written = 0
    for array in list(arrays_in(found)):
        if array.flags.writeable and array.size:
            array[...] = np.zeros(1, array.dtype)[0] if array.dtype != object else None
            written += 1
    return written


def program(**options: Any) -> gw.Program:
    made = gw.Program("h(x, y) :- e(x, y). g(y, count()) :- e(_, y).", **options)
    made.load({"e": {"x": [row[0] for row in ROWS], "y": [row[1] for row in ROWS]}})
    return made


def of_programs() -> Iterator[tuple[str, Any, Callable[[], Any]]]:
    for bag in (False, True):
        made = program(bag=bag)

        def state(made: gw.Program = made) -> Any:
            return [made.relation(name).rows() for name in ("e", "h", "g")], made.explain(analyze=True).splitlines()[:1]

        for name in ("e", "h", "g"):
            yield f"relation {name}, bag={bag}", made.relation(name), state
        yield f"step, bag={bag}", made.step({"e": [(2**41, 1)]}), state
        pieces: list[Any] = []
        made.step_pieces({"e": [(2**42, 1)]}, lambda name, piece: pieces.append(piece))  # noqa: B023  # used at once
        yield f"pieces, bag={bag}", pieces, state
        yield f"report, bag={bag}", made.last_tick.work, state
        yield f"statistics, bag={bag}", [vars(one) for one in made.statistics() if hasattr(one, "__dict__")], state
    view = gw.view("h(x, y) :- e(x, y).", e=ROWS)
    yield "snapshot", view.snapshot(), lambda: view.snapshot().rows(weights=True)  # type: ignore[union-attr]
    yield "apply", view.apply(e=[(2**41, 1)]), lambda: view.snapshot().rows(weights=True)  # type: ignore[union-attr]
    one_row = gw.Program("h(x) :- e(x).")
    one_row.load({"e": [(2**50,)]})
    yield "one row", one_row.relation("e"), lambda: one_row.relation("e").rows()


def of_others() -> Iterator[tuple[str, Any, Callable[[], Any]]]:
    zset = gw.ZSet.from_rows([*ROWS, (None, 5)])
    yield "Z-set", zset, lambda: zset.rows()
    yield "sum", zset + zset, lambda: zset.rows()
    yield "negation", -zset, lambda: zset.rows()
    circuit = gw.Circuit(backend="cpu")
    source = circuit.source("e")
    circuit.sink("total", source.integrate())
    circuit.sink("changes", source)
    circuit.step({"e": ROWS})
    yield "circuit", circuit.step({"e": [(2**41, 1)]}), lambda: circuit.step({})["total"].rows()
    seen: list[Any] = []
    other = gw.Circuit(backend="cpu")
    source = other.source("e")
    source.inspect(seen.append)
    other.sink("kept", source.map(lambda x, y: (seen.append((x, y)), x)[1]).integrate())
    other.step({"e": ROWS})
    yield "functions of a circuit", seen, lambda: other.step({})["kept"].rows()
    edges = {"src": [row[0] for row in ROWS], "dst": [row[1] for row in ROWS], "n": [2**45 + row[0] for row in ROWS]}
    matcher = gw.Matcher("(a)-[e]->(b)", edges=edges, columns=["a.id", "e.n"])
    yield "matches", matcher.matches().to_arrow(), lambda: sorted(matcher.matches().rows(weights=True))
    yield (
        "changed matches",
        matcher.apply(edges={"src": [1], "dst": [2], "n": [3]}).to_zset(),
        lambda: sorted(matcher.matches().rows(weights=True)),
    )
    db = gw.datoms.Database()
    live = db.subscribe("[:find ?e ?x :where [?e :n ?x]]")
    report = db.load(entity=np.arange(20), attribute=":n", value=np.arange(20) + 2**40)
    yield "datoms", report.changes, lambda: (report.rows(), live.relation().rows())
    yield "subscription", [live.changes(), live.relation()], lambda: (report.rows(), live.relation().rows())


def test_nothing_that_a_program_hands_out_can_be_used_to_change_it():
    for name, found, state in of_programs():
        before = state()
        overwrite(found)
        assert state() == before, name


def test_nothing_that_others_hand_out_can_be_used_to_change_them():
    for name, found, state in of_others():
        before = state()
        overwrite(found)
        assert state() == before, name


def test_arrays_of_a_zset_are_read_only_all_the_way_down():
    zset = gw.ZSet.from_rows([*ROWS, (None, 5)])
    found = program().relation("e")
    for one in (zset, found):
        for column in one.columns:
            assert not any(array.flags.writeable for array in arrays_in((column.codes, column.stored, column.valid)))
        assert not any(array.flags.writeable for array in arrays_in((one.weights, one.stored_weights)))
        assert not any(array.flags.writeable for array in arrays_in(one.to_numpy()["weight"]))
    codes = np.arange(9)
    shared = Column.of_integers(codes[2:])
    assert not codes.flags.writeable
    assert np.shares_memory(shared.codes, codes)


def test_what_hands_out_memory_is_found_by_the_search():
    """The search itself writes where it can."""
    array = np.arange(5)
    assert overwrite(array[1:]) == 2
    assert array.tolist() == [0] * 5
    table = pa.table({"a": pa.array(np.arange(5))})
    assert overwrite(table) >= 1
    assert table.to_pydict() == {"a": [0] * 5}


# arrays that come in

NUMBERS = np.arange(30) + 2**40
TIMES = NUMBERS.view("M8[us]")


def tables() -> Iterator[tuple[str, list[np.ndarray[Any, Any]], Any]]:
    """Tables over memory of their own, and that memory."""
    for rows in (1, 30):
        for values in (NUMBERS[:rows], TIMES[:rows], NUMBERS[:rows].astype(float)):
            array = values.copy()
            kind = f"{rows} rows of {array.dtype}"
            yield f"NumPy, {kind}", [array], {"x": array}
            yield f"two dimensions, {kind}", [array], array.reshape(-1, 1)
            yield f"one dimension, {kind}", [array], array
            array = values.copy()
            yield f"masked, {kind}", [array], {"x": np.ma.masked_array(array, np.zeros(rows, bool))}
            array = values.copy()
            yield f"Arrow, {kind}", [array], pa.table({"x": pa.array(array)})
            array = values.copy()
            yield f"pandas, {kind}", [array], pd.DataFrame({"x": pd.Series(array, copy=False)}, copy=False)
            array = values.copy()
            yield f"Polars, {kind}", [array], pl.from_arrow(pa.table({"x": pa.array(array)}))


def relation_of(data: Any) -> Callable[[], Any]:
    made = gw.Program("h(x) :- e(x).")
    made.load({"e": data})
    return lambda: made.relation("e").rows()


def circuit_of(data: Any) -> Callable[[], Any]:
    circuit = gw.Circuit(backend="cpu")
    circuit.sink("total", circuit.source("e").integrate())
    circuit.step({"e": data})
    return lambda: circuit.step({})["total"].rows()


def zset_of(data: Any) -> Callable[[], Any]:
    zset = gw.ZSet.from_arrow(data)
    return lambda: zset.rows()


def query_of(data: Any) -> Callable[[], Any]:
    answer = gw.query("h(x) :- e(x).", e=data)
    return lambda: answer.rows()  # type: ignore[union-attr]


def matcher_of(data: Any) -> Callable[[], Any]:
    data = {"x": data.ravel()} if isinstance(data, np.ndarray) else data
    ends = np.arange(len(data["x"]))
    if isinstance(data, pa.Table):
        data = data.append_column("y", pa.array(ends)).append_column("z", pa.array(ends))
    elif isinstance(data, pd.DataFrame):
        data["y"] = data["z"] = ends
    else:
        data = data.with_columns(y=ends, z=ends) if isinstance(data, pl.DataFrame) else data | {"y": ends, "z": ends}
    matcher = gw.Matcher("()-[e]->()", edges=data, src="y", dst="z", columns=["e.x"])
    return lambda: sorted(matcher.matches().rows(weights=True))


@pytest.mark.parametrize("hold", [relation_of, circuit_of, zset_of, query_of, matcher_of])
def test_writing_to_arrays_after_they_came_in_changes_nothing(hold):
    for name, arrays, data in tables():
        state = hold(data)
        before = state()
        for array in arrays:
            assert array.flags.writeable, f"{name}: the user's array has become read-only"
            array[...] = np.ones(1, "i8").view(array.dtype)[0]
        assert state() == before, name


def test_weights_and_arrays_of_devices_are_not_shared_either():
    for rows in (1, 5):
        values, weights = np.arange(rows) + 2**40, np.arange(rows) + 3
        made = [
            gw.ZSet.from_numpy(values, weights),
            gw.ZSet.from_device({"x": values}, weights, backend="cpu"),
            gw.ZSet.from_device({"x": Exporter(values)}, Exporter(weights), backend="cpu"),
            gw.ZSet.from_columns(["x"], [Column.of_integers(values.copy())], weights),
        ]
        before = [one.rows() for one in made]
        index = gw.IndexedZSet.from_columns([values], weights)
        stored = index.as_zset_view(1)
        kept = [[part.copy() for part in stored[0]], stored[1].copy()]
        values[...], weights[...] = 0, 1
        assert [one.rows() for one in made] == before
        again = index.as_zset_view(1)
        assert [part.tolist() for part in again[0]] == [part.tolist() for part in kept[0]]
        assert again[1].tolist() == kept[1].tolist()


class Exporter:
    """An array of another library, in the host's memory."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_datoms_are_not_shared_either():
    for rows in (1, 20):
        entity, value = np.arange(rows) + 2**40, np.arange(rows) + 2**41
        db = gw.datoms.Database()
        report = db.load(entity=pa.array(entity), attribute=":n", value=pa.array(value))
        before = report.rows(), db.query("[:find ?e ?x :where [?e :n ?x]]")
        entity[...], value[...] = 0, 0
        assert (report.rows(), db.query("[:find ?e ?x :where [?e :n ?x]]")) == before
