"""Circuits of a few nodes for tests, and Z-sets as literals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gpu_wcoj as gw
from gpu_wcoj import streams
from gpu_wcoj.backend import Backend

Literal = Mapping[Any, int]


def zset(literal: Literal) -> gw.ZSet:
    """``{row: weight}``; a row that is not a tuple has one column."""
    return gw.ZSet.from_rows([(row if isinstance(row, tuple) else (row,), weight) for row, weight in literal.items()])


def literal(value: Any) -> dict[Any, int]:
    """A Z-set as ``{row: weight}``; rows of one column as that."""
    return {row[0] if len(row) == 1 else row: weight for row, weight in value.rows()}


def run(
    build: Callable[..., streams.Stream], ticks: Sequence[Sequence[Literal]], backend: Backend | str = "cpu"
) -> list[Any]:
    """Return the outputs of a circuit per tick; `build` makes it from one source per input."""
    circuit = streams.Circuit(backend=backend)
    sources = [circuit.source(f"s{i}") for i in range(len(ticks[0]))]
    circuit.sink("out", build(*sources))
    outputs = []
    for tick in ticks:
        out = circuit.step({f"s{i}": zset(rows) for i, rows in enumerate(tick)})["out"]
        outputs.append(literal(out) if isinstance(out, gw.ZSet) else out)
    return outputs


def once(build: Callable[..., streams.Stream], *inputs: Literal, backend: Backend | str = "cpu") -> Any:
    """Return the output of a circuit in its first tick."""
    return run(build, [inputs], backend)[0]
