"""Records that are made and taken apart in one rule."""

from __future__ import annotations

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from tests.helpers.counted_work import total_work

TYPES = ".type P = Pair {a: number, b: number}\n.type Q = Two {pair: P, c: number}\n.input e\n"
EDGES = [(x, (7 * x + y) % 40) for x in range(40) for y in range(8)]


@pytest.mark.parametrize(
    ("made", "plain"),
    [
        ("e(x, y), e(y, z), p = $Pair(x, z), $Pair(_, k) = p, k < 9", "e(x, y), e(y, z), z < 9"),
        ("e(x, y), e(y, z), p = $Pair(x, z), p = $Pair(k, z), k < 9", "e(x, y), e(y, z), x < 9"),
        ("e(x, y), e(y, z), p = $Two($Pair(x, z), 3), $Two($Pair(_, k), _) = p, k < 9", "e(x, y), e(y, z), z < 9"),
    ],
)
def test_a_record_that_nothing_reads_is_not_packed(made, plain):
    work = []
    answers = []
    for body in (made, plain):
        program = gw.Program(f"{TYPES}q(x, z) :- {body}.", threads=1)
        _ = program.step({"e": EDGES})
        program.step({"e": [((1, 2), 1), ((2, 30), 1), ((3, 17), -1)]})
        assert not program.last_tick.path_by_path
        work.append(total_work(program).tolist())
        answers.append(sorted(program.relation("q").rows()))
    assert answers[0] == answers[1]
    assert work[0] == work[1]


@pytest.mark.parametrize("body", ["p = $Pair(x, y)", "p = $Pair(y, x), $Pair(_, k) = p, k < 9"])
def test_a_record_with_a_null_part_has_no_value(body):
    t = pa.table({"x": pa.array([1, 2, None], pa.int64()), "y": pa.array([1, None, 3], pa.int64())})
    assert gw.query(f"{TYPES.replace('.input e', '')}q(x) :- t(x, y), {body}.", t=t).rows() == [(1,)]
