"""Laws of the stream algebra on random streams with signed weights, texts and nulls."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj import streams
from gpu_wcoj.backend import Backend
from tests.helpers.long_tests import IS_LONG
from tests.helpers.stream_changes import SCHEMA, any_stream, relation_stream
from tests.helpers.stream_operators import LINEAR, NON_LINEAR, Build, Query

SEEDS = {"numba": range(6 if IS_LONG else 1), "numpy": range(2 if IS_LONG else 1), "shim": range(1), "cuda": range(2)}
TICKS = 6


@pytest.fixture
def place(kind):
    return kind.backend()


@pytest.fixture
def seeds(kind):
    return SEEDS[kind.name]


def check_equal(place: Backend | str, left: Build, right: Build, inputs: Sequence[Sequence[gw.ZSet]]) -> None:
    """Two functions of the same streams give the same at every tick; of those on the shim, which is slow, at three."""
    circuit = streams.Circuit(backend=place)
    sources = [circuit.source(f"s{i}", SCHEMA) for i in range(len(inputs))]
    circuit.sink("left", left(*sources))
    circuit.sink("right", right(*sources))
    is_slow = isinstance(place, Backend) and place.name != "cpu" and not IS_LONG
    for tick, values in enumerate(itertools.islice(zip(*inputs, strict=True), 3 if is_slow else None)):
        out = circuit.step({f"s{i}": value for i, value in enumerate(values)})
        assert out["left"] == out["right"], (tick, out["left"].to_dict(), out["right"].to_dict())


def inputs_of(query: Query, seed: int) -> list[list[gw.ZSet]]:
    make = relation_stream if query.relation else any_stream
    return [make(100 * seed + i, TICKS) for i in range(query.n_inputs)]


@pytest.mark.drawn("kind")
@pytest.mark.parametrize("name", LINEAR)
def test_linear_operators_commute_with_plus_delay_and_negate(place, seeds, name):
    q = LINEAR[name]
    for seed in seeds:
        two = [any_stream(seed, TICKS), any_stream(seed + 1000, TICKS)]
        check_equal(place, lambda a, b: q(a + b), lambda a, b: q(a) + q(b), two)
        check_equal(place, lambda a: q(a.delay()), lambda a: q(a).delay(), two[:1])
        check_equal(place, lambda a: q(-a), lambda a: -q(a), two[:1])


@pytest.mark.drawn("kind")
@pytest.mark.parametrize("name", LINEAR)
def test_linear_operators_are_their_own_incremental_form(place, seeds, name):
    q = LINEAR[name]
    for seed in seeds:
        check_equal(place, q, lambda a: q(a.integrate()).differentiate(), [any_stream(seed, TICKS)])


def test_integrate_and_differentiate_undo_each_other(place, seeds):
    for seed in seeds:
        streams_given = [any_stream(seed, TICKS)]
        check_equal(place, lambda a: a.integrate().differentiate(), lambda a: a.map([0, 1, 2]), streams_given)
        check_equal(place, lambda a: a.differentiate().integrate(), lambda a: a.map([0, 1, 2]), streams_given)
        check_equal(place, lambda a: a.integrate(), lambda a: a.trace(None).consolidate(), streams_given)
        check_equal(place, lambda a: a.integrate().delay(), lambda a: a.trace("t").delay().consolidate(), streams_given)


@pytest.mark.drawn("kind")
@pytest.mark.parametrize("name", NON_LINEAR)
def test_incremental_forms(place, seeds, name):
    """``Q^Δ = D ∘ Q ∘ I``."""
    query = NON_LINEAR[name]
    for seed in seeds:

        def recomputed(*given: streams.Stream) -> streams.Stream:
            return query.lifted(*(stream.integrate() for stream in given)).differentiate()

        check_equal(place, query.incremental, recomputed, inputs_of(query, seed))


JOINS = [name for name in NON_LINEAR if name.startswith(("join", "multiway of", "multiway triangle"))]


@pytest.mark.drawn("kind")
@pytest.mark.parametrize("name", JOINS)
def test_joins_are_linear_on_every_side(place, seeds, name):
    q = NON_LINEAR[name].lifted
    n = NON_LINEAR[name].n_inputs
    for seed in seeds:
        streams_given = [any_stream(100 * seed + i, TICKS) for i in range(n + 1)]
        for side in range(n):

            def whole(*s: streams.Stream, side: int = side) -> streams.Stream:
                return q(*s[:side], s[side] + s[n], *s[side + 1 : n])

            def parts(*s: streams.Stream, side: int = side) -> streams.Stream:
                return q(*s[:n]) + q(*s[:side], s[n], *s[side + 1 : n])

            check_equal(place, whole, parts, streams_given)


UNARY = ["distinct", "count by key", "max by key", "sum by key", "top 2 by key", "count distinct by key"]


@pytest.mark.drawn("inner", "outer", share=2)
@pytest.mark.parametrize("inner", UNARY)
@pytest.mark.parametrize("outer", ["distinct", "count", "filter", "antijoin", "join"])
def test_chain_rule(inner, outer):
    """``(P ∘ Q)^Δ = P^Δ ∘ Q^Δ``."""
    query = NON_LINEAR[inner]
    outers = {
        "distinct": (lambda s: s.map([0]).distinct(), lambda s: s.map([0]).incremental_distinct()),
        "count": (
            lambda s: s.aggregate(1, streams.Count("n")),
            lambda s: s.incremental_aggregate(1, streams.Count("n")),
        ),
        "filter": (lambda s: s.filter_rows(lambda row: row[0] == 1), lambda s: s.filter_rows(lambda row: row[0] == 1)),
        "antijoin": (
            lambda s: s.antijoin(s.filter_rows(lambda row: row[1] == 1), on=0),
            lambda s: s.incremental_antijoin(s.filter_rows(lambda row: row[1] == 1), on=0),
        ),
        "join": (lambda s: s.join(s, on={0: 1}), lambda s: s.incremental_join(s, on={0: 1})),
    }
    lifted, incremental = outers[outer]
    for seed in range(5 if IS_LONG else 2):
        check_equal(
            "cpu",
            lambda s: incremental(query.incremental(s)),
            lambda s: lifted(query.lifted(s.integrate())).differentiate(),
            [relation_stream(seed, TICKS)],
        )


def test_batch_equals_singletons():
    """One big tick is the same as its rows one by one, in any order."""
    for name, query in NON_LINEAR.items():
        totals = []
        for is_whole in (True, False):
            circuit = streams.Circuit(backend="cpu")
            sources = [circuit.source(f"s{i}", SCHEMA) for i in range(query.n_inputs)]
            circuit.sink("out", query.incremental(*sources).integrate())
            data = [sum_of(relation_stream(31 + i, 4)) for i in range(query.n_inputs)]
            if is_whole:
                circuit.step({f"s{i}": value for i, value in enumerate(data)})
            else:
                for i, value_read in enumerate(data):
                    for row in reversed(range(len(value_read))):
                        circuit.step({f"s{i}": value_read.filter(np.arange(len(value_read)) == row)})
            totals.append(circuit.step()["out"])
        assert totals[0] == totals[1], name


def sum_of(changes: Sequence[gw.ZSet]) -> gw.ZSet:
    total = gw.ZSet.empty()
    for change in changes:
        total = total + change
    return total


def test_inserting_and_deleting_everything_leaves_nothing():
    n_rows = 0
    for name, query in NON_LINEAR.items():
        circuit = streams.Circuit(backend="cpu")
        sources = [circuit.source(f"s{i}", SCHEMA) for i in range(query.n_inputs)]
        circuit.sink("out", query.incremental(*sources).integrate())
        data = [sum_of(relation_stream(77 + i, 4)) for i in range(query.n_inputs)]
        n_rows += len(circuit.step({f"s{i}": value for i, value in enumerate(data)})["out"])
        assert len(circuit.step({f"s{i}": -value for i, value in enumerate(data)})["out"]) == 0, name
    assert n_rows > 100
