"""What a text means is what its core form means."""

from __future__ import annotations

import random

import pytest

from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.desugar import desugar
from tests.helpers.long_tests import IS_LONG
from tests.reference.core import from_core, with_demands
from tests.reference.fixpoint import fixpoint
from tests.reference.program_text import written
from tests.reference.random_programs import INPUTS, chance_text


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("block", range(4))
def test_what_chance_writes(block, bag):
    for seed in range(block, 300 if IS_LONG else 16, 4):
        chance = random.Random(f"core {seed}")
        negative = seed % 3 > 0
        text = chance_text(chance, negative)
        values = (0, 1, 2, 3, -2, 7) if negative else (0, 1, 2, 3, 4, 7)
        program, rules = written(text), desugar(parse(text))
        for _ in range(2):
            given = {
                name: {
                    tuple(chance.choices(values, k=width)): chance.choice((1, 1, 2) if bag else (1,))
                    for _ in range(chance.randint(0, 9))
                }
                for name, width in INPUTS.items()
            }
            expected, found = fixpoint(program, given, bag), with_demands(from_core(rules), rules.demands, given, bag)
            assert {head: found[head] for head in expected} == expected, f"{seed}: {text}"


@pytest.mark.parametrize("seed", range(40))
def test_a_text_is_read_as_it_is_shown(seed):
    text = chance_text(random.Random(f"shown {seed}"))
    rules = parse(text)
    assert parse(str(rules)) == rules
