"""Means in bags: of the rows of positive weight, each once, however weights rise and fall."""

from __future__ import annotations

from decimal import Decimal

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import NegativeWeightError
from tests.helpers.comparison import SIGNED, check_scripts
from tests.helpers.kernel_kinds import KINDS, needed
from tests.helpers.long_tests import IS_LONG

PROGRAMS = {
    "in a head": "h(x, mean(y)) :- e(x, y).",
    "of a join": "h(x, mean(z)) :- e(x, y), f(y, z), y != z.",
    "of what is calculated": "h(mean(v)) :- e(x, y), v = x - 2 * y.",
    "in a body": "h(x, n) :- u(x), n = mean y : { e(x, y), !f(y, _) }.",
    "of a projection, whose weights add": "p(x, y) :- t(x, y, _). h(x, mean(y)) :- p(x, y).",
    "of two heads' rows": "p(x) :- e(x, _). p(x) :- f(_, x). h(mean(x)) :- p(x).",
    "of three": "h(x, n, m) :- u(x), n = sum y : { e(x, y) }, m = mean y : { e(x, y) }, x < max y : { f(y, _) }.",
}


@pytest.fixture(params=KINDS)
def backend(request):
    return needed(request.param).backend()


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_random_scripts(name, bag, backend):
    seeds = range(8 if IS_LONG else 4 if backend.device is None else 2)
    check_scripts(PROGRAMS[name], seeds, bag=bag, positive=bag, values=SIGNED, backend=backend)


@pytest.mark.parametrize(
    ("low", "high"), [(2, 5), (0.1, 0.5), (-(2**62), 2**62 + 2**61), (Decimal("1.25"), Decimal("2.75"))]
)
def test_a_row_counts_once_whatever_its_weight(low, high, backend):
    program = gw.Program("h(x, mean(v)) :- r(x, v). .output h", bag=True, backend=backend)
    both, middle = [low, high], (float(low) + float(high)) / 2

    def means(*changes):
        change = program.step({"r": [((1, value), weight) for value, weight in changes]})["h"].to_dict()
        return change, [row[1] for row, _ in program.relation("h").rows()]

    assert means((low, 3)) == ({(1, float(low)): 1}, [float(low)])
    assert means((high, 1)) == ({(1, float(low)): -1, (1, middle): 1}, [middle])
    for value, weight in ((low, -2), (high, 40), (high, -40), (low, 7)):
        assert means((value, weight)) == ({}, [middle])
    assert means(*((value, 2) for value in both)) == ({}, [middle])
    assert means((high, -3)) == ({(1, middle): -1, (1, float(low)): 1}, [float(low)])
    before = program.relation("r").rows()
    with pytest.raises(NegativeWeightError, match="mean of 'h'"):
        program.step({"r": [((1, low), -11), ((1, high), 2)]})
    assert program.relation("r").rows() == before
    assert means((low, -10), (high, 1)) == ({(1, float(low)): -1, (1, float(high)): 1}, [float(high)])
    assert means((high, -1)) == ({(1, float(high)): -1}, [])
    assert means((high, 2), (low, 1), (high, -2), (low, -1)) == ({}, [])


def test_rows_that_agree_in_group_and_value_are_two():
    program = gw.Program("h(x, mean(v)) :- r(x, v, _). .output h", bag=True)
    program.step({"r": [((1, 4, 1), 5), ((1, 4, 2), 1), ((1, 1, 1), 3)]})
    assert program.relation("h").to_dict() == {(1, 3.0): 1}
    program.step({"r": [((1, 4, 1), -5)]})
    assert program.relation("h").to_dict() == {(1, 2.5): 1}


def test_checkpoints_keep_what_means_are_made_of(tmp_path):
    program = gw.Program("h(x, mean(v)) :- r(x, v). .output h", bag=True)
    program.step({"r": [((1, 4), 5), ((1, 1), 3)]})
    program.checkpoint(tmp_path / "kept")
    again = gw.Program.restore(tmp_path / "kept")
    assert again.step({"r": [((1, 4), -5)]})["h"].to_dict() == {(1, 2.5): -1, (1, 1.0): 1}
