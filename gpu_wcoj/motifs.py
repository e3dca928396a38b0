"""Motifs for the command line: what is asked of them, and a matcher fed as a program is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from gpu_wcoj.arrow.types import table_without_rows
from gpu_wcoj.errors import UsageError, listed, nearest
from gpu_wcoj.finding import Matcher
from gpu_wcoj.program import ChangeCount, TickReport
from gpu_wcoj.query.motif.form import SEMANTICS, Semantics
from gpu_wcoj.query.motif.reading import parse

if TYPE_CHECKING:
    from gpu_wcoj.explain.rendering import Format

MATCHES = "matches"
"""What the answer is called."""
TABLES = ("edges", "vertices")


@dataclass(frozen=True)
class MotifOptions:
    """What is asked of the matches of a motif; see `gpu_wcoj.find`.

    Attributes
    ----------
    where
        What columns have to satisfy, such as t.amount > 900.
    semantics
        What has to differ in a match: nothing in homomorphism, edges in edges-distinct, vertices in nodes-distinct.
    show
        What matches show, such as a.id,t.amount; by default all elements that have a name.
    id
        The vertices' column of names.
    src
        The edges' column of beginnings.
    dst
        The edges' column of ends.
    """

    where: str | None = None
    semantics: Semantics = "homomorphism"
    show: str | None = None
    id: str = "id"
    src: str = "src"
    dst: str = "dst"


class MotifProgram:
    """The matches of a motif, with what `gpu_wcoj.runner` asks of a program.

    Parameters
    ----------
    text
        The motif.
    tables
        Per table, names and types of its columns, None where not known: of ``edges`` and, where vertices have
        columns, of ``vertices``.
    asked
        What is asked of the matches.
    source
        What messages call the text.
    options
        Those of `gpu_wcoj.program.Program`.

    Raises
    ------
    UsageError
        If there are no edges, or other tables.
    GpuWcojError
        And as `gpu_wcoj.find`.
    """

    bag = True
    outputs = (MATCHES,)

    def __init__(
        self,
        text: str,
        tables: Mapping[str, Mapping[str, str | None]],
        motif_options: MotifOptions,
        source: str,
        **options: Any,
    ) -> None:
        for name in tables:
            if name not in TABLES:
                raise UsageError(f"a motif has {listed(TABLES)}, and no '{name}'.{nearest(name, TABLES)}")
        if "edges" not in tables:
            raise UsageError("a motif needs edges.\n  Give --input edges=PATH or --changes edges=PATH.")
        if motif_options.semantics not in SEMANTICS:
            raise UsageError(f"there is no semantics '{motif_options.semantics}'; there are {listed(SEMANTICS)}.")
        empty = {name: table_without_rows(columns) for name, columns in tables.items()}
        self.inputs = tuple(tables)
        self.matcher = Matcher(
            parse(text, source=source),
            vertices=empty.get("vertices"),
            edges=empty["edges"],
            where=motif_options.where,
            semantics=motif_options.semantics,
            columns=None if motif_options.show is None else [name.strip() for name in motif_options.show.split(",")],
            id=motif_options.id,
            src=motif_options.src,
            dst=motif_options.dst,
            **options,
        )
        self.rules = self.matcher.rules
        self._names = {name: tuple(columns) for name, columns in tables.items()}

    @property
    def last_tick(self) -> TickReport:
        """What the last tick did."""
        return self.matcher.program.last_tick

    def columns(self, relation: str) -> tuple[str, ...]:
        """Names of the columns of a table."""
        return self._names[relation]

    def arity(self, relation: str) -> int:
        """Number of columns of a table."""
        return len(self._names[relation])

    @property
    def analyze(self) -> bool:
        """Whether ticks are measured."""
        return self.matcher.program.analyze

    @analyze.setter
    def analyze(self, value: bool) -> None:
        self.matcher.program.analyze = value

    def step_counts(self, changes: Mapping[str, Any]) -> dict[str, ChangeCount]:
        """Take a tick and count how many matches came and went."""
        return {MATCHES: ChangeCount(None, None, self.matcher.apply_counted(**changes))}

    def step_pieces(self, changes: Mapping[str, Any], sink: Callable[[str, Any], None]) -> dict[str, ChangeCount]:
        """Take a tick and hand out how the matches change."""
        matches = self.matcher.step(changes)
        sink(MATCHES, matches)
        return {MATCHES: ChangeCount(None, None, matches.net)}

    def load(self, changes: Mapping[str, Any]) -> None:
        """Take a tick and do no more than the state needs."""
        self.matcher.load(**changes)

    def explain(
        self,
        *,
        analyze: bool = False,
        bounds: bool = False,
        statistics: str | PathLike[str] | None = None,
        format: Format = "text",  # noqa: A002  # as in Program.explain
    ) -> str:
        """How the matches are kept; see `gpu_wcoj.program.Program.explain`."""
        return self.matcher.explain(analyze=analyze, bounds=bounds, statistics=statistics, format=format)
