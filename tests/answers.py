"""What programs change and answer, as dictionaries of rows and weights."""

from __future__ import annotations

import gpu_wcoj as gw


def zset(weights):
    return gw.ZSet.from_rows(list(weights.items()))


def changes_of(program, **changes):
    return {name: found.to_dict() for name, found in program.step(changes).items()}


def answer_of(program, name="h"):
    return program.relation(name).to_dict()
