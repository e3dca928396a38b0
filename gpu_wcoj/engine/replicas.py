"""Costs of a tick on either side, by its changed rows and the values joins look at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from gpu_wcoj.kernels.protocol import PROPOSALS, Int64Array
from gpu_wcoj.planner.lower import Plan

ALWAYS = 1 << 62
"""A number of rows above that of any tick."""

Work = dict[str, dict[int, dict[int, dict[str, Int64Array]]]]
"""Per head, rule, delta path and variable, what the kernels counted; see `gpu_wcoj.kernels.protocol`."""

LEARNED_SHARE = 0.25
"""Weight of one tick in a learned ratio, from 0 to 1: about the last four ticks decide, whatever their size."""


class Workload(NamedTuple):
    """The work that a tick brings.

    Attributes
    ----------
    rows
        Changed rows that are given.
    values
        Values that joins are expected to propose for them.
    """

    rows: int
    values: float = 0.0


@dataclass(frozen=True)
class SideCosts:
    """Expected seconds on one side: ``fixed + per_row * rows + per_value * values``.

    Attributes
    ----------
    fixed, per_row, per_value
        Of a tick.
    take_in_fixed, take_in_per_row
        Of taking in a backlog.
    """

    fixed: float
    per_row: float
    per_value: float
    take_in_fixed: float
    take_in_per_row: float

    def tick(self, work: Workload) -> float:
        """Return the seconds of a tick."""
        return self.fixed + self.per_row * work.rows + self.per_value * work.values

    def take_in(self, n_rows: float) -> float:
        """Return the seconds of taking in a backlog."""
        return self.take_in_fixed + self.take_in_per_row * n_rows


@dataclass(frozen=True)
class CostModel:
    """The costs of both sides: a tick costs its own side's time and the other side's merge.

    The fixed part of taking in is shared by many ticks and counts only where a backlog stands before a tick.

    Attributes
    ----------
    device, cpu
        The primary side and its twin.
    build_per_row
        Seconds that a row of the state costs when a twin is built.
    is_measured
        Whether the costs were measured on this machine.
    """

    device: SideCosts
    cpu: SideCosts
    build_per_row: float
    is_measured: bool = True

    def saving(self, work: Workload) -> float:
        """Return the seconds that a tick saves on the twin if both are ready; negative for a loss.

        Examples
        --------
        >>> ASSUMED.saving(Workload(0)) > 0 > ASSUMED.saving(Workload(10**6))
        True
        >>> ASSUMED.saving(Workload(1_000)) > 0 > ASSUMED.saving(Workload(1_000, 10**6))
        True
        """
        there = self.device.tick(work) + self.cpu.take_in_per_row * work.rows
        here = self.cpu.tick(work) + self.device.take_in_per_row * work.rows
        return there - here

    def threshold(self, values_per_row: float = 0.0) -> int:
        """Return the number of rows from which on a tick no longer costs less on the twin.

        Parameters
        ----------
        values_per_row
            Values that joins propose for a changed row.

        Examples
        --------
        >>> ASSUMED.threshold(), ASSUMED.threshold(1_500)
        (30000, 169)
        """
        at_none = self.saving(Workload(0))
        slope = at_none - self.saving(Workload(1, values_per_row))
        if at_none <= 0:
            return 0
        return ALWAYS if slope <= 0 else min(ALWAYS, math.ceil(round(at_none / slope, 6)))

    def to_json(self) -> dict[str, Any]:
        """Return a form of the costs for a file."""
        return {"device": asdict(self.device), "cpu": asdict(self.cpu), "build_per_row": self.build_per_row}

    @classmethod
    def from_json(cls, data: Any) -> CostModel:
        """Read what `to_json` returned.

        Raises
        ------
        ValueError
            If it is anything else.
        """
        device, cpu, build_per_row = _fields(data, ("device", "cpu", "build_per_row"))
        return cls(_side(device), _side(cpu), _seconds(build_per_row))


def _side(data: Any) -> SideCosts:
    return SideCosts(*map(_seconds, _fields(data, [field.name for field in fields(SideCosts)])))


def _fields(data: Any, names: Sequence[str]) -> list[Any]:
    if not isinstance(data, Mapping) or set(data) != set(names):
        raise ValueError(f"the costs have other fields than expected: {', '.join(names)}")
    return [data[name] for name in names]


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ValueError(f"a cost is {value!r}, and not a number of seconds")
    return float(value)


ASSUMED = CostModel(
    device=SideCosts(3.3e-3, 0.0, 0.2e-9, 2e-3, 0.0),
    cpu=SideCosts(0.3e-3, 0.5e-6, 12e-9, 0.2e-3, 0.4e-6),
    build_per_row=0.4e-6,
    is_measured=False,
)
"""Seconds, until they are measured on the machine at hand.

