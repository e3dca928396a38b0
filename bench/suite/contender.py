"""What keeps an answer up to date: the interface that the engine and every rival implement.

Each contender runs in a process of its own, on the same rows. The harness does, for every case,

1. build the contender on a tiny case of the same workload and run that, so that nothing is compiled later on;
2. build it again, `load` the state;
3. a first round: `prepare` and `tick` every tick, compare every count with the expected one, then take the ticks back;
4. timed rounds of the same ticks, if the answers were right; only `tick` is timed;
5. `close`.

A contender is listed in `bench.suite.registry`, by the name of a function that takes a `Setting` and returns one. That
function raises `MissingError` where a library or program is not there, and `NotForThisError` where the contender cannot
answer the query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench.suite.record import How, Work
from bench.suite.workload import State, Tick, Workload


class MissingError(RuntimeError):
    """A contender cannot run here; the message says what is missing."""


class NotForThisError(RuntimeError):
    """A contender cannot answer this query, or not in this way; the message says why."""


@dataclass(frozen=True)
class Setting:
    """What a contender is built for.

    Attributes
    ----------
    how
        ``count``: a tick finds by how many rows the answer changed; ``rows``: it makes all of these rows, in the memory
        of the process.
    threads
        That it may use, in all.
    folder
        Its own, empty, for whatever it writes.
    n_ticks
        How many ticks come before the first one is taken back.
    """

    workload: Workload
    how: How
    threads: int
    folder: Path
    n_ticks: int = 0


@dataclass(frozen=True)
class Outcome:
    """What a tick did.

    Attributes
    ----------
    net
        Rows by which the answer grew; below 0 where it shrank.
    seconds, cpu_seconds
        Where the contender measures its own, as a program in another process does, these count instead of the
        harness's.
    """

    net: int
    seconds: float | None = None
    cpu_seconds: float | None = None


@dataclass(frozen=True)
class About:
    """What is to be said of a contender, after it was built.

    Attributes
    ----------
    version
        Of the library or program; None for the engine.
    takes_deletions
        If not, every round starts from a new contender, and it is left out where ticks delete.
    depends_on_order
        Whether it is run with both orders of vertices, and the better one counts.
    notes
        What a reader of the record should know, such as the text of its statement.
    """

    version: str | None = None
    takes_deletions: bool = True
    depends_on_order: bool = True
    notes: Mapping[str, Any] = field(default_factory=dict)


class Contender(Protocol):
    """One way to keep an answer up to date."""

    @property
    def about(self) -> About:
        """Read once, after it was built."""
        ...

    def load(self, state: State) -> None:
        """Take in the state, once, before all ticks, with all that ticks will need: indices, counts, kept results."""
        ...

    def prepare(self, tick: Tick) -> Any:
        """Bring a tick's rows into the form that `tick` takes best; not timed. It must not look at them otherwise."""
        ...

    def tick(self, prepared: Any) -> Outcome:
        """Take a tick's changes, and find by how many rows the answer changed; the state is kept up to date as well."""
        ...

    def work(self) -> Work | None:
        """What the last tick counted; None where nothing counts. Not timed."""
        ...

    def count(self) -> int:
        """Rows of the whole answer now; not timed."""
        ...

    def digest(self) -> str | None:
        """A hash of all rows of the answer now, by `bench.suite.digest.digest`; None if it makes no rows. Not timed."""
        ...

    def state_bytes(self) -> int | None:
        """Memory that the state takes, where the contender can tell."""
        ...

    def close(self) -> None:
        """Let go of everything; it is called once, also after an error."""
        ...
