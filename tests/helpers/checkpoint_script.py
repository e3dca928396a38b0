"""Ticks to checkpoint, and what must be there after each of them."""

from __future__ import annotations

import random
from typing import Any

from gpu_wcoj import Program

SET_TEXT = """
triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).
corner(a, label) :- triangle(a, b, c), name(a, label).
busy(a) :- edge(a, b), edge(b, c), tag(c, key), a != c.
.output corner
.output busy
"""
BAG_TEXT = "path(a, c) :- edge(a, b), edge(b, c), name(b, label). pair(a, b) :- edge(a, b), tag(a, key)."
INPUTS = ["edge", "name", "tag"]

Tick = dict[str, list[Any]]


def new_program(bag: bool = False, **options: Any) -> Program:
    if bag:
        return Program(BAG_TEXT, bag=True, backend="cpu", threads=1, inputs=INPUTS, **options)
    return Program(SET_TEXT, keep=["corner"], backend="cpu", threads=1, inputs=INPUTS, **options)


def ticks(n: int = 50, seed: int = 0) -> list[Tick]:
    """Insertions and deletions. Nulls, text of new values and a relation's first rows turn up on the way."""
    rng = random.Random(seed)
    made = []
    for number in range(n):
        labels = ["x", "ü", "", f"new {number}"] + ([None] if number >= n // 3 else [])
        tick: Tick = {"edge": [((rng.randrange(9), rng.randrange(9)), rng.choice([1, 1, -1])) for _ in range(6)]}
        if number % 2:
            tick["name"] = [((rng.randrange(9), rng.choice(labels)), rng.choice([1, 1, -1])) for _ in range(2)]
        if number >= n // 2 and number % 3 == 0:
            key = bytes([rng.randrange(256)])
            tick["tag"] = [((rng.randrange(9), key), rng.choice([1, 1, -1])) for _ in range(2)]
        if number % 10 == 7:
            tick = {"edge": []}
        made.append(tick)
    return made


def seen(program: Program) -> dict[str, list[Any]]:
    """Every relation's rows, decoded and in one order."""
    relations = dict.fromkeys([*program.inputs, *program.heads])
    return {name: sorted(program.relation(name).rows(), key=repr) for name in relations}


def answers(program: Program, tick: Tick) -> dict[str, list[Any]]:
    """What a tick answers, in one order."""
    return {name: sorted(found.rows(), key=repr) for name, found in program.step(tick).items()}


class Reference:
    """The same ticks without a checkpoint: the answer of each, and all relations after it."""

    def __init__(self, script: list[Tick], bag: bool = False) -> None:
        program = new_program(bag)
        self.script = script
        self.before = seen(program)
        self.answers: list[dict[str, list[Any]]] = []
        self.after: list[dict[str, list[Any]]] = []
        for tick in script:
            self.answers.append(answers(program, tick))
            self.after.append(seen(program))

    def state(self, batch: int) -> dict[str, list[Any]]:
        """After that batch; before the first one for any smaller id."""
        return self.before if batch < 0 else self.after[batch]

    def resume(self, checkpoint: Any, program: Program, stop: int | None = None) -> None:
        """Go on from the last batch, and compare all the way."""
        first = 0 if checkpoint.last is None else checkpoint.last.batch + 1
        assert seen(program) == self.state(first - 1)
        for batch in range(first, len(self.script) if stop is None else min(stop, len(self.script))):
            assert answers(program, self.script[batch]) == self.answers[batch]
            checkpoint.commit(batch, query="q", rows=len(self.script[batch]), digest=str(batch))
        assert seen(program) == self.state(len(self.script) - 1 if stop is None else min(stop, len(self.script)) - 1)
