"""Engine and judges side by side: random scripts, compared after each tick."""

from __future__ import annotations

import functools
import importlib.util
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gpu_wcoj as gw
from gpu_wcoj.errors import CalculationError
from tests.helpers.answers import named
from tests.helpers.join_comparison import Change, Script, fed, random_script, smallest, translated
from tests.reference.asp import answer_set
from tests.reference.changes import Row, ZSet, apply_bag, apply_rows, apply_zset, minus, plus, summed
from tests.reference.fixpoint import fixpoint
from tests.reference.functions import UndefinedError
from tests.reference.program_text import Call, Rule, Written, aggregates, every_part, parts, written

SMALL = {-9: 4, 2**40: 5}
"""Values that clingo can count with, none below 0, in place of those that `random_script` gives."""
SIGNED = {-9: -2, 2**40: 7}


def texts_are_plain(program: Written) -> bool:
    """Return whether clingo can express the program: no text functions and no means."""
    every = [part for rule in program.rules for part in _parts_of(rule)]
    return not any(isinstance(part, Call) and part.op.isalpha() for part in every) and not any(
        getattr(part, "op", "") == "mean" for part in every
    )


def _parts_of(rule: Rule) -> list[object]:
    body = list(rule.body)
    for literal in body:
        body += [inner for aggregate in aggregates(literal) for inner in aggregate.body]
    terms = [*rule.head.terms, *(term for literal in body for term in parts(literal))]
    return [part for term in terms for part in every_part(term)]


class Judges:
    """State and answers by recomputation from scratch, once by each judge."""

    def __init__(self, text: str, bag: bool = False, clingo: bool = True) -> None:
        self.program = written(text)
        self.bag = bag
        # A machine with a GPU may lack clingo.
        has_clingo = importlib.util.find_spec("clingo") is not None
        self.clingo = clingo and has_clingo and not bag and texts_are_plain(self.program)
        self.state: dict[str, ZSet] = {name: {} for name in self.program.inputs}
        self.heads = self.answers()

    def answers(self) -> dict[str, ZSet]:
        relations = fixpoint(self.program, self.state, self.bag)
        if self.clingo:
            assert answer_set(self.program, self.state) == relations, "the judges do not agree"
        return relations

    def step(self, tick: Mapping[str, Change]) -> dict[str, ZSet]:
        state = dict(self.state)
        for name, (kind, rows) in tick.items():
            apply = apply_bag if self.bag else apply_rows if kind == "rows" else apply_zset
            self.state[name] = apply(self.state[name], rows)
        try:
            before, self.heads = self.heads, self.answers()
        except UndefinedError:
            self.state = state
            raise
        return {name: minus(self.heads[name], before[name]) for name in self.heads}


def compared(program: gw.Program, judges: Judges, tick: Mapping[str, Change], way: str, place: str) -> None:
    """Run a tick and compare all answers and changes; both refuse undefined values."""
    arities = judges.program.arities
    changes = {name: fed(change, arities[name]) for name, change in tick.items()}
    before = judges.heads
    try:
        expected = judges.step(tick)
    except UndefinedError as error:
        try:
            program.step(changes)
        except CalculationError:
            agree(program, judges, f"{place}, refused")
            return
        raise AssertionError(f"{place} is taken, and has to be refused: {error}") from None
    if program.last_tick.tick == -1:  # the facts of the text come with the first tick
        expected = {name: minus(judges.heads[name], {}) for name in before}
    answers: dict[str, ZSet] = {name: {} for name in program.outputs}
    if way == "step":
        answers = {name: zset.to_dict() for name, zset in program.step(changes).items()}
    elif way == "step_pieces":
        pieces: list[tuple[str, gw.ZSet]] = []
        program.step_pieces(changes, lambda name, piece: pieces.append((name, piece)))
        for name, piece in pieces:
            answers[name] = plus(answers[name], piece.to_dict())
    else:
        counts = program.step_counts(changes)
        for name, count in counts.items():
            assert count.net == sum(expected[name].values()), f"{place}: {name}: {count} instead of {expected[name]}"
        answers = {}
    for name, zset in answers.items():
        assert zset == expected[name], f"{place}: changes of {name}: {zset} instead of {expected[name]}"
    agree(program, judges, place)


