"""From data to a stream: what is there at first, and what each tick inserts and deletes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bench.suite.record import Kind
from bench.suite.workload import Change, Rows, State, Stream

Items = npt.NDArray[np.int64]

DELETED = {"insert": 0.0, "mixed": 0.5, "delete": 0.8}
"""The share of a tick's items that are deleted."""
RESERVE = 0.1
"""The share of all items that are not there at first, if ticks do not insert more."""


@dataclass(frozen=True, eq=False)
class Data:
    """Rows in items that come and go as a whole: an edge with its reverse, an order with its lines.

    Attributes
    ----------
    n_items
        Numbered from 0 on.
    rows_of
        The rows, per relation, that the items with these numbers consist of. No two items share a row.
    fixed
        Rows that are always there.
    weight
        How many of the rows that a change is said to have an item stands for: an edge is one, however many relations
        hold it, an order has some lines.
    degrees
        Of the vertices, where the data is a graph.
    """

    n_items: int
    rows_of: Callable[[Items], dict[str, Rows]]
    fixed: State = field(default_factory=dict)
    weight: float = 1.0
    degrees: npt.NDArray[np.int64] | None = None


class TooFewRowsError(ValueError):
    """The data has not as many items as the ticks take."""


def stream(data: Data, change_rows: int, kind: Kind, n_ticks: int, seed: int) -> Stream:
    """Draw the ticks; what one deletes was there before it, and no item comes back.

    Raises
    ------
    TooFewRowsError
        If there are too few items for so many ticks.

    Examples
    --------
    >>> data = Data(20, lambda items: {"r": np.stack([items, items + 1], axis=1)})
    >>> made = stream(data, 4, "mixed", 2, seed=1)
    >>> len(made.state["r"]), [(len(tick["r"].inserted), len(tick["r"].deleted)) for tick in made.ticks]
    (16, [(2, 2), (2, 2)])
    """
    size = max(1, round(change_rows / data.weight))
    n_deleted = round(size * DELETED[kind])
    n_inserted = size - n_deleted
    reserve = max(round(data.n_items * RESERVE), n_inserted * n_ticks)
    n_state = data.n_items - reserve
    if n_state < n_deleted * n_ticks or n_state < 1:
        raise TooFewRowsError(
            f"{n_ticks} ticks of {size:,} changed items need more than the {data.n_items:,} that there are."
        )
    order = np.random.default_rng(seed).permutation(data.n_items)
    present, arriving = order[:n_state], order[n_state:]
    leaving = np.random.default_rng(seed + 1).permutation(present)
    ticks = []
    for number in range(n_ticks):
        inserted = data.rows_of(arriving[number * n_inserted : (number + 1) * n_inserted])
        deleted = data.rows_of(leaving[number * n_deleted : (number + 1) * n_deleted])
        ticks.append({name: Change(inserted[name], deleted[name]) for name in inserted})
    state = data.rows_of(present)
    both = {name: np.concatenate([rows, state[name]]) for name, rows in data.fixed.items() if name in state}
    return Stream({**data.fixed, **state, **both}, tuple(ticks))
