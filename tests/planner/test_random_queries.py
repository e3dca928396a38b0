"""Random queries agree with DuckDB under every strategy as relations change."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from bench.suite.random_queries import Query, random_query
from bench.suite.random_rows import relations_within
from gpu_wcoj.planner.ir import STRATEGIES
from gpu_wcoj.planner.passes import PASSES
from tests.helpers.long_tests import IS_LONG
from tests.helpers.random_duckdb_queries import N_TICKS, Judge, check, random_script, rows_for
from tests.planner.examples import draft_program

N_QUERIES = 1000
N_BLOCKS = 8
TICKS = range(N_TICKS) if IS_LONG else (N_TICKS - 1,)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    found = Judge()
    yield found
    found.connection.close()


def queries(block: int) -> Iterator[Query]:
    return (random_query(seed) for seed in range(block, N_QUERIES, N_BLOCKS))


@pytest.mark.drawn("block", share=2)
@pytest.mark.parametrize("block", range(N_BLOCKS))
def test_answers_are_those_of_duckdb(block, judge):
    """One of ten of them, all where that may take long. Queries of about the same size share their rows."""
    alike: dict[tuple[int, bool], list[Query]] = defaultdict(list)
    for query in (one for one in queries(block) if IS_LONG or one.seed // N_BLOCKS % 10 == 0):
        alike[rows_for(query), query.is_textual].append(query)
    for bag in (False, True) if IS_LONG else (bool(block % 2),):
        for (n_rows, textual), group in alike.items():
            chance = random.Random(f"{block} {n_rows} {textual}")
            script = random_script(chance, n_rows, bag=bag, textual=textual, nulls=block in (2, 5))
            judge.load(script, TICKS, bag=bag, textual=textual)
            for query in group:
                turn = query.seed // N_BLOCKS
                options: dict[str, Any] = {"threads": 1, "chunk_rows": (None, None, 1, 7)[turn % 4]}
                if turn % 4 == 0:
                    names = random.Random(query.seed).sample(query.variables, len(query.variables))
                    options["order"] = {"h": names[: 1 + turn % 4]}
                for strategy in STRATEGIES if IS_LONG or turn % 25 == 0 else (STRATEGIES[turn % 3],):
                    check(judge, query, script, TICKS, bag=bag, strategy=strategy, **options)


@pytest.mark.drawn("block", share=2)
@pytest.mark.parametrize("block", range(N_BLOCKS))
def test_all_are_planned(block):
    """Ordinarily every tenth of them."""
    for query in islice(queries(block), 0, None, 1 if IS_LONG else 10):
        sizes = {name: 10.0 ** (1 + number) for number, name in enumerate(query.inputs)}
        text = replace(query, is_textual=False).text
        draft = draft_program(text, PASSES, strategy=STRATEGIES[query.seed // N_BLOCKS % 3], sizes=sizes)
        assert all(one.query is not None and len(one.query.paths) >= 1 for one in draft.rules)


def test_there_are_queries_of_all_kinds():
    found = [query for block in range(N_BLOCKS) for query in queries(block)]
    kinds = Counter(f"{len(query.atoms)} atoms" for query in found)
    kinds.update(f"{arity} columns" for query in found for arity in set(query.inputs.values()))
    kinds.update("cyclic" if query.is_cyclic else "acyclic" for query in found)
    kinds["negation"] = sum(bool(query.negated) for query in found)
    kinds["predicates"] = sum(bool(query.predicates) for query in found)
    kinds["self-join"] = sum(len({atom.relation for atom in query.atoms}) < len(query.atoms) for query in found)
    kinds["all variables kept"] = sum(set(query.variables) <= set(query.head) for query in found)
    assert min(kinds.values()) > 100, kinds
    assert len(kinds) == 6 + 4 + 2 + 4


def test_rows_for_a_benchmark_are_the_same_again_and_join_within_bounds():
    for seed in range(20):
        one, other = (relations_within(random_query(seed), 3, 400, 2000) for _ in range(2))
        assert all((one[name] == other[name]).all() and len(one[name]) <= 400 for name in one)
