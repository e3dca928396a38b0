"""An engine and its judges side by side: random scripts of ticks, run through both and compared after each tick."""

from __future__ import annotations

import functools
import importlib.util
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pyarrow as pa

import gpu_wcoj as gw
from gpu_wcoj.circuit.recursion.loop import LoopHead
from gpu_wcoj.errors import CalculationError
from gpu_wcoj.join.settings import tune
from gpu_wcoj.query.ir import Rules
from tests.helpers.answers import named
from tests.reference.asp import answer_set
from tests.reference.changes import Row, ZSet, apply_bag, apply_rows, apply_zset, minus, plus, summed
from tests.reference.core import from_core
from tests.reference.fixpoint import fixpoint
from tests.reference.functions import UndefinedError
from tests.reference.program_text import Call, Rule, Written, aggregates, every_part, parts, written

Rows = list[tuple[Row, int]]
Change = tuple[str, Rows]
"""("rows", ...) is fed in order, ("zset", ...) without an order."""
Tick = dict[str, Change]
Script = list[Tick]
Values = Mapping[object, object]
INTEGERS = pa.int64()
VALUES = (0, 1, 2, -9, 2**40, 3)
SMALL: Values = {-9: 4, 2**40: 5}
"""Values that clingo can count with, none below 0, in place of those that `random_script` gives."""
SIGNED: Values = {-9: -2, 2**40: 7}
WAYS = ("step", "step_counts", "step_pieces")


def read(program: str | Rules) -> Written:
    """A text, or rules in core form, as the judges take them."""
    return written(program) if isinstance(program, str) else from_core(program)


def arities(program: str | Rules) -> dict[str, int]:
    """{input: number of columns} of a program."""
    known = read(program)
    return {name: known.arities[name] for name in known.inputs}


def has_aggregates(program: Written) -> bool:
    """Return whether rows may have no negative weight, as some are aggregated."""
    return any(rule.aggregates or any(map(aggregates, rule.body)) for rule in program.rules)


def table(rows: Rows, arity: int, kind: pa.DataType = INTEGERS) -> pa.Table:
    """Rows with weights as a table, which the engine takes in their order."""
    columns = {f"c{i}": pa.array([row[i] for row, _ in rows], kind) for i in range(arity)}
    return pa.table(columns | {"weight": pa.array([weight for _, weight in rows], INTEGERS)})


def fed(change: Change, arity: int, kind: pa.DataType = INTEGERS) -> Any:
    """`change` in the form in which the engine is given it."""
    order, rows = change
    found = table(rows, arity, kind)
    return found if order == "rows" else gw.ZSet.from_arrow(found, weight="weight")


def rows_of(*rows: Row, weight: int = 1) -> Rows:
    """(row, weight) pairs."""
    return [(row, weight) for row in rows]


def translated(script: Script, values: Values) -> Script:
    """`script` with other values for some."""
    return [
        {
            name: (order, [(tuple(values.get(value, value) for value in row), weight) for row, weight in rows])
            for name, (order, rows) in tick.items()
        }
        for tick in script
    ]


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


def random_script(random: random.Random, inputs: Mapping[str, int]) -> Script:
    """A few ticks over few values, so that joins hit: growing, shrinking, empty, hub-heavy and cancelling ones."""
    n_values = random.choice((2, 3, 4, 6))
    n_rows = random.choice((4, 8, 16))
    script: Script = []
    for _ in range(random.randint(4, 7)):
        tick: Tick = {}
        for name, arity in inputs.items():
            if random.random() < 0.8:
                kind = random.choice(("rows", "zset"))
                tick[name] = (kind, _random_rows(random, arity, n_values, random.randint(0, n_rows)))
        way = random.random()
        if way < 0.1:
            tick = {}
        elif way < 0.2 and script:  # takes back what an earlier tick did
            tick = {
                name: (kind, [(row, -weight) for row, weight in reversed(rows)])
                for name, (kind, rows) in random.choice(script).items()
            }
        elif way < 0.3:  # cancels within the tick
            tick = {
                name: (kind, rows + [(row, -weight) for row, weight in random.sample(rows, len(rows))])
                for name, (kind, rows) in tick.items()
            }
        script.append(tick)
    return script


def _random_rows(random: random.Random, arity: int, n_values: int, n_rows: int) -> Rows:
    hub = random.random() < 0.3
    weights = random.choice(((1,), (1,), (1, 1, 1, -1), (-2, -1, 0, 1, 2), (-1,)))
    rows: Rows = []
    for _ in range(n_rows):
        row = random.choices(VALUES[:n_values], k=arity)
        if hub:
            row[random.randrange(arity)] = VALUES[0]
        rows.append((tuple(row), random.choice(weights)))
    return rows


