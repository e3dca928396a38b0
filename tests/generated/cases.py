"""Cases that chance makes: a program, a script of ticks, and everything that must not change an answer.

What draws is a `random.Random`, or hypothesis in its place, which shrinks all of a case. A new feature adds a writer of
programs to `WRITERS`, an option to `draw`, or a patch to `PRESSURES`; the loop is `run`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.circuit.recount import ListingCosts
from gpu_wcoj.circuit.recursion import loop
from gpu_wcoj.join import delta, eliminate, full_join, generic
from gpu_wcoj.join.settings import FAST_PATHS, tune
from gpu_wcoj.planner.ir import STRATEGIES
from gpu_wcoj.planner.passes import share
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.query.stratify import unread
from tests.helpers import rank_bitmaps
from tests.helpers.answers import named
from tests.helpers.asked_programs import TARGETS, asked_text
from tests.helpers.comparison import (
    INTEGERS,
    SIGNED,
    SMALL,
    VALUES,
    WAYS,
    Judges,
    Script,
    Tick,
    Values,
    arities,
    compared,
    fed,
    grown_script,
    has_aggregates,
    random_script,
    ranks,
    read,
    translated,
    without_debts,
)
from tests.helpers.join_patterns import ARITIES, COUNTED, DIFFERENCES, GRAPHS, PATTERNS, STARS
from tests.helpers.kernel_kinds import Kind
from tests.helpers.overlapping_rules import overlapping_text
from tests.helpers.random_plans import hints, with_any_branches, with_any_orders
from tests.helpers.recursive_programs import AGGREGATING, CLOSURES, EXTREMES, IDLE, LAYERED, RANKED, SETS
from tests.reference.random_programs import chance_text, random_rules, random_text

PLAIN: Values = {}
TEXTS: Values = dict(zip(VALUES, ("b", "", "größe", "a\x00", None, "B"), strict=True))


@dataclass(frozen=True)
class Writer:
    """What writes programs, and the values that their relations may hold in place of the usual ones."""

    write: Callable[[random.Random], str | Rules]
    values: tuple[Values, ...] = (PLAIN,)
    nulls: bool = True
    bags: bool = True
    is_slow: bool = False
    """Whether hypothesis would take long to draw its cases, or draw dear ones, so that it draws seeds."""
    clingo: bool = False
    """Whether clingo reads what it writes, so that it may judge, too."""
    pressure: str = ""
    """The one of `PRESSURES` that every other case is under."""


WRITERS = {
    "joins": Writer(random_text, (PLAIN, SIGNED)),
    "rules in core form": Writer(random_rules, nulls=False),
    "negation": Writer(lambda chance: random_rules(chance, n_negated=(1, 2), n_computed=(0,)), is_slow=True),
    "calculation": Writer(
        lambda chance: random_rules(chance, n_negated=(0,), n_computed=(1, 2)), nulls=False, is_slow=True
    ),
    "rules with much in common": Writer(
        lambda chance: overlapping_text(chance, chance.random() < 0.5, chance.random() < 0.2),
        pressure="prefixes shared from one row on",
    ),
    "strata": Writer(chance_text, (SIGNED,), is_slow=True),
    "strata over small values": Writer(
        lambda chance: chance_text(chance, negative=False), (SMALL,), is_slow=True, clingo=True
    ),
    "aggregates within aggregates": Writer(lambda chance: chance_text(chance, nested=True), (SIGNED,), is_slow=True),
    "undefined values": Writer(
        lambda chance: chance_text(chance, lacking=True),
        (SIGNED,),
        nulls=False,
        bags=False,  # a tick that is refused leaves weights below 0 behind
        is_slow=True,
    ),
    "heads that are asked in part": Writer(lambda chance: asked_text(chance, recursive=False), (SMALL,)),
    "loops that are asked in part": Writer(lambda chance: asked_text(chance, recursive=True), (SMALL,), is_slow=True),
}
"""Writers of programs by what they write."""


def _shapes(texts: Mapping[str, str], *values: Values, **more: Any) -> dict[str, Writer]:
    return {
        name: Writer(lambda _, text=text: text, values or (PLAIN,), nulls=values != (TEXTS,), **more)
        for name, text in texts.items()
        if not any(part in text for part in ("?", "null"))  # the judges read none
    }


SHAPES = (
    _shapes(PATTERNS)
    | _shapes({f"{name} over text": text for name, text in (GRAPHS | ARITIES).items()}, TEXTS)
    | _shapes(STARS, pressure="any branches")
    | _shapes(COUNTED, pressure="counts at any size")
    | _shapes(DIFFERENCES, SMALL, pressure="changes as differences of all rows")
    | _shapes(CLOSURES | SETS | LAYERED, SMALL, SIGNED, clingo=True)
    | _shapes(EXTREMES, SMALL, clingo=True)
    | _shapes(RANKED, SMALL, pressure="loops that begin anew")
    | _shapes(IDLE | AGGREGATING, SMALL)
    | _shapes(TARGETS, SMALL)
)
"""Writers of one program each: the shapes of joins, of loops, and of what is pushed into helpers that must hold."""

WALKS: Mapping[str, Mapping[str, Any]] = {
    "as usual": {},
    "never": {"max_tick_rows": -1, "walk_loops": False},
    "always": {"max_tick_rows": 4096, "max_expected_work": 1 << 62, "max_walk_work": 1 << 62},
    "of two rows": {"max_tick_rows": 2, "max_memtable_rows": 4},
    "of little work": {"max_expected_work": 8, "max_walk_work": 16, "max_memtable_rows": 1, "walk_loops": False},
}
"""Tunings by the ticks that walk."""


def _patching(
    apply: Callable[[pytest.MonkeyPatch, random.Random], None],
) -> Callable[[random.Random], AbstractContextManager[None]]:
    """Undo the patches that a function applies after the context."""

    @contextmanager
    def patched(chance: random.Random) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            apply(patch, chance)
            yield

    return patched


@_patching
def _any_order(patch: pytest.MonkeyPatch, chance: random.Random) -> None:
    with_any_orders(patch, chance)


@_patching
def _any_branches(patch: pytest.MonkeyPatch, chance: random.Random) -> None:
    with_any_branches(patch, chance, orders=chance.random() < 0.5)


@_patching
def _counts_at_any_size(patch: pytest.MonkeyPatch, _: random.Random) -> None:
    patch.setattr(generic, "MIN_RANGE_PREFIXES", 1)
    patch.setattr(generic, "SORT_FROM", 2)
    patch.setattr(generic, "MIN_REDUCTION", 0)


@_patching
def _shared_prefixes(patch: pytest.MonkeyPatch, chance: random.Random) -> None:
    patch.setattr(delta, "MIN_CHANGED_ROWS", 1)
    patch.setattr(delta, "MAX_BUFFERED_NUMBERS", chance.choice((0, 4, 40, 1 << 23)))
    patch.setattr(share, "_listing", lambda *_: (1e9, 0.0))


@_patching
def _merged_prefixes(patch: pytest.MonkeyPatch, _: random.Random) -> None:
    patch.setattr(eliminate.Merging, "_is_expensive", lambda *_: True)
    patch.setattr(eliminate.Merging, "_max_distinct", lambda *_: 2.0)


@contextmanager
def _differences(chance: random.Random) -> Iterator[None]:
    limit = chance.choice((0.0, 1.0))
    with pytest.MonkeyPatch.context() as patch, tune(**WALKS["never"]):
        patch.setattr(ListingCosts, "limit", lambda *_: limit)
        patch.setattr(ListingCosts, "expected", lambda *_: 1e18)
        yield


@_patching
def _any_load(patch: pytest.MonkeyPatch, _: random.Random) -> None:
    patch.setattr(full_join, "LOAD_ROWS", 1)
    patch.setattr(full_join, "SMALL_LOAD_ROWS", 1)
    patch.setattr(full_join, "MIN_GAIN", 1e-9)


@_patching
def _anew(patch: pytest.MonkeyPatch, _: random.Random) -> None:
    patch.setattr(loop, "MIN_DERIVED_LIMIT", 3)
    patch.setattr(loop, "MAX_DERIVED_PER_ROW", 0)


@_patching
def _split(patch: pytest.MonkeyPatch, _: random.Random) -> None:
    patch.setattr(delta, "SPLIT_FROM", 1)


@contextmanager
def _ranks(_: random.Random) -> Iterator[None]:
    with rank_bitmaps.everywhere():
        yield


PRESSURES = {
    "any order": _any_order,
    "any branches": _any_branches,
    "counts at any size": _counts_at_any_size,
    "prefixes shared from one row on": _shared_prefixes,
    "equal prefixes merged from one row on": _merged_prefixes,
    "changes as differences of all rows": _differences,
    "loads along any path": _any_load,
    "ranks for every range": _ranks,
    "loops that begin anew": _anew,
    "seeds split into blocks": _split,
}
"""Patches that let small cases take ways that only large ones take."""


@dataclass(frozen=True)
class Case:
    """A program, ticks, and all that must not change its answers."""

    name: str
    program: str | Rules
    script: Script
    bag: bool
    kind: pa.DataType = INTEGERS
    clingo: bool = False
    tuning: Mapping[str, Any] = field(default_factory=dict)
    pressure: str = ""
    seed: int = 0
    actions: tuple[str, ...] = ()
    """Before each tick, beside the way in which it is taken."""
    kernels: str = "numba"
    route: int | None = None
    """The rows from which ticks run on the device, of a state that is on both sides."""
    options: Mapping[str, Any] = field(default_factory=dict)

    def run(self, folder: Path) -> int:
        """Compare engine and judges after every tick; return how many ticks are refused."""
        chance = random.Random(self.seed)
        sides: dict[str, Any] = {"backend": Kind(self.kernels).backend(self.seed)}
        if self.route is not None:
            sides |= {"twin": cpu_backend(True), "route": self.route}
        refused = 0
        with PRESSURES[self.pressure](chance) if self.pressure else tune(), tune(**self.tuning):
            program = gw.Program(self.program, bag=self.bag, inputs=named(self.program), **self.options, **sides)
            judges = Judges(self.program, self.bag, self.clingo)
            for tick_index, (tick, action) in enumerate(zip(self.script, self.actions, strict=True)):
                way, _, between = action.partition(", ")
                if between == "compacted":
                    program.compact()
                elif between == "restored":
                    program.checkpoint(folder / "state")
                    program = gw.Program.restore(folder / "state", **sides)
                refused += not compared(program, judges, tick, way, f"tick {tick_index}", self.kind)
            if any(map(len, judges.state.values())):
                self._check_ranks(program, judges, sides)
        return refused

    def _check_ranks(self, program: gw.Program, judges: Judges, sides: Mapping[str, Any]) -> None:
        """Compare the ranks of loops with those of a program that was given the state at once."""
        if not (found := ranks(program)):
            return
        fresh = gw.Program(self.program, bag=self.bag, inputs=named(self.program), **self.options, **sides)
        rows = {name: ("zset", list(held.items())) for name, held in judges.state.items()}
        fresh.step({name: fed(change, judges.program.arities[name], self.kind) for name, change in rows.items()})
        right = ranks(fresh)
        # Some ways keep columns beside those of ranks.
        is_alike = {name: len(columns) for name, columns in found.items()} == {
            name: len(columns) for name, columns in right.items()
        }
        assert found == right or not is_alike, f"ranks at the end: {found} instead of {right}"


def draw(chance: random.Random, name: str, kernels: str = "numba") -> Case:
    """Draw a case: a program of the writer of that name, and all else."""
    writer = (WRITERS | SHAPES)[name]
    program = writer.write(chance)
    judged = read(program)
    bag = writer.bags and chance.random() < 0.4
    values = dict(chance.choice(writer.values))
    has_nulls = writer.nulls and chance.random() < 0.2
    if has_nulls:
        values |= {chance.choice((0, 1)): None}
    script = random_script(chance, arities(program))
    if not isinstance(program, Rules) and arities(program) and values in (SMALL, SIGNED) and chance.random() < 0.3:
        script = grown_script(chance, arities(program), n_values=6, n_ticks=6)
    if Kind(kernels).on_device:
        script = script[:4]
    elif chance.random() < 0.15:
        script = one_row_per_tick(script)
    script = translated(script, values)
    if bag and has_aggregates(judged):
        script = without_debts(script)
    if chance.random() < 0.2:
        script = [*script, taking_back(script, bag)]
    tuning = {**WALKS[chance.choice(list(WALKS))], "off": _switched_off(chance)}
    pressure = writer.pressure if chance.random() < 0.5 else ""
    if kernels == "numba" and not pressure and chance.random() < 0.4:
        pressure = chance.choice(list(PRESSURES))
    options: dict[str, Any] = {
        "chunk_rows": chance.choice((None, None, 1, 2, 7)),
        "threads": chance.choice((1, 1, 2)),
        "strategy": chance.choice(STRATEGIES),
        "keep": chance.sample(judged.heads, chance.randint(0, min(2, len(judged.heads)))),
    }
    if isinstance(program, Rules) or chance.random() < 0.3:
        outputs = chance.sample(judged.heads, chance.randint(1, len(judged.heads)))
        rules = program if isinstance(program, Rules) else parse(program)
        if any(rule.computed for rule in rules.rules):  # calculations of heads that nobody asks for may fail unseen
            outputs += [name for name in unread(rules) if name not in outputs]
        options["outputs"] = outputs
    if isinstance(program, str) and chance.random() < 0.2:
        options["order"] = hints(program, chance)
    if pressure.startswith("any") or chance.random() < 0.3:
        options["replan"] = None
    return Case(
        name=name,
        program=program,
        script=script,
        bag=bag,
        kind=pa.string() if writer.values == (TEXTS,) else INTEGERS,
        clingo=writer.clingo and values == SMALL and chance.random() < 0.25,
        tuning=tuning,
        pressure=pressure,
        seed=chance.randint(0, 1 << 16),
        actions=tuple(_action(chance, kernels == "numba" and isinstance(program, str)) for _ in script),
        kernels=kernels,
        route=chance.choice((None, 2, 5, 9)) if Kind(kernels).on_device else None,
        options=options,
    )


def _switched_off(chance: random.Random) -> frozenset[str]:
    """Return the fast paths to turn off: none, one, all, or some."""
    way = chance.random()
    if way < 0.5:
        return frozenset()
    n_off = 1 if way < 0.8 else len(FAST_PATHS) if way < 0.85 else chance.randint(2, len(FAST_PATHS) - 1)
    return frozenset(chance.sample(FAST_PATHS, n_off))


def _action(chance: random.Random, can_restore: bool) -> str:
    way = chance.choice((*WAYS, "step", "load"))
    between = chance.random()
    if between < 0.02 and can_restore:
        return f"{way}, restored"
    return f"{way}, compacted" if between < 0.1 else way


def one_row_per_tick(script: Script, n_ticks: int = 30) -> Script:
    """The first rows of a script, each in a tick of its own."""
    rows = [(name, order, pair) for tick in script for name, (order, rows) in tick.items() for pair in rows]
    return [{name: (order, [pair])} for name, order, pair in rows[:n_ticks]]


def taking_back(script: Script, bag: bool) -> Tick:
    """The tick that leaves no row of any input."""
    judges: dict[str, dict[Any, int]] = {}
    for tick in script:
        for name, (_, rows) in tick.items():
            held = judges.setdefault(name, {})
            for row, weight in rows:
                held[row] = held.get(row, 0) + weight if bag else 1
    return {name: ("zset", [(row, -weight) for row, weight in rows.items()]) for name, rows in judges.items()}


def without_ticks(case: Case, script: Script) -> Case:
    """The case with another script, of as many ticks or fewer."""
    return replace(case, script=script, actions=case.actions[: len(script)])
