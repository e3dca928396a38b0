"""Engines that share the work of ticks: their answers add up to that of one, whatever each has been through."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from gpu_wcoj import Program
from gpu_wcoj.errors import UnsupportedError, UsageError

TEXTS = (
    "triangle(a, b, c) :- r(a, b), r(b, c), r(a, c).",
    "path(a, b, c, d) :- r(a, b), r(b, c), r(c, d), a != d.",
    "square(a, b, c, d) :- r(a, b), r(b, c), r(c, d), r(d, a).",
    "pair(a, b, c) :- r(a, b), s(a, c).",
    "same(a, b) :- r(a, b).",
)


def value(number: int, is_text: bool) -> Any:
    if not is_text:
        return number
    return None if number == 7 else f"n{number}"


@pytest.mark.drawn("bag", "is_text", "n", each=True)
@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("is_text", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("text", TEXTS)
def test_shares_add_up(text: str, n: int, is_text: bool, bag: bool) -> None:
    rnd = random.Random(n)
    kind = "string" if is_text else "int64"
    schema = {name: [kind, kind] for name in Program(text).inputs}
    whole = Program(text, bag=bag, schema=schema)
    shares = [Program(text, bag=bag, schema=schema) for _ in range(n)]
    for number, share in enumerate(shares):
        share.share_work(number, n)
        # Dictionaries and batches differ between engines that have come to the same state in other ways.
        if number % 2:
            for name in share.inputs:
                share.step({name: [((value(i, is_text), value(i, is_text)), 1) for i in range(20, 0, -1)]})
                share.step({name: [((value(i, is_text), value(i, is_text)), -1) for i in range(20, 0, -1)]})
    total = 0
    for tick in range(6):
        rows: dict[str, list[Any]] = {}
        for name in whole.inputs:
            new = [
                ((value(rnd.randrange(9), is_text), value(rnd.randrange(9), is_text)), rnd.choice((-1, 1, 1)))
                for _ in range((1, 40)[tick % 2])
            ]
            rows[name] = list(dict(new).items())
        (expected,) = whole.step(rows).values()
        found: Counter[Any] = Counter()
        for share in shares:
            rnd.shuffle(next(iter(rows.values())))
            (part,) = share.step(rows).values()
            found.update(part.to_dict())
        assert {row: weight for row, weight in found.items() if weight} == expected.to_dict()
        total += len(expected)
    assert total


def test_large_ticks_are_shared_evenly() -> None:
    """Rows of one hub go to all shares."""
    shares = [Program(TEXTS[3], threads=2, inputs=["r", "s"]) for _ in range(4)]
    rows = {"r": [(0, i) for i in range(5000)], "s": [(0, i) for i in range(3)]}
    found = []
    for number, share in enumerate(shares):
        share.share_work(number, 4)
        share.step({"s": rows["s"]})
        found.append(share.step_counts({"r": rows["r"]})["pair"].net)
    assert sum(found) == 15000
    assert max(found) < 1.2 * 15000 / 4


def test_what_no_share_can_tell() -> None:
    with pytest.raises(UnsupportedError, match="sharing the work of head 'far' is not supported: it has state"):
        Program("far(a) :- r(a, b), r(b, a).").share_work(0, 2)
    with pytest.raises(UnsupportedError, match="sharing the work of head 'x' is not supported: it has state"):
        Program("x(a, b) :- r(a, b), s(a, b). y(a, b) :- x(a, b), r(b, a).").share_work(0, 2)
    with pytest.raises(UsageError, match="number=2 is not allowed: expected 0 to 1"):
        Program(TEXTS[0]).share_work(2, 2)
    program = Program(TEXTS[0])
    program.step({"r": [(1, 2)]})
    with pytest.raises(UsageError, match="the first tick has run"):
        program.share_work(0, 2)


def test_heads_that_negate_or_aggregate_are_not_shared():
    with pytest.raises(UnsupportedError, match="the work of head 'h' is not supported: its rules use negation"):
        Program("h(a, b) :- e(a, b), !e(b, a).").share_work(0, 2)
    with pytest.raises(UnsupportedError, match="sharing the work of head 'h' is not supported: it has state"):
        Program("h(a, min(b)) :- e(a, b).").share_work(0, 2)


def test_a_head_that_counts_derivations_once_there_are_nulls_is_refused_then():
    """A null literal drops the variable of its row, so the plan counts derivations, of which each worker has some."""
    program = Program("out(b, y) :- g(null), e(b, y).", backend="cpu", inputs=["g", "e"])
    program.share_work(0, 2)
    with pytest.raises(UnsupportedError, match="head 'out' is not supported: it has state"):
        program.step({"g": [(None,), (1,)], "e": [(1, 2), (3, 4)]})
    assert program.last_tick.tick == -1
