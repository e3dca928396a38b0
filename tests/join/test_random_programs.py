"""Every pattern equals recomputation from scratch, answers and changes, after every tick of random scripts."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.query.datalog import parse
from tests.helpers import rank_bitmaps
from tests.helpers.answers import named
from tests.helpers.join_comparison import (
    VALUES,
    Reference,
    Rows,
    Script,
    arities,
    check_script,
    check_scripts,
    fed,
    random_script,
    random_text,
)
from tests.helpers.join_patterns import ARITIES, GRAPHS, PATTERNS
from tests.helpers.long_tests import IS_LONG
from tests.reference.changes import ZSet, plus

TRIANGLE_SEEDS = 300 if IS_LONG else 18
TRIANGLE_BLOCKS = 6
OTHER_SEEDS = 8 if IS_LONG else 2
BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
SOME = ("triangle of three relations", "4-cycle", "heads of heads", "wildcards on both sides", "two components")


@pytest.mark.drawn("bag", "block", share=4)
@BAGS
@pytest.mark.parametrize("block", range(TRIANGLE_BLOCKS))
@pytest.mark.parametrize("name", ["triangle", "triangle of three relations"])
def test_triangles(name, block, bag, backend):
    check_scripts(PATTERNS[name], range(block, TRIANGLE_SEEDS, TRIANGLE_BLOCKS), bag=bag, backend=backend.name)


@pytest.mark.drawn("bag")
@BAGS
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name, bag, backend):
    check_scripts(PATTERNS[name], range(OTHER_SEEDS), bag=bag, backend=backend.name)


@pytest.mark.drawn("bag", "name", share=6)
@BAGS
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_where_every_range_has_ranks(name, bag):
    with rank_bitmaps.everywhere():
        check_scripts(PATTERNS[name], range(2 if IS_LONG else 1), bag=bag, backend="cpu")


@pytest.mark.drawn("bag")
@BAGS
@pytest.mark.parametrize("block", range(4))
def test_programs_that_chance_writes(block, bag, backend):
    for seed in range(block, 200 if IS_LONG else 40, 4):
        text = random_text(random.Random(seed))
        values = {0: None} if seed % 5 == 0 else None
        check_scripts(text, [seed], bag=bag, backend=backend.name, values=values, keep=parse(text).heads[: seed % 3])


@pytest.mark.drawn("bag", "name", share=6)
@BAGS
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_with_nulls(name, bag, backend):
    check_scripts(PATTERNS[name], range(3 if IS_LONG else 1), bag=bag, backend=backend.name, values={0: None})


@pytest.mark.drawn("bag", "name", share=6)
@BAGS
@pytest.mark.parametrize("name", {**GRAPHS, **ARITIES})
def test_patterns_over_text(name, bag, backend):
    texts = dict(zip(VALUES, ("b", "", "größe", "a\x00", None, "B"), strict=True))
    seeds = range(3 if IS_LONG else 2)
    check_scripts(PATTERNS[name], seeds, bag=bag, backend=backend.name, values=texts, kind=pa.string())


@pytest.mark.drawn("bag", "name", share=6)
@BAGS
@pytest.mark.parametrize("name", PATTERNS)
def test_from_the_empty_state(name, bag, backend):
    inputs = arities(PATTERNS[name])
    for seed in range(3 if IS_LONG else 2):
        script = random_script(random.Random(f"load {name} {seed}"), inputs)
        loaded = {relation: ("rows", _rows_of(script, relation)) for relation in inputs}
        check_script(PATTERNS[name], [loaded], bag=bag, backend=backend.name)


def _rows_of(script: Script, relation: str) -> Rows:
    return [pair for tick in script for pair in tick.get(relation, ("rows", []))[1]]


def _changes_of(program: gw.Program, script: Script) -> dict[str, ZSet]:
    """The sum of all changes that `script` makes."""
    inputs = {name: program.arity(name) for name in program.inputs}
    total: dict[str, ZSet] = {name: {} for name in program.outputs}
    for tick in script:
        changes = program.step({name: fed(change, inputs[name]) for name, change in tick.items()})
        total = {name: plus(total[name], zset.to_dict()) for name, zset in changes.items()}
    return total


@pytest.mark.parametrize("name", SOME)
def test_one_big_tick_is_the_same_rows_one_per_tick(name, backend):
    text = PATTERNS[name]
    for seed, bag in itertools.product(range(4), (False, True)):
        shuffle = random.Random(f"{name} {seed}")
        script = random_script(shuffle, arities(text))
        batch = {relation: ("rows", _rows_of(script, relation)) for relation in arities(text)}
        singles = [{relation: ("rows", [pair])} for relation, (_, rows) in batch.items() for pair in rows]
        if bag:
            shuffle.shuffle(singles)
        programs = [gw.Program(text, inputs=named(text), bag=bag, backend=backend.name) for _ in range(2)]
        assert _changes_of(programs[0], [batch]) == _changes_of(programs[1], singles)
        for head in programs[0].heads:
            assert programs[0].relation(head) == programs[1].relation(head)


@pytest.mark.drawn("bag")
@BAGS
@pytest.mark.parametrize("name", SOME)
def test_chunks_and_threads_do_not_change_a_bit(name, bag, backend):
    text = PATTERNS[name]
    inputs = arities(text)
    script = random_script(random.Random(name), inputs)
    found = []
    for chunk_rows, threads in itertools.product((None, 1, 2, 7), (1, 2)):
        program = gw.Program(
            text, inputs=named(text), bag=bag, backend=backend.name, chunk_rows=chunk_rows, threads=threads
        )
        ticks = [program.step({name: fed(change, inputs[name]) for name, change in tick.items()}) for tick in script]
        ticks.append({head: program.relation(head) for head in program.heads})
        found.append([{name: zset.rows() for name, zset in tick.items()} for tick in ticks])
    assert all(other == found[0] for other in found)


@pytest.mark.drawn("bag")
@BAGS
@pytest.mark.parametrize("name", [*SOME, "house", "4-clique", "1 to 4", "greater", "variable twice beside a join"])
def test_the_order_of_a_body_does_not_change_a_bit(name, bag, backend):
    rules = parse(PATTERNS[name])
    inputs = arities(PATTERNS[name])
    shuffle = random.Random(name)
    script = random_script(shuffle, inputs)
    found = []
    for _ in range(6):
        program = gw.Program(rules, inputs=named(rules), bag=bag, backend=backend.name)
        ticks = [program.step({name: fed(change, inputs[name]) for name, change in tick.items()}) for tick in script]
        found.append([{name: zset.to_dict() for name, zset in tick.items()} for tick in ticks])
        bodies = [shuffle.sample(rule.atoms, len(rule.atoms)) for rule in rules.rules]
        both = zip(rules.rules, bodies, strict=True)
        rules = replace(rules, rules=tuple(replace(rule, atoms=tuple(atoms)) for rule, atoms in both))
    assert all(other == found[0] for other in found)


@pytest.mark.drawn("bag", "name", share=6)
@BAGS
@pytest.mark.parametrize("name", PATTERNS)
def test_inserting_and_deleting_everything_leaves_nothing(name, bag, backend):
    text = PATTERNS[name]
    inputs = arities(text)
    program = gw.Program(text, inputs=named(text), bag=bag, backend=backend.name)
    reference = Reference(text, bag)
    for tick in random_script(random.Random(f"empty {name}"), inputs):
        changes = {relation: fed(change, inputs[relation]) for relation, change in tick.items()}
        program.step(changes)
        reference.step(tick)
    last = {name: zset.to_dict() for name, zset in program.step(_taking_back(reference, inputs)).items()}
    for head in program.heads:
        assert len(program.relation(head)) == 0
    for output in program.outputs:
        assert program.count(output) == 0
        assert last[output] == {row: -weight for row, weight in reference.heads[output].items()}
    for relation in inputs:
        assert len(program.relation(relation)) == 0


def _taking_back(reference: Reference, inputs: dict[str, int]) -> dict[str, object]:
    return {
        name: fed(("rows", [(row, -weight) for row, weight in reference.state[name].items()]), arity)
        for name, arity in inputs.items()
    }


class TestWhatALevelByLevelDeltaLoses:
    """A delta that applies the two-relation rule afresh at every variable misses or multiplies these."""

    @BAGS
    @pytest.mark.parametrize("last", [(1, 2), (2, 3), (1, 3)])
    def test_each_edge_of_a_triangle_arrives_and_leaves_last(self, last, bag, backend):
        program = gw.Program(PATTERNS["triangle"], bag=bag, backend=backend.name)
        others = [edge for edge in ((1, 2), (2, 3), (1, 3)) if edge != last]
        assert program.step({"e": gw.ZSet.from_rows(others)})["h"].to_dict() == {}
        assert program.step({"e": gw.ZSet.from_rows([last])})["h"].to_dict() == {(1, 2, 3): 1}
        assert program.step({"e": gw.ZSet.from_rows([(last, -1)])})["h"].to_dict() == {(1, 2, 3): -1}
        assert program.relation("h").to_dict() == {}

    @BAGS
    @pytest.mark.parametrize("names", [("p", "q"), ("q", "p")])
    def test_two_attributes_of_one_entity_arrive_in_different_ticks(self, names, bag, backend):
        program = gw.Program("h(x, a, b) :- p(x, a), q(x, b).", inputs=["p", "q"], bag=bag, backend=backend.name)
        attribute = {"p": 10, "q": 20}
        assert program.step({names[0]: gw.ZSet.from_rows([(1, attribute[names[0]])])})["h"].to_dict() == {}
        changes = program.step({names[1]: gw.ZSet.from_rows([(1, attribute[names[1]])])})
        assert changes["h"].to_dict() == {(1, 10, 20): 1}

    @BAGS
    def test_two_relations_change_on_a_key_that_exists(self, bag, backend):
        program = gw.Program("h(x, a, b) :- p(x, a), q(x, b).", bag=bag, backend=backend.name)
        program.step({"p": gw.ZSet.from_rows([(1, 10)]), "q": gw.ZSet.from_rows([(1, 20)])})
        changes = program.step({"p": gw.ZSet.from_rows([(1, 11)]), "q": gw.ZSet.from_rows([(1, 21)])})
        assert changes["h"].to_dict() == {(1, 10, 21): 1, (1, 11, 20): 1, (1, 11, 21): 1}

    def test_two_relations_change_their_weight_on_a_key_that_exists(self, backend):
        program = gw.Program("h(x) :- p(x), q(x).", bag=True, backend=backend.name)
        program.step({"p": gw.ZSet.from_rows([(1,)]), "q": gw.ZSet.from_rows([(1,)])})
        changes = program.step({"p": gw.ZSet.from_rows([(1,)]), "q": gw.ZSet.from_rows([(1,)])})
        assert changes["h"].to_dict() == {(1,): 3}
        assert program.relation("h").to_dict() == {(1,): 4}

    def test_all_three_relations_of_a_triangle_change_on_keys_that_exist(self, backend):
        program = gw.Program(PATTERNS["triangle of three relations"], bag=True, backend=backend.name)
        rows = {"r": [(1, 2)], "s": [(2, 3)], "t": [(1, 3)]}
        changes = {name: gw.ZSet.from_rows(own) for name, own in rows.items()}
        assert [program.step(changes)["h"].to_dict()[1, 2, 3] for _ in range(4)] == [1, 7, 19, 37]


@pytest.mark.usefixtures("large_ticks")
@pytest.mark.parametrize("n_seeds", [1, 3])
def test_rows_of_a_later_batch_are_found(n_seeds):
    """A few rows behind many stay a batch of their own, in which a tick path by path looks as well."""
    program = gw.Program("h(a, d) :- r(a, b), s(b, c), t(c, d).")
    program.load({"r": [(-1, -1)], "s": [(b, b) for b in range(5000)], "t": [(c, -c) for c in range(6000)]})
    program.step({"s": [(5000 + seed, 5000) for seed in range(n_seeds)]})
    assert program.state_rows["s[0, 1]"] == [5000, n_seeds]
    changes = program.step({"r": [(seed, 5000 + seed) for seed in range(n_seeds)]})
    assert changes["h"].to_dict() == {(seed, -5000): 1 for seed in range(n_seeds)}
