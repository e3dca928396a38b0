"""The choice of the side on which a tick runs.

A tick of little work is cheaper on the CPU and one of much on the device; `CostModel` says where the two meet. If the
cheaper side is not ready, because it has a backlog or is not there yet, ticks run on the other one until what they
would have saved pays for making it ready. So making ready never costs more than as much again as it would have cost
to know the future.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np

from gpu_wcoj.backend import Backend, BackendName, select_backend
from gpu_wcoj.engine.compile import Compiler
from gpu_wcoj.engine.replicas import ALWAYS, ASSUMED, CostModel, Workload
from gpu_wcoj.errors import UsageError
from gpu_wcoj.routing.backlog import MAX_BACKLOG_TICKS
from gpu_wcoj.routing.sides import Replica, Replicas
from gpu_wcoj.units import format_bytes, part_of

BACKLOG_SHARE = 0.125
"""Maximum size of a backlog as a share of the twin's memory; a larger one is merged before the next tick."""

BUILD_SHARE = 0.75
"""Maximum size of a state, as a share of the twin's memory, for which a twin is built; it leaves room to grow."""


@dataclass(frozen=True)
class Route:
    """The rule for the side of a tick.

    Attributes
    ----------
    threshold
        Ticks of fewer given rows run on the twin; None if their expected costs decide.
    is_forced
        Whether they do whatever it costs to make the twin ready.
    source
        Where the threshold comes from, for people.
    """

    threshold: int | None
    is_forced: bool
    source: str

    @classmethod
    def from_option(cls, option: object, model: CostModel) -> Route:
        """Return the route of a user's option.

        Raises
        ------
        UsageError
            For anything but ``"auto"``, ``"device"``, ``"cpu"`` and whole numbers from 0.
        """
        if option == "auto":
            return cls(None, False, "measured on this machine" if model.is_measured else _ASSUMED)
        if option == "device":
            return cls(0, True, "as asked for")
        if option == "cpu":
            return cls(ALWAYS, True, "as asked for")
        if isinstance(option, (int, np.integer)) and not isinstance(option, bool) and option >= 0:
            return cls(min(int(option), ALWAYS), True, "as asked for")
        raise UsageError.invalid_value(
            "route",
            option,
            "'auto', 'device', 'cpu', or the number of changed rows from which a tick runs on the device",
        )


_ASSUMED = "assumed; not measured on this machine: gpu-wcoj calibrate"


def router_of(
    lowering: Compiler,
    primary: Backend,
    twin: BackendName | Backend | None,
    route: object,
    twin_memory: float | str | None,
) -> Router | None:
    """Return the router of a program with its state on `primary`; None without a twin."""
    Route.from_option(route, ASSUMED)
    there_is = _host_memory()
    memory = there_is // 4 if twin_memory is None else part_of(there_is, twin_memory, "twin_memory", "host")
    if twin is None and primary.device is None:
        return None
    twin_backend = select_backend("cpu" if twin is None else twin)
    model = (_measured(primary, twin_backend) if route == "auto" else None) or ASSUMED
    return Router(lowering, twin_backend, Route.from_option(route, model), model, memory)


def _host_memory() -> int:
    """Return the bytes of memory of the machine; a common size if the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 16 << 30


@dataclass(frozen=True, eq=False)
class Router:
    """Chooses the side of every tick, and makes it ready.

    Attributes
    ----------
    backend
        Of the twin.
    memory
        Bytes that the twin may take, with what it has still to take in. A state that is larger has no twin.
    """

    lowering: Compiler
    backend: Backend
    route: Route
    model: CostModel
    memory: int

    def described(self, values_per_row: float) -> str:
        """Describe where ticks run if joins propose so many values for a changed row."""
        threshold, at_rate = self.route.threshold, ""
        if threshold is None:
            threshold = self.model.threshold(values_per_row)
            at_rate = f" at {values_per_row:,.0f} values a row"
        if threshold == 0:
            ticks = "all ticks run on the device"
        elif threshold >= ALWAYS:
            ticks = f"all ticks run on the CPU{at_rate}"
        else:
            ticks = f"ticks of fewer than {threshold:,} rows run on the CPU{at_rate}"
        return f"{ticks} ({self.route.source}); the state there takes up to {format_bytes(self.memory)}"

    def routed(self, sides: Replicas, work: Workload) -> tuple[Replicas, Replica]:
        """Return the sides, and the side for a tick of that work, which is ready for it."""
        fits = self._fits(sides)
        sides = self._tended(sides) if fits else sides.without_twin()
        to_twin = fits and self.prefers_twin(work)
        if self._is_ready(sides, to_twin):
            return sides, _chosen(sides, to_twin)
        if not self.route.is_forced:
            credit = sides.credit + abs(self.model.saving(work))
            if credit < self._seconds_to_ready(sides, to_twin):
                return replace(sides, credit=credit), _chosen(sides, not to_twin)
        if not to_twin:
            sides = sides.with_primary()
        elif sides.twin is None:
            sides = sides.with_twin(self.lowering, self.backend)
        else:
            sides = sides.with_twin_up_to_date()
        return sides, _chosen(sides, to_twin)

    def reading(self, sides: Replicas, is_stored: bool) -> tuple[Replicas, Replica]:
        """Return the sides, and an up-to-date side to read a relation from.

        A relation that is joined afresh is worth the device, unless no tick is to run there.
        """
        if not is_stored and self.route.threshold != ALWAYS:
            sides = sides.with_primary()
        return sides, sides.ahead

    def prefers_twin(self, work: Workload) -> bool:
        """Return whether a tick of that work is for the twin, once it is ready."""
        if self.route.threshold is None:
            return self.model.saving(work) > 0
        return work.rows < self.route.threshold

    def _tended(self, sides: Replicas) -> Replicas:
        """Return the sides after merging backlogs that are too large."""
        if sides.twin is None:
            return sides
        for side in sides:
            if side.backlog.nbytes > BACKLOG_SHARE * self.memory or len(side.backlog.ticks) > MAX_BACKLOG_TICKS:
                return sides.up_to_date()
        return sides

    def _fits(self, sides: Replicas) -> bool:
        """Return True if the twin, or a twin to be built, keeps within its memory."""
        if sides.twin is not None:
            return sides.twin.nbytes <= self.memory
        return sides.primary.nbytes <= BUILD_SHARE * self.memory

    def _is_ready(self, sides: Replicas, to_twin: bool) -> bool:
        side = sides.twin if to_twin else sides.primary
        return side is not None and not side.backlog

    def _seconds_to_ready(self, sides: Replicas, to_twin: bool) -> float:
        if not to_twin:
            return self.model.device.take_in(sides.primary.backlog.n_rows)
        if sides.twin is None:
            return self.model.build_per_row * sides.primary.relation_rows
        return self.model.cpu.take_in(sides.twin.backlog.n_rows)


def _chosen(sides: Replicas, to_twin: bool) -> Replica:
    if not to_twin:
        return sides.primary
    assert sides.twin is not None
    return sides.twin


def _measured(primary: Backend, twin: Backend) -> CostModel | None:
    from gpu_wcoj.routing.store import stored_model  # and JSON, which a program on the CPU has no use for

    return stored_model(primary, twin)
