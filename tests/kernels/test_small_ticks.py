"""The kernels of small ticks equal their reference in plain Python, over random states, changes and queries."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

import gpu_wcoj as gw
from cpu_fallback import walk_records as record
from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.engine.small_ticks import find_obstacles
from gpu_wcoj.join import walk as join_walk
from gpu_wcoj.join.plan import DeltaQuery
from gpu_wcoj.join.settings import tune
from gpu_wcoj.join.walk import Walk, WalkRecords, address_of
from tests.helpers import rank_bitmaps
from tests.helpers.kernel_kinds import needed
from tests.helpers.walked_state import Driver, WalkedState, memtable
from tests.reference import walks as reference
from tests.reference.kernels import Row, wrap

WIDTHS = {"u": 1, "e": 2, "f": 2, "g": 3}
CAPACITY = 64
LEAST, LARGEST = -(2**63), 2**63 - 1
DOMAINS = ([0, 1, 2, 3], [3, 2**40, 2**41, -(2**50), 5], [LEAST, LEAST + 1, -1, 0, LARGEST - 1, LARGEST])
CLIQUE = "q(a, b, c{}) :- e(a, b), e(a, c), e(b, c){}, a < b, b < c{}."
TEXTS = {
    "triangle of smaller ends": CLIQUE.format("", "", ""),
    "clique of four": CLIQUE.format(", d", ", e(a, d), e(b, d), e(c, d)", ", c < d"),
    "cycle": "q(a, b, c) :- e(a, b), e(b, c), e(c, a).",
    "four-cycle, one column": "q(a) :- e(a, b), e(b, c), e(c, d), e(d, a), a != c.",
    "loops": "q(a, b) :- e(a, b), e(b, a), e(a, a).",
    "negation": "q(a, b, c) :- e(a, b), e(b, c), !e(a, c), a != c.",
    "negation of the same row": "q(a, b) :- e(a, b), !e(b, a), !u(a).",
    "product": "q(a, b, c) :- u(a), f(b, c), b >= a.",
    "independent ends": "q(a) :- e(a, b), e(a, c), f(a, d), e(d, a), b <= d.",
    "path": "q(a, d) :- e(a, b), f(b, c), e(c, d).",
    "two triangles": "q(b) :- e(a, b), e(b, c), e(a, c), e(b, d), e(d, x), e(b, x), c != d.",
    "diamond": "q(a, b) :- e(a, b), f(a, c), f(b, c), f(a, d), f(b, d), c < d.",
    "three columns": "q(a, d) :- g(a, b, c), e(b, d), g(d, c, a).",
    "repeated atoms": "q(a, b) :- u(a), u(b), u(3), u(a), u(b), u(b).",
    "constants": "q(b, 7, b) :- e(3, b), g(b, 3, c), c > 1.",
}


def random_text(chance: random.Random, constants: list[int]) -> str:
    """A rule of one to four atoms, perhaps with a negated atom and comparisons."""
    names = ["a", "b", "c", "d", "f"][: chance.randint(2, 5)]

    def term() -> str:
        return str(chance.choice(constants)) if chance.random() < 0.1 else chance.choice(names)

    def atom(variables: list[str] | None = None) -> str:
        name = chance.choice(list(WIDTHS))
        terms = [chance.choice(variables) if variables else term() for _ in range(WIDTHS[name])]
        return f"{name}({', '.join(terms)})"

    body = [atom() for _ in range(chance.randint(1, 4))]
    bound = [name for name in names if any(name in text.partition("(")[2] for text in body)]
    if not bound:
        return random_text(chance, constants)
    if chance.random() < 0.4:
        body.append(f"!{atom(bound)}")
    for _ in range(chance.choice((0, 0, 1, 2))):
        right = chance.choice(bound) if chance.random() < 0.7 else str(chance.choice(constants))
        body.append(f"{chance.choice(bound)} {chance.choice(['<', '<=', '>', '>=', '!='])} {right}")
    head = chance.sample(bound, chance.randint(1, len(bound)))
    return f"q({', '.join(head)}) :- {', '.join(body)}."


def planned(text: str, bag: bool, strategy: str) -> DeltaQuery | None:
    """The query of a rule; None if it is not walked."""
    schema = {name: {f"c{i}": "int64" for i in range(width)} for name, width in WIDTHS.items() if f"{name}(" in text}
    with tune(off=frozenset({"projections"})):  # the rule stays as it is written
        program = gw.Program(text, backend="cpu", bag=bag, strategy=strategy, schema=schema)
    plan = program._planned()
    circuit = program._lowering.circuit(plan, program._execution())
    if find_obstacles(circuit) or plan.auxiliaries or len(plan.queries["q"]) != 1:
        return None
    return plan.queries["q"][0]


@dataclass
class Trial:
    """A random state and tick, as records and as dictionaries.

    Attributes
    ----------
    largest
        Weights of bags have at most this magnitude.
    sizes
        Rows drawn for a batch or a memtable.
    """

    chance: random.Random
    query: DeltaQuery
    bag: bool
    values: list[int]
    largest: int
    sizes: tuple[int, ...] = (0, 1, 4, 12)

    def __post_init__(self) -> None:
        chance, weighted = self.chance, self.bag
        read = {key.relation for key in self.query.keys}
        self.widths = {name: width for name, width in WIDTHS.items() if name in read}
        before: dict[str, Mapping[Row, int]] = {}
        batches, memtables = {}, {}
        for name, width in self.widths.items():
            rows: Counter[Row] = Counter()
            parts = []
            for _ in range(chance.randint(0, 3) + 1):
                part = {}
                for row in {self._row(width) for _ in range(chance.choice(self.sizes))}:
                    part[row] = self._weight() if self.bag else (-1 if row in rows else 1)
                    rows[row] += part[row]
                    if rows[row] == 0:
                        del rows[row]
                parts.append(part)
            batches[name], memtables[name] = parts[:-1], parts[-1]
            before[name] = rows
        self.expected = reference.Relations(before, weighted)
        self.memtables = memtables
        self.state = WalkedState(
            cpu_backend(compiled=True), self.widths, self.query.keys, batches, memtables, weighted, CAPACITY
        )

    def _row(self, width: int) -> Row:
        return tuple(self.chance.choice(self.values) for _ in range(width))

    def _weight(self) -> int:
        if self.largest > 8:
            weight, positive = self.chance.choice((self.largest - 1, self.largest)), 0.9
        else:
            weight, positive = self.chance.choice((1, 1, 2, 3, self.largest)), 0.7
        return weight if self.chance.random() < positive else -weight

    def tick(self) -> None:
        """Pass a random change to some of the relations."""
        chance = self.chance
        self.state.begin()
        for name, width in self.widths.items():
            if chance.random() < 0.2:
                continue
            operations: list[tuple[Row, int]] = []
            for _ in range(chance.choice((1, 1, 2, 6, 15) if len(self.values) < 9 else (1, 1, 2))):
                there = list(self.expected.before[name])
                row = chance.choice(there) if there and chance.random() < 0.5 else self._row(width)
                operations.append((row, self._weight() if self.bag else chance.choice((1, -1, -1, 0))))
            mode = "bag" if self.bag else "set"
            n = self.state.receive(name, operations, mode)
            assert n == self.expected.receive(name, operations, mode, CAPACITY)
            assert self.state.changes(name) == self.expected.changes[name]

    def check_tick_rows(self) -> None:
        """Compare the changed rows of each arrangement."""
        for key in self.state.keys:
            changes = self.expected.changes.get(key.relation, ())
            wanted = [
                reference.Change(tuple(change.row[column] for column in key.order), *_numbers(change))
                for change in changes
                if reference.passes_filter(key, change.row)
            ]
            assert self.state.tick_rows(key) == sorted(wanted, key=lambda change: change.row), key

    def walk(self, lists_rows: bool) -> Walk:
        """The walk of the query."""
        places = {key: self.state.places[key] for key in self.query.keys}
        return Walk(self.state.walker, WalkRecords(self.query, places, lists_rows), self.bag, 1 << 60)


def _numbers(change: reference.Change) -> tuple[int, int, int]:
    return change.weight, change.before, change.stamp


def summed(rows: list[tuple[Row, int]]) -> dict[Row, int]:
    """The rows with the sums of their weights modulo 2^64, without those of 0."""
    total: Counter[Row] = Counter()
    for row, weight in rows:
        total[row] = wrap(total[row] + weight)
    return {row: weight for row, weight in total.items() if weight}


def wrapped(rows: Mapping[Row, int]) -> dict[Row, int]:
    """The rows with their weights modulo 2^64, without those of 0."""
    return {row: wrap(weight) for row, weight in rows.items() if wrap(weight)}


def check_walks(trial: Trial, query: DeltaQuery, ended: Counter[int]) -> bool:
    """Compare both walks of a query with the reference; return whether a sum left int64."""
    wanted = reference.walk(query, trial.expected)
    after = reference.answer(query, trial.expected.after(), trial.bag)
    before = reference.answer(query, trial.expected.before, trial.bag)
    difference = Counter(after)
    difference.subtract(before)
    assert wanted.rows == {row: weight for row, weight in difference.items() if weight}
    counting, listing = trial.walk(False), trial.walk(True)
    for walk in (counting, listing):
        for out_rows, budget in ((1, 0), (3, 5), (256, 1 << 40)):
            driver = Driver(walk, trial.state, out_rows, budget)
            rows = driver.run()
            ended.update(driver.ended)
            magnitude = float(walk.magnitude[0])
            assert magnitude * (1 + 1e-6) >= wanted.magnitude
            if walk is listing:
                assert summed(rows) == wrapped(wanted.rows)
            else:
                assert walk.totals[:2].tolist() == list(map(wrap, wanted.totals))
    check_consolidated(trial, listing, wanted)
    return any(weight != wrap(weight) for weight in wanted.rows.values())


def check_consolidated(trial: Trial, walk: Walk, wanted: reference.Walked) -> None:
    """Compare the sorted result of a walk whose rows fit into one piece."""
    driver = Driver(walk, trial.state, 4096, 1 << 40)
    context = walk._begin(trial.state)
    assert trial.state.walker.walk(walk.address) == record.DONE
    spare, numbers = np.empty_like(driver.out), np.empty((2, 4096), np.int64)
    n = trial.state.walker.consolidate_rows(
        walk.address, address_of(spare), address_of(numbers), address_of(numbers[1])
    )
    rows = [(tuple(row), weight) for *row, weight in driver.out[:, :n].T.tolist()]
    ordered = sorted(wrapped(wanted.rows).items())
    if not trial.bag:
        ordered.sort(key=lambda item: item[1] > 0)
    assert rows == ordered
    assert context[record.RESULT] == (0 if trial.bag else sum(weight < 0 for _, weight in ordered))


def check_queries(texts: list[str], bag: bool, seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Counter[int], int]:
    """Walk rules over random states; return how calls ended, and how many results left int64."""
    needed("numba")
    monkeypatch.setattr(join_walk, "INITIAL_CAPACITY", 1)
    chance = random.Random(seed)
    ended: Counter[int] = Counter()
    n_large = n_walked = 0
    for text in texts:
        query = planned(text, bag, chance.choice(["auto", "wcoj", "binary"]))
        if query is None:
            continue
        for trial_number in range(3):
            n_bits = min(52, 62 // len(query.paths) - 2)  # five weights add up to a row's, and products stay in int64
            largest = 1 << (n_bits if trial_number == 2 else 3)
            trial = Trial(chance, query, bag, chance.choice(DOMAINS), largest)
            trial.tick()
            trial.check_tick_rows()
            try:
                n_large += check_walks(trial, query, ended)
            except AssertionError as error:
                raise AssertionError(f"{text} with seed {seed}, trial {trial_number}") from error
            n_walked += 1
    assert n_walked
    return ended, n_large


BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])


@pytest.mark.drawn("bag")
@BAGS
@pytest.mark.parametrize("name", TEXTS)
def test_walks_of_rules(name, bag, monkeypatch):
    check_queries([TEXTS[name]] * 4, bag, len(name), monkeypatch)


@pytest.mark.drawn("bag", "seed", share=3)
@BAGS
@pytest.mark.parametrize("seed", range(6))
def test_walks_of_rules_that_chance_writes(seed, bag, monkeypatch):
    chance = random.Random(seed)
    texts = [random_text(chance, chance.choice(DOMAINS)) for _ in range(25)]
    ended, _ = check_queries(texts, bag, seed, monkeypatch)
    assert {record.DONE, record.FULL, record.GROW, record.PAUSED} == set(ended)


def test_sums_that_leave_int64_are_taken_modulo_and_bounded_by_the_magnitude(monkeypatch):
    _, n_large = check_queries(["q(7) :- u(a), f(b, c)."] * 12, True, 3, monkeypatch)
    assert n_large


@pytest.mark.drawn("bag")
@BAGS
def test_walks_where_every_range_has_ranks(bag, monkeypatch):
    with rank_bitmaps.everywhere():
        check_queries(list(TEXTS.values()), bag, 1, monkeypatch)


@pytest.mark.drawn("bag")
@BAGS
@pytest.mark.parametrize("has_ranks", [False, True], ids=["searched", "ranked"])
@pytest.mark.parametrize("name", ["triangle of smaller ends", "clique of four", "diamond", "four-cycle, one column"])
def test_walks_over_many_common_values(name, has_ranks, bag):
    """Lists of common values are long enough to be marked by bits, and made late where few values ask for them."""
    needed("numba")
    query = planned(TEXTS[name], bag, "wcoj")
    assert query is not None
    for seed in range(2):
        chance = random.Random(seed)
        with rank_bitmaps.everywhere() if has_ranks else contextlib.nullcontext():
            trial = Trial(chance, query, bag, [i << 40 * seed for i in range(9)], 8, (0, 30))
            trial.tick()
            check_walks(trial, query, Counter())


def kept(bag: bool, seed: int) -> Trial:
    """A random state of some relations in several orders."""
    needed("numba")
    query = planned("q(a, c) :- e(a, b), e(b, c), f(c, a), g(a, b, 2), u(a), e(a, a).", bag, "auto")
    assert query is not None
    return Trial(random.Random(seed), query, bag, DOMAINS[seed % len(DOMAINS)], 8)


@pytest.mark.drawn("bag")
@BAGS
@pytest.mark.parametrize("seed", range(12))
def test_memtables_after_a_tick(seed, bag):
    trial = kept(bag, seed)
    trial.tick()
    present = {key: reference.arranged(key, trial.memtables[key.relation]) for key in trial.state.keys}
    wanted = {key: reference.merge(rows, trial.state.tick_rows(key)) for key, rows in present.items()}
    largest, merged = trial.state.merged()
    assert merged == wanted
    assert [list(rows) for rows in merged.values()] == [sorted(rows) for rows in merged.values()]
    assert largest == max(map(len, wanted.values()))
    for key, place in trial.state.places.items():
        assert memtable(trial.state.table[place], len(key.order)) == present[key]
    trial.state.begin()
    assert not any(trial.state.tick_rows(key) for key in trial.state.keys)
    trial.expected = reference.Relations(trial.expected.before, bag)
    trial.tick()


@BAGS
@pytest.mark.parametrize("mode", ["set", "bag", "is"])
def test_rows_that_a_relation_receives(mode, bag):
    for seed in range(20):
        trial = kept(bag, seed)
        chance = trial.chance
        trial.state.begin()
        for name, width in trial.widths.items():
            rows = [trial._row(width) for _ in range(chance.choice((0, 1, 8)))]
            rows = list(dict.fromkeys(rows)) if mode == "is" else rows
            operations = [(row, chance.choice((-3, -1, 1, 2) if mode == "is" else (-2, -1, 0, 1, 5))) for row in rows]
            n = trial.state.receive(name, operations, mode)
            assert n == trial.expected.receive(name, operations, mode, CAPACITY)
            assert trial.state.changes(name) == trial.expected.changes[name]
        trial.check_tick_rows()


@pytest.mark.parametrize("weight", [2**61 // CAPACITY - 1, 2**61 // CAPACITY, -(2**61 // CAPACITY), 2**62, LEAST + 1])
def test_weights_and_numbers_of_rows_that_are_refused(weight):
    trial = kept(True, 0)
    row, wanted = trial._row(2), 1 if abs(weight) < 2**61 // CAPACITY else -1
    trial.expected.before["e"] = {}
    trial.state.begin()
    assert trial.expected.receive("e", [(row, weight)], "bag", CAPACITY) == wanted
    assert trial.state.receive("e", [(row, weight)], "bag") == wanted
    assert trial.state.receive("e", [(row, 1)] * CAPACITY, "bag") == 1
    assert trial.state.receive("e", [(row, 1)] * (CAPACITY + 1), "bag") == -1


@pytest.mark.parametrize("before", [2**61 - 1, 2**61, -(2**61)])
def test_weights_before_a_tick_that_are_refused(before):
    needed("numba")
    state = WalkedState(cpu_backend(compiled=True), {"e": 2}, [], {"e": [{(1, 2): before}]}, {"e": {}}, True, CAPACITY)
    expected = reference.Relations({"e": {(1, 2): before}}, True)
    state.begin()
    for operations in ([((1, 2), 1)], [((1, 2), 1), ((1, 2), -1)], [((2, 1), 1)]):
        assert state.receive("e", operations, "bag") == expected.receive("e", operations, "bag", CAPACITY)


@pytest.mark.parametrize("seed", range(12))
def test_rows_whose_derivations_appear_or_end(seed):
    needed("numba")
    chance = random.Random(seed)
    rows = [(a, b) for a in range(4) for b in range(4)]
    counted = {row: chance.randint(1, 3) for row in rows if chance.random() < 0.5}
    before = {"n": counted, "h": dict.fromkeys(counted, 1)}
    batches = {name: [rows] for name, rows in before.items()}
    state = WalkedState(cpu_backend(compiled=True), {"n": 2, "h": 2}, [], batches, {"n": {}, "h": {}}, False, CAPACITY)
    expected = reference.Relations(before, False)
    state.begin()
    operations = [(row, max(chance.choice((-3, -1, 1, 2)), -counted.get(row, 0))) for row in chance.sample(rows, 9)]
    state.receive("n", operations, "bag")
    expected.receive("n", operations, "bag", CAPACITY)
    assert state.changes("n") == expected.changes["n"]
    presence = expected.presence("n")
    assert state.walker.derive_presence(address_of(state.context), 0, 1) == len(presence)
    assert state.passed("h") == presence
    assert state.receive("h", presence, "is") == expected.receive("h", presence, "is", CAPACITY)
    after = expected.after()
    assert set(after["h"]) == {row for row, weight in after["n"].items() if weight > 0}