def grown_script(chance: random.Random, inputs: dict[str, int], n_values: int = 7, n_ticks: int = 12) -> Script:
    """A graph that is there at once, then single rows that go and come, often back again."""
    values = list(range(n_values))

    def some(width: int, n_rows: int) -> Rows:
        return [(tuple(chance.choices(values, k=width)), 1) for _ in range(n_rows)]

    script: Script = [{name: ("rows", some(width, 2 * n_values)) for name, width in inputs.items()}]
    there = {name: [row for row, _ in rows] for name, (_, rows) in script[0].items()}
    for _ in range(n_ticks):
        name = chance.choice(list(inputs))
        if there[name] and chance.random() < 0.6:
            row = there[name].pop(chance.randrange(len(there[name])))
            there[name] = [present for present in there[name] if present != row]
            script.append({name: ("rows", [(row, -1)])})
            if chance.random() < 0.5:
                script.append({name: ("rows", [(row, 1)])})
                there[name].append(row)
        else:
            rows = some(inputs[name], chance.choice((1, 1, 3)))
            there[name] += [row for row, _ in rows]
            script.append({name: ("rows", rows)})
    return script


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

    def __init__(self, program: str | Rules, bag: bool = False, clingo: bool = False) -> None:
        self.program = read(program)
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


def walking(walks: bool) -> AbstractContextManager[object]:
    """Ticks and loops of programs that are made within walk as they do otherwise, or all run path by path."""
    return nullcontext() if walks else tune(max_tick_rows=-1, walk_loops=False)


def compared(
    program: gw.Program, judges: Judges, tick: Tick, way: str, place: str, kind: pa.DataType = INTEGERS
) -> bool:
    """Run a tick and compare all answers and changes; both refuse undefined values. Return whether it was taken.

    `way` is the method under test: ``step``, ``step_counts``, ``step_pieces`` or ``load``.
    """
    changes = {name: fed(change, judges.program.arities[name], kind) for name, change in tick.items()}
    is_first = program.last_tick.tick == -1
    try:
        expected = judges.step(tick)
    except UndefinedError as error:
        try:
            getattr(program, way)(changes, *[lambda *_: None] * (way == "step_pieces"))
        except CalculationError:
            agree(program, judges, f"{place}, refused")
            return False
        raise AssertionError(f"{place} is taken, and has to be refused: {error}") from None
    if is_first:  # the facts of the text come with the first tick
        expected = judges.heads
    found: dict[str, ZSet] = {}
    if way == "load":
        program.load(changes)
    elif way == "step":
        found = {name: zset.to_dict() for name, zset in program.step(changes).items()}
        assert found.keys() == set(program.outputs)
    elif way == "step_pieces":
        pieces: list[tuple[str, gw.ZSet]] = []
        in_order = program.last_tick.tick % 2 == 0
        counts = program.step_pieces(changes, lambda name, piece: pieces.append((name, piece)), in_order=in_order)
        check_counts(counts, expected, judges.bag, place)
        found = {name: {} for name in program.outputs}
        for name, piece in pieces:
            found[name] = plus(found[name], piece.to_dict())
    else:
        check_counts(program.step_counts(changes), expected, judges.bag, place)
    for name, zset in found.items():
        assert zset == expected[name], f"{place}: changes of {name}: {zset} instead of {expected[name]}"
    agree(program, judges, place)
    return True


def check_counts(counts: Mapping[str, Any], expected: Mapping[str, ZSet], bag: bool, place: str) -> None:
    for name, count in counts.items():
        weights = expected[name].values()
        assert count.net == sum(weights), f"{place}: net of {name}: {count} instead of {expected[name]}"
        if count.inserted is not None and not bag:
            right = (sum(weight > 0 for weight in weights), sum(weight < 0 for weight in weights))
            assert (count.inserted, count.deleted) == right, f"{place}: {name}: {count} instead of {right}"


def agree(program: gw.Program, judges: Judges, place: str = "") -> None:
    """Every head holds what the judges say, and every input what came."""
    for name, right in (judges.state | judges.heads).items():
        rows = program.relation(name).to_dict()
        assert rows == right, f"{place}: {name} is {rows} instead of {right}"
    for name, right in judges.heads.items():
        assert program.count(name) == sum(right.values()), f"{place}: count of {name}"


