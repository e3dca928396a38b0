"""The most rows that a tick's delta queries can have, by the sizes of the relations alone."""

from __future__ import annotations

from collections.abc import Mapping

from bench.suite.catalogue import Made
from bench.suite.workload import Pattern
from gpu_wcoj.errors import BackendUnavailableError
from gpu_wcoj.planner.cost import Size, bound


def bound_rows(made: Made) -> float | None:
    """Per tick, on average; None where there is no pattern, or SciPy is missing.

    The bound of Atserias, Grohe and Marx of each delta query, the changed rows in the place of one atom, added up over
    the atoms. Rows that a tick changes count as there.
    """
    body = made.workload.pattern
    if body is None or not made.stream.ticks:
        return None
    rows: dict[str, float] = {name: len(one) for name, one in made.stream.state.items()}
    changed = [{name: len(change) for name, change in tick.items()} for tick in made.stream.ticks]
    mean = {name: sum(tick.get(name, 0) for tick in changed) / len(changed) for name in rows}
    if made.case.family == "arriving":  # half of the graph is there, on average
        rows = {name: sum(tick.get(name, 0) for tick in changed) / 2 for name in rows}
    try:
        return delta_bound(body, rows, mean)
    except BackendUnavailableError:
        return None


def delta_bound(body: Pattern, rows: Mapping[str, float], changes: Mapping[str, float]) -> float:
    """The bounds of all delta queries added up.

    Examples
    --------
    One edge more among 10,000 closes as many triangles as there are edges, at most, in each of the three places.

    >>> from bench.suite.catalogue import WORKLOADS
    >>> round(delta_bound(WORKLOADS["triangle"].pattern, {"e": 10_000}, {"e": 1}))
    30000
    """
    total = 0.0
    for seed in range(len(body.atoms)):
        sizes = [
            Size(variables, (changes if i == seed else rows)[relation])
            for i, (relation, variables) in enumerate(body.atoms)
        ]
        total += bound(sizes).rows
    return total
