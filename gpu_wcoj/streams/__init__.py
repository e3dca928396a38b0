"""User-defined circuits: streams of Z-sets, operators, and subcircuits with a fixpoint.

All operators are methods of a stream unless another owner is named. Methods called ``incremental_...`` map changes to
changes; in a subcircuit, they do so under nested time, (tick, iteration).

Linear
    On whole columns ``map``, ``flat_map``, ``filter``; on rows ``map_rows``, ``flat_map_rows``, ``filter_rows``;
    ``index_with``, ``inspect``, ``-s``, ``s + t``, ``s - t``; ``delay``, ``differentiate``, ``integrate``;
    ``trace(keys, timed=...)``, with ``delay`` and ``consolidate`` of a trace; of a subcircuit ``introduce`` (δ0) and
    ``eliminate`` (∫), ``hold`` (a constant) and ``export`` (the last value), ``feedback``.
Bilinear
    ``join`` with a stream or a trace, ``incremental_join``. Linear in the left stream: ``semijoin``, ``antijoin``,
    ``incremental_semijoin``, ``incremental_antijoin``. Linear in each atom: ``multiway(rule, streams)`` of a circuit or
    subcircuit, a worst-case optimal join of many streams.
Not linear
    ``distinct``, ``incremental_distinct``; ``outer_join(..., keep=...)``, ``incremental_outer_join``; with ``Count``,
    ``Sum``, ``Min``, ``Max``, ``Mean``, ``CountDistinct``, ``TopK``, ``Apply`` and ``ApplyRows``, ``aggregate(keys,
    ...)`` and ``incremental_aggregate``.
Of a circuit
    ``source``, ``sink``, ``step``; of subcircuits too, ``generate``, a function of time, and ``add(operator,
    *streams)`` for a user-defined subclass of ``Operator``.

Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_wcoj.streams.aggregators import Aggregator as Aggregator
    from gpu_wcoj.streams.aggregators import Apply as Apply
    from gpu_wcoj.streams.aggregators import ApplyRows as ApplyRows
    from gpu_wcoj.streams.aggregators import Count as Count
    from gpu_wcoj.streams.aggregators import CountDistinct as CountDistinct
    from gpu_wcoj.streams.aggregators import Max as Max
    from gpu_wcoj.streams.aggregators import Mean as Mean
    from gpu_wcoj.streams.aggregators import Min as Min
    from gpu_wcoj.streams.aggregators import Sum as Sum
    from gpu_wcoj.streams.aggregators import TopK as TopK
    from gpu_wcoj.streams.circuit import Circuit as Circuit
    from gpu_wcoj.streams.circuit import Stream as Stream
    from gpu_wcoj.streams.circuit import Subcircuit as Subcircuit
    from gpu_wcoj.streams.operator import Operator as Operator
    from gpu_wcoj.streams.operator import Time as Time
    from gpu_wcoj.streams.trace import TimedTrace as TimedTrace
    from gpu_wcoj.streams.trace import Trace as Trace

_HOME = {
    "Aggregator": "aggregators",
    "Apply": "aggregators",
    "ApplyRows": "aggregators",
    "Circuit": "circuit",
    "Count": "aggregators",
    "CountDistinct": "aggregators",
    "Max": "aggregators",
    "Mean": "aggregators",
    "Min": "aggregators",
    "Operator": "operator",
    "Stream": "circuit",
    "Subcircuit": "circuit",
    "Sum": "aggregators",
    "Time": "operator",
    "TimedTrace": "trace",
    "TopK": "aggregators",
    "Trace": "trace",
}
"""The module of each public name."""

__all__ = [
    "Aggregator", "Apply", "ApplyRows", "Circuit", "Count", "CountDistinct", "Max", "Mean", "Min", "Operator", "Stream",
    "Subcircuit", "Sum", "Time", "TimedTrace", "TopK", "Trace",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
