"""Every pattern equals recomputation from scratch, answers and changes, after every tick of random scripts."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

import gpu_wcoj as gw
from gpu_wcoj.query.datalog import parse
from tests.helpers.answers import named
from tests.helpers.comparison import (
    arities,
    fed,
    random_script,
)
from tests.helpers.join_patterns import PATTERNS

BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
SOME = ("triangle of three relations", "4-cycle", "heads of heads", "wildcards on both sides", "two components")


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
