"""The interface of all answers that are kept up to date, from programs to subscriptions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, Self, overload, runtime_checkable

from gpu_wcoj.data.rows import Row
from gpu_wcoj.errors import counted, entry_point
from gpu_wcoj.program import Program
from gpu_wcoj.result import Result
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.explain.build import ArrangementStatistics
    from gpu_wcoj.explain.render import Format


@runtime_checkable
class Maintained(Protocol):
    """One or more answers that are kept up to date.

    Programs, views, connections, matchers, subscriptions of datoms and views of Spark have these members. With one
    answer, its value is returned; with several, a dict of values by output.

    Examples
    --------
    >>> from gpu_wcoj import Program, view
    >>> def sizes(answers: Maintained) -> str:
    ...     return f"{', '.join(answers.outputs)}: {answers.count()}"
    >>> text = "hop(a, c) :- edge(a, b), edge(b, c)."
    >>> sizes(Program(text)), sizes(view(text, edge=[(1, 2), (2, 3)]))
    ("hop: {'hop': 0}", 'hop: 1')
    """

    @property
    @abstractmethod
    def outputs(self) -> tuple[str, ...]:
        """The names of the answers."""
        ...

    @property
    @abstractmethod
    def columns(self) -> list[str] | dict[str, list[str]]:
        """The names of the columns."""
        ...

    @overload
    def snapshot(self, name: str) -> Result: ...

    @overload
    def snapshot(self, name: None = None) -> Result | dict[str, Result]: ...

    @abstractmethod
    def snapshot(self, name: str | None = None) -> Result | dict[str, Result]:
        """Return the answer, or the relation `name`, as a table."""
        ...

    @abstractmethod
    def rows(self) -> list[Row] | dict[str, list[Row]]:
        """Return the rows of the answer, as often as they occur."""
        ...

    @overload
    def count(self, name: str) -> int: ...

    @overload
    def count(self, name: None = None) -> int | dict[str, int]: ...

    @abstractmethod
    def count(self, name: str | None = None) -> int | dict[str, int]:
        """Return the number of rows of `snapshot`; they are not listed if that can be avoided."""
        ...

    @property
    @abstractmethod
    def progress(self) -> dict[str, Any]:
        """The last tick in plain numbers, which `json` can write."""
        ...

    @abstractmethod
    def explain(
        self,
        *,
        analyze: bool = False,
        bounds: bool = False,
        statistics: str | PathLike[str] | None = None,
        format: Format = "text",  # noqa: A002  # as in Program.explain
    ) -> str:
        """Return the plan."""
        ...

    @abstractmethod
    def statistics(self) -> tuple[ArrangementStatistics, ...]:
        """Return exact statistics of the stored relations."""
        ...

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """True after `close`."""
        ...

    @abstractmethod
    def close(self) -> None:
        """Free the memory; it may be closed twice, and is at the end of a ``with`` block."""
        ...

    @abstractmethod
    def __enter__(self) -> Self:
        """Return this object."""
        ...

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """Close this object."""
        ...


@runtime_checkable
class Updatable(Maintained, Protocol):
    """Maintained answers whose relations change by calls.

    Subscriptions and views of Spark follow a database and a stream instead.
    """

    def apply(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> Any:
        """Apply one tick's changes of relations; return the change of the answer, with weights."""
        ...

    def checkpoint(self, path: str | PathLike[str]) -> None:
        """Store the state in a folder, from which the class method ``restore`` reads it."""
        ...


# What is the same for all answers that a program computes.


@entry_point
class ProgramAnswers(Maintained, Protocol):
    """Answers of a program that something else owns and feeds."""

    @property
    @abstractmethod
    def program(self) -> Program:
        """The program that computes the answers."""
        ...

    def __repr__(self) -> str:
        if self.is_closed:
            return f"{type(self).__name__}, closed"
        return f"{type(self).__name__} of {self.program!r}, after {counted(self.program.last_tick.tick + 1, 'tick')}"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self) -> Any:
        """Return the rows of `snapshot`, as often as they occur.

        Examples
        --------
        >>> from gpu_wcoj import view
        >>> hops = view("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2), (2, 3)])
        >>> hops.rows()
        [(1, 3)]
        """
        present = self.snapshot()
        if isinstance(present, dict):
            return {name: answer.rows() for name, answer in present.items()}
        return present.rows()

    @property
    def progress(self) -> dict[str, Any]:
        """The last tick in plain numbers; see `Program.progress`."""
        return self.program.progress

    def explain(
        self,
        *,
        analyze: bool = False,
        bounds: bool = False,
        statistics: str | PathLike[str] | None = None,
        format: Format = "text",  # noqa: A002  # as in Program.explain
    ) -> str:
        """Return the plan, and that of answers that share its state; see `Program.explain`.

        Examples
        --------
        >>> from gpu_wcoj import view
        >>> hops = view("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2), (2, 3)])
        >>> "delta path 1: change of edge(a, b)" in hops.explain()
        True
        """
        return self.program.explain(analyze=analyze, bounds=bounds, statistics=statistics, format=format)

    def statistics(self) -> tuple[ArrangementStatistics, ...]:
        """Return exact statistics of the stored relations; see `Program.statistics`.

        Examples
        --------
        >>> from gpu_wcoj import view
        >>> hops = view("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2), (2, 3)])
        >>> {stored.relation: stored.rows for stored in hops.statistics()}
        {'edge': 2}
        """
        return self.program.statistics()


@entry_point
class SeveralAnswers(ProgramAnswers, Protocol):
    """Several answers of a program, by their names."""

    def _relation(self, name: str) -> ZSet:
        return self.program.relation(name)

    def _count(self, name: str) -> int:
        return self.program.count(name)

    @property
    def columns(self) -> dict[str, list[str]]:
        """The names of the columns of each output."""
        return {name: list(self.program.empty(name).names) for name in self.outputs}

    @overload
    def snapshot(self, name: str) -> Result: ...

    @overload
    def snapshot(self, name: None = None) -> dict[str, Result]: ...

    def snapshot(self, name: str | None = None) -> Result | dict[str, Result]:
        """Return a relation or an answer, or by default each output by its name, as a table.

        Examples
        --------
        >>> from gpu_wcoj import view
        >>> text = "out(a) :- edge(a, b). into(b) :- edge(a, b)."
        >>> ends = view(text, edge=[(1, 2)], outputs=["out", "into"])
        >>> {name: answer.rows() for name, answer in ends.snapshot().items()}, ends.snapshot("edge").rows()
        ({'out': [(1,)], 'into': [(2,)]}, [(1, 2)])
        """
        if name is None:
            return {output: Result(self._relation(output)) for output in self.outputs}
        return Result(self._relation(name))

    @overload
    def count(self, name: str) -> int: ...

    @overload
    def count(self, name: None = None) -> dict[str, int]: ...

    def count(self, name: str | None = None) -> int | dict[str, int]:
        """Return the number of rows of `snapshot`, without listing them if that can be avoided.

        Examples
        --------
        >>> from gpu_wcoj import view
        >>> text = "out(a) :- edge(a, b). into(b) :- edge(a, b)."
        >>> ends = view(text, edge=[(1, 2)], outputs=["out", "into"])
        >>> ends.count(), ends.count("edge")
        ({'out': 1, 'into': 1}, 1)
        """
        return {output: self._count(output) for output in self.outputs} if name is None else self._count(name)
