"""One-call queries: the answer once, nothing kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_wcoj.backend import BackendName
from gpu_wcoj.errors import UnknownRelationError
from gpu_wcoj.incoming import read_change
from gpu_wcoj.program import Program
from gpu_wcoj.query.terms import Rules
from gpu_wcoj.zset.zset import ZSet


def query(
    text: str | Rules,
    /,
    *,
    bag: bool = False,
    backend: BackendName = "auto",
    threads: int | None = None,
    **relations: Any,
) -> ZSet | dict[str, ZSet]:
    """The answer of a program over tables, lists or arrays: a ZSet, or a dict of them if there are several outputs.

    Every column of a table is data, also one called ``weight``. A `ZSet` keeps its weights. Relations that are not
    given are refused. The answer's weights are left out of exports where all are 1.

    Examples
    --------
    >>> query("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2), (2, 3)]).to_arrow().to_pydict()
    {'a': [1], 'c': [3]}
    """
    program = Program(text, bag=bag, backend=backend, threads=threads)
    for name in program.inputs:
        if name not in relations:
            raise UnknownRelationError(name, relations, "relations given")
    changes: dict[str, Any] = {}
    for name, data in relations.items():
        if isinstance(data, ZSet) or name not in program.inputs:
            changes[name] = data
            continue
        arity = program.arity(name)
        declared = program.declared.get(name)
        changes[name] = read_change(
            name, data, arity, declared, [None] * arity, program.dictionaries, reserves_weight=False
        )
    answers = {name: _plain(answer) for name, answer in program.step(changes).items()}
    return next(iter(answers.values())) if len(answers) == 1 else answers


def _plain(answer: ZSet) -> ZSet:
    return answer.with_weight_name(None) if bool(np.all(answer.weights == 1)) else answer