def check_script(
    text: str | Rules,
    script: Script,
    *,
    bag: bool = False,
    way: str = "step",
    clingo: bool = False,
    kind: pa.DataType = INTEGERS,
    walks: bool = True,
    **options: Any,
) -> int:
    """Run `script` through a program and the judges; compare after every tick. Return how many ticks are refused."""
    with walking(walks):
        program = gw.Program(text, bag=bag, inputs=named(text), **options)
    judges = Judges(text, bag, clingo)
    assert set(program.inputs) == set(judges.program.inputs)
    return sum(
        not compared(program, judges, tick, way, f"tick {tick_index}", kind) for tick_index, tick in enumerate(script)
    )


def check_scripts(
    text: str | Rules,
    seeds: Iterable[int],
    *,
    bag: bool = False,
    positive: bool | None = None,
    values: Values | None = None,
    **options: Any,
) -> int:
    """`check_script` with the script of every seed; a failure shows the smallest script that fails in the same way.

    Seeds walk and run path by path in turn. With `positive`, and in bags of which rows are aggregated, no row's weight
    is ever below 0. Returns how many ticks are refused.
    """
    program, refused = read(text), 0
    for seed in seeds:
        script = translated(random_script(random.Random(f"{text} {seed}"), arities(text)), values or {})
        if positive or (positive is None and bag and has_aggregates(program)):
            script = without_debts(script)
        variant: dict[str, Any] = {
            "chunk_rows": (None, 1, 2, 7)[seed % 4],
            "threads": 1 + seed % 2,
            "way": WAYS[seed // 2 % 3],
            "walks": seed % 2 == 0,
        } | options
        run = functools.partial(check_script, text, bag=bag, **variant)
        try:
            refused += run(script)
        except Exception as error:
            small = smallest(script, functools.partial(_fails_alike, run, type(error)))
            raise AssertionError(
                f"seed {seed}, bag={bag}, {variant}\n  {text}\n  smallest script: {small}\n"
                f"  {type(error).__name__}: {_failure(run, small)}"
            ) from error
    return refused


def _fails_alike(run: Callable[[Script], object], kind: type[Exception], script: Script) -> bool:
    return isinstance(_failure(run, script), kind)


def _failure(run: Callable[[Script], object], script: Script) -> Exception | None:
    try:
        run(script)
    except Exception as error:
        return error
    return None


def smallest(script: Script, fails: Callable[[Script], bool]) -> Script:
    """`script` with everything left out without which it `fails` still."""
    shrunk = True
    while shrunk:
        shrunk = False
        for smaller in _smaller(script):
            if fails(smaller):
                script, shrunk = smaller, True
                break
    return script


def _smaller(script: Script) -> Iterator[Script]:
    for i, tick in enumerate(script):
        yield [*script[:i], *script[i + 1 :]]
        for name, (kind, rows) in tick.items():
            rest = {other: change for other, change in tick.items() if other != name}
            yield [*script[:i], rest, *script[i + 1 :]]
            for j in range(len(rows)):
                fewer = {**tick, name: (kind, rows[:j] + rows[j + 1 :])}
                yield [*script[:i], fewer, *script[i + 1 :]]


def stored(program: gw.Program) -> dict[str, list[list[int]]]:
    """Return the stored rows of all relations, those of loops with their ranks, the last column their weights."""
    sides = program._ledger.settle()
    indices = [] if sides is None else sides.ahead.circuit.indices()
    rows = {f"{index.name} {index.width}": index.rows() for index in indices}
    return {name: [column.tolist() for column in (*columns, weights)] for name, (columns, weights) in rows.items()}


def ranks(program: gw.Program) -> dict[str, list]:
    """Return the rows of loops with their ranks."""
    sides = program._ledger.settle()
    heads = [] if sides is None else sides.ahead.circuit.heads.items()
    return {
        name: [head.relation.backend.to_host(column).tolist() for column in head.relation.rows()[0]]
        for name, head in heads
        if isinstance(head, LoopHead)
    }


def bits(program: gw.Program, heads: Sequence[str]) -> dict[str, object]:
    """Return the answers of a program in order, and its numbers of stored rows."""
    program.compact()
    answers: dict[str, object] = {
        name: [(field.type, column.to_pylist()) for field, column in zip(table.schema, table.columns, strict=True)]
        for name in heads
        for table in [program.relation(name).to_arrow()]
    }
    return answers | {"state": {key: sum(rows) for key, rows in program.state_rows.items()}}
