"""What programs change and answer, as dictionaries of rows and weights."""

from __future__ import annotations

import gpu_wcoj as gw
from gpu_wcoj.query.datalog import parse


def zset(weights):
    return gw.ZSet.from_rows(list(weights.items()))


def changes_of(program, **changes):
    return {name: found.to_dict() for name, found in program.step(changes).items()}


def answer_of(program, name="h"):
    return program.relation(name).to_dict()


def named(program):
    """Return the inputs of a text or of rules, for `inputs`: of a program that gets some of them in a later tick."""
    return (parse(program) if isinstance(program, str) else program).inputs