def agree(program: gw.Program, judges: Judges, place: str = "") -> None:
    """Every head holds what the judges say."""
    for name in judges.heads:
        rows = program.relation(name).to_dict()
        assert rows == judges.heads[name], f"{place}: {name} is {rows} instead of {judges.heads[name]}"
        assert program.count(name) == sum(judges.heads[name].values()), f"{place}: count of {name}"


def check_script(
    text: str, script: Script, *, bag: bool = False, way: str = "step", clingo: bool = True, **options: Any
) -> None:
    """Run `script` through a program and the judges; compare after every tick."""
    program = gw.Program(text, bag=bag, inputs=named(text), **options)
    judges = Judges(text, bag, clingo)
    assert set(program.inputs) == set(judges.program.inputs)
    for tick_index, tick in enumerate(script):
        compared(program, judges, tick, way, f"tick {tick_index}")


def check_scripts(
    text: str,
    seeds: Iterable[int],
    *,
    bag: bool = False,
    positive: bool = False,
    values: Mapping[object, object] | None = None,
    **options: Any,
) -> None:
    """Run `check_script` for every seed; a failure shows the smallest script with that failure.

    With `positive`, no row's weight is ever below 0.
    """
    arities = written(text).arities
    inputs = {name: arities[name] for name in written(text).inputs}
    for seed in seeds:
        script = translated(random_script(random.Random(f"{text} {seed}"), inputs), values or SMALL)
        if positive:
            script = without_debts(script)
        way = ("step", "step", "step_pieces", "step_counts")[seed % 4]
        variant: dict[str, Any] = {} if None not in (values or {}).values() else {"clingo": False}
        variant |= {"chunk_rows": (None, 1, 2, 7)[seed // 2 % 4], "threads": 1 + seed % 2, "way": way} | options
        run = functools.partial(check_script, text, bag=bag, **variant)
        try:
            run(script)
        except Exception as error:
            small = smallest(script, functools.partial(_fails_alike, run, type(error)))
            raise AssertionError(
                f"seed {seed}, bag={bag}, {variant}\n  {text}\n  smallest script: {small}\n"
                f"  {type(error).__name__}: {_failure(run, small)}"
            ) from error


def without_debts(script: Script) -> Script:
    """`script` without what takes a row's weight below 0 at the end of a tick."""
    present: dict[str, ZSet] = {}
    ticks: Script = []
    for tick in script:
        applied: dict[str, Change] = {}
        for name, (kind, rows) in tick.items():
            net = summed(rows)
            live = present.setdefault(name, {})
            rows = [(row, max(weight, -live.get(row, 0))) for row, weight in net.items()]
            present[name] = plus(live, summed(rows))
            applied[name] = kind, [(row, weight) for row, weight in rows if weight]
        ticks.append(applied)
    return ticks


def _fails_alike(run: Any, kind: type[Exception], script: Script) -> bool:
    return isinstance(_failure(run, script), kind)


def _failure(run: Any, script: Script) -> Exception | None:
    try:
        run(script)
    except Exception as error:
        return error
    return None


def rows_of(*rows: Row, weight: int = 1) -> list[tuple[Row, int]]:
    """(row, weight) pairs."""
    return [(row, weight) for row in rows]


def stored(program: gw.Program) -> dict[str, list[list[int]]]:
    """Return the stored rows of all relations, those of loops with their ranks, the last column their weights."""
    sides = program._ledger.settle()
    indices = [] if sides is None else sides.ahead.circuit.indices()
    rows = {f"{index.name} {index.width}": index.rows() for index in indices}
    return {name: [column.tolist() for column in (*columns, weights)] for name, (columns, weights) in rows.items()}


def bits(program: gw.Program, heads: Sequence[str]) -> dict[str, object]:
    """Return the answers of a program in order, and its numbers of stored rows."""
    program.compact()
    answers: dict[str, object] = {
        name: [(field.type, column.to_pylist()) for field, column in zip(table.schema, table.columns, strict=True)]
        for name in heads
        for table in [program.relation(name).to_arrow()]
    }
    return answers | {"state": {key: sum(rows) for key, rows in program.state_rows.items()}}
