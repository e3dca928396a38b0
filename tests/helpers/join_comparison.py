"""An engine and the reference side by side: random scripts of ticks, run through both and compared after each tick."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pyarrow as pa

import gpu_wcoj as gw
from gpu_wcoj.join.settings import tune
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import COMPARISONS
from tests.helpers.answers import named
from tests.reference.changes import Row, ZSet, apply_bag, apply_rows, apply_zset, minus, plus
from tests.reference.datalog import evaluate

Rows = list[tuple[Row, int]]
Change = tuple[str, Rows]
"""("rows", ...) is fed in order, ("zset", ...) without an order."""
Tick = dict[str, Change]
Script = list[Tick]
INTEGERS = pa.int64()
VALUES = (0, 1, 2, -9, 2**40, 3)


def arities(text: str) -> dict[str, int]:
    """{input: arity} of the program `text`."""
    rules = parse(text)
    found = {atom.relation: len(atom.terms) for rule in rules.rules for atom in rule.atoms}
    return {name: found[name] for name in rules.inputs}


def table(rows: Rows, arity: int, kind: pa.DataType = INTEGERS) -> pa.Table:
    """Rows with weights as a table, which the engine takes in their order."""
    columns = {f"c{i}": pa.array([row[i] for row, _ in rows], kind) for i in range(arity)}
    return pa.table(columns | {"weight": pa.array([weight for _, weight in rows], INTEGERS)})


def fed(change: Change, arity: int, kind: pa.DataType = INTEGERS) -> Any:
    """`change` in the form in which the engine is given it."""
    order, rows = change
    found = table(rows, arity, kind)
    return found if order == "rows" else gw.ZSet.from_arrow(found, weight="weight")


def translated(script: Script, values: Mapping[object, object]) -> Script:
    """`script` with other values for some."""
    return [
        {
            name: (order, [(tuple(values.get(value, value) for value in row), weight) for row, weight in rows])
            for name, (order, rows) in tick.items()
        }
        for tick in script
    ]


class Reference:
    """State and answers by recomputation from scratch."""

    def __init__(self, text: str, bag: bool) -> None:
        self.rules = parse(text)
        self.bag = bag
        self.state: dict[str, ZSet] = {name: {} for name in self.rules.inputs}
        self.heads = evaluate(self.rules, self.state, bag)

    def step(self, tick: Mapping[str, Change]) -> dict[str, ZSet]:
        for name, (kind, rows) in tick.items():
            apply = apply_bag if self.bag else apply_rows if kind == "rows" else apply_zset
            self.state[name] = apply(self.state[name], rows)
        before, self.heads = self.heads, evaluate(self.rules, self.state, self.bag)
        return {name: minus(self.heads[name], before[name]) for name in self.heads}


def walking(walks: bool) -> AbstractContextManager[object]:
    """Ticks and loops of programs that are made within walk as they do otherwise, or all run path by path."""
    return nullcontext() if walks else tune(max_tick_rows=-1, walk_loops=False)


def check_script(
    text: str,
    script: Script,
    *,
    bag: bool,
    way: str = "step",
    kind: pa.DataType = INTEGERS,
    walks: bool = True,
    **options: Any,
) -> None:
    """Run `script` through a program and the reference; after every tick all answers and all changes are equal.

    `way` is the method under test: ``step``, ``step_counts`` or ``step_pieces``.
    """
    inputs = arities(text)
    with walking(walks):
        program = gw.Program(text, bag=bag, inputs=named(text), **options)
    reference = Reference(text, bag)
    for number, tick in enumerate(script):
        changes = {name: fed(change, inputs[name], kind) for name, change in tick.items()}
        expected = reference.step(tick)
        place = f"tick {number}"
        if way == "step":
            found = {name: zset.to_dict() for name, zset in program.step(changes).items()}
        elif way == "step_pieces":
            pieces: list[tuple[str, gw.ZSet]] = []
            counts = program.step_pieces(changes, _kept_in(pieces), in_order=number % 2 == 0)
            check_counts(counts, expected, bag, place)
            found = {name: {} for name in program.outputs}
            for name, piece in pieces:
                found[name] = plus(found[name], piece.to_dict())
        else:
            counts = program.step_counts(changes)
            check_counts(counts, expected, bag, place)
            found = {}
        for name, zset in found.items():
            assert zset == expected[name], f"{place}: changes of {name}: {zset} instead of {expected[name]}"
        assert way == "step_counts" or found.keys() == set(program.outputs)
        for name in program.outputs:
            assert program.count(name) == sum(reference.heads[name].values()), f"{place}: count of {name}"
        for name in program.heads:
            whole = program.relation(name).to_dict()
            assert whole == reference.heads[name], f"{place}: {name} is {whole} instead of {reference.heads[name]}"


def _kept_in(pieces: list[tuple[str, gw.ZSet]]) -> Callable[[str, gw.ZSet], None]:
    return lambda name, piece: pieces.append((name, piece))


def check_counts(counts: Mapping[str, Any], expected: Mapping[str, ZSet], bag: bool, place: str) -> None:
    for name, count in counts.items():
        weights = expected[name].values()
        assert count.net == sum(weights), f"{place}: net of {name}: {count} instead of {expected[name]}"
        if count.inserted is not None and not bag:
            right = (sum(weight > 0 for weight in weights), sum(weight < 0 for weight in weights))
            assert (count.inserted, count.deleted) == right, f"{place}: {name}: {count} instead of {right}"


def check_scripts(
    text: str, seeds: Iterable[int], *, bag: bool, values: Mapping[object, object] | None = None, **options: Any
) -> None:
    """`check_script` with the script of every seed; a failure shows the smallest script that fails in the same way.

    Each seed runs once with small ticks that walk, and once path by path.
    """
    for seed in seeds:
        script = translated(random_script(random.Random(f"{text} {seed}"), arities(text)), values or {})
        variant = {"chunk_rows": (None, 1, 2, 7)[seed % 4], "threads": 1 + seed % 2} | options
        for number, way in enumerate(("step", ("step_counts", "step_pieces")[seed % 2])):
            walks = (seed + number) % 2 == 0
            run = functools.partial(check_script, text, bag=bag, way=way, walks=walks, **variant)
            try:
                run(script)
            except Exception as error:
                small = smallest(script, functools.partial(_fails_alike, run, type(error)))
                raise AssertionError(
                    f"seed {seed}, bag={bag}, {way}, walks={walks}, {variant}\n  {text}\n  smallest script: {small}\n"
                    f"  {type(error).__name__}: {_failure(run, small)}"
                ) from error


def _fails_alike(run: Callable[[Script], None], kind: type[Exception], script: Script) -> bool:
    return isinstance(_failure(run, script), kind)


def _failure(run: Callable[[Script], None], script: Script) -> Exception | None:
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


def random_text(random: random.Random) -> str:
    """A program of one to three rules over few relations: any atoms, constants, ``_``, comparisons, unions, heads."""
    inputs = {"u": 1, "e": 2, "f": 2, "t": 3}
    heads: dict[str, int] = {}
    rules = []
    for number in range(random.randint(1, 3)):
        name = random.choice([f"h{number}", *list(heads)[-1:]])
        readable = inputs if name in heads else {**inputs, **heads}  # a second rule for a head reads no head: no cycle
        names = "abcd"[: random.randint(1, 4)]
        body, bound = [], set()
        for relation in random.choices(list(readable), k=random.randint(1, 4)):
            terms = [_random_term(random, names) for _ in range(readable[relation])]
            bound.update(term for term in terms if term in names)
            body.append(f"{relation}({', '.join(terms)})")
        head = random.choices([*sorted(bound) * 3, "5"], k=heads.setdefault(name, random.randint(1, 3)))
        for _ in range(random.choice((0, 0, 1, 2)) if bound else 0):
            other = random.choice([*sorted(bound), "0", "1", "-9"])
            body.append(f"{random.choice(sorted(bound))} {random.choice(COMPARISONS)} {other}")
        rules.append(f"{name}({', '.join(head)}) :- {', '.join(body)}.")
    return " ".join(rules)


def _random_term(random: random.Random, names: str) -> str:
    return random.choice([*names * 4, "_", random.choice(("0", "1", "2"))])


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
