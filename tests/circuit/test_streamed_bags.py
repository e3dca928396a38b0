"""Rows of bags that are passed on while the join lists them."""

from __future__ import annotations

import random

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import GpuWcojError

RULES = (
    "t(a, b, c) :- e(a, b), e(b, c), e(c, a).",
    "t(a, b, c) :- e(a, b), f(b, c).",
    "t(a, b) :- e(a, b), f(b, a).",
    "t(a, b, c) :- e(a, b), f(b, c), b < c.",
    "t(a, b, b) :- e(a, b), a != b.",
    "t(a, b, c, d) :- e(a, b), e(c, d).",
    "t(a, c) :- e(a, b), f(b, c).",
    "t(a, b) :- e(a, b), !f(b, a).",
)
"""Heads that keep all variables, one that does not, and one with a negation."""


@pytest.mark.parametrize("seed", range(40))
def test_pieces_are_the_rows_of_a_step(seed: int) -> None:
    chance = random.Random(seed)
    text, weights = chance.choice(RULES), [-1, 1, 2, 3] + ([1 << 40, 1 << 62] if seed % 4 == 0 else [])

    def change() -> dict[str, list[int]]:
        rows = {name: [chance.randrange(5) for _ in range(12)] for name in "ab"}
        return {**rows, "weight": [chance.choice(weights) for _ in range(12)]}

    changes = {name: change() for name in ("e", "f") if f"{name}(" in text}
    stepped, streamed = gw.Program(text, bag=True), gw.Program(text, bag=True)
    pieces: list[tuple[tuple[object, ...], int]] = []
    try:
        rows = stepped.step(changes)["t"].rows()
    except GpuWcojError as error:
        with pytest.raises(type(error)):
            streamed.step_pieces(changes, lambda _, piece: pieces.extend(piece.rows()))
        return
    counts = streamed.step_pieces(changes, lambda _, piece: pieces.extend(piece.rows()))
    assert sorted(pieces) == sorted(rows), (seed, text)
    assert counts["t"].net == sum(weight for _, weight in rows) == streamed.count("t")
    more = {name: {**change(), "weight": [1] * 12} for name in changes}  # a later tick changes weights of rows
    later: list[tuple[tuple[object, ...], int]] = []
    streamed.step_pieces(more, lambda _, piece: later.extend(piece.rows()))
    assert sorted(later) == sorted(stepped.step(more)["t"].rows()), (seed, text)