Ticks whose joins propose nothing cross at 30,000 rows, as published figures of single operators do. A value costs the
CPU 7 to 20 ns (triangles, 4-cliques and 4-cycles, ticks of 1,000 and 10,000 edges on R-MAT graphs of scale 15, one
thread); its cost on a GPU is an estimate.
"""


def proposed_by(work: Work) -> int:
    """Return the values that all joins of a tick have proposed."""
    paths = (levels for rules in work.values() for paths in rules.values() for levels in paths.values())
    return sum(counted.item(PROPOSALS) for levels in paths for counted in levels.values())


@dataclass(eq=False)
class Forecast:
    """Values that ticks of a plan will propose: estimates corrected by recent ticks.

    A changed row is expected to propose what its relation's delta paths are estimated to propose, and one value more,
    so that something is expected where nothing is known. What changes of derived relations propose later in the tick,
    and what estimates get wrong, is in the correction.

    Attributes
    ----------
    plan
        The plan that the rates are of.
    rates
        Per relation, the values that a changed row of it is expected to propose.
    correction
        Values that recent ticks proposed, by those expected.
    values_per_row
        Values that recent ticks proposed for a changed row; before the first, the mean of the rates.
    """

    plan: Plan | None = None
    rates: Mapping[str, float] = field(default_factory=dict)
    correction: float = 1.0
    values_per_row: float = 1.0

    def follow(self, plan: Plan) -> None:
        """Take over the estimates of a plan; nothing happens if it is the present one."""
        if plan is self.plan:
            return
        rates: dict[str, float] = {}
        for head, queries in plan.queries.items():
            for query, paths in zip(queries, plan.estimates.get(head, ()), strict=False):
                for path, levels in zip(query.paths, paths, strict=False):
                    relation = path.seed.key.relation
                    rates[relation] = rates.get(relation, 0.0) + sum(level.proposed for level in levels[1:])
        self.plan, self.rates, self.correction = plan, rates, 1.0
        self.values_per_row = 1.0 + (sum(rates.values()) / len(rates) if rates else 0.0)

    def expected_work(self, rows: Mapping[str, int]) -> Workload:
        """Return the work that a tick of so many changed rows per relation is expected to bring."""
        return Workload(sum(rows.values()), self._expected(rows) * self.correction)

    def observe(self, rows: Mapping[str, int], work: Work) -> None:
        """Learn from a tick of so many changed rows per relation. O(levels of all delta paths)."""
        n_rows = sum(rows.values())
        if not n_rows:
            return
        values = n_rows + proposed_by(work)  # one for each row, as expected
        self.correction = _drawn_to(self.correction, values / self._expected(rows))
        self.values_per_row = _drawn_to(self.values_per_row, values / n_rows)

    def _expected(self, rows: Mapping[str, int]) -> float:
        return sum(n_rows * (1.0 + self.rates.get(relation, 0.0)) for relation, n_rows in rows.items())


def _drawn_to(learned: float, ratio: float) -> float:
    """Return a learned ratio after one more tick, by geometric means.

    Ratios span orders of magnitude.
    """
    return learned * math.pow(ratio / learned, LEARNED_SHARE)
