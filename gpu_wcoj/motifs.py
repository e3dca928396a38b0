"""Motifs for the command line: their options, and a matcher with a program's interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from gpu_wcoj.arrow.types import table_without_rows
from gpu_wcoj.errors import UsageError
from gpu_wcoj.program import ChangeCount, TickReport
from gpu_wcoj.query.motif.form import SEMANTICS, Semantics
from gpu_wcoj.query.motif.parse import parse
from gpu_wcoj.views import Matcher

if TYPE_CHECKING:
    from gpu_wcoj.explain.rendering import Format

MATCHES = "matches"
"""The name of the answer."""
TABLES = ("edges", "vertices")


@dataclass(frozen=True)
class MotifOptions:
    """Options for the matches of a motif; see `gpu_wcoj.find`.

    Attributes
    ----------
    where
        A condition on columns, such as t.amount > 900.
    semantics
        Distinct elements of a match: none in homomorphism, edges in edges-distinct, vertices in nodes-distinct.
    show
        Columns of the matches, such as a.id,t.amount; by default all named elements.
    id
        The vertices' key column.
    src
        The edges' source column.
    dst
        The edges' target column.
    """

    where: str | None = None
    semantics: Semantics = "homomorphism"
    show: str | None = None
    id: str = "id"
    src: str = "src"
    dst: str = "dst"


class MotifProgram:
    """The matches of a motif, with the interface that `gpu_wcoj.cli.run` needs of a program.

    Parameters
    ----------
    text
        The motif.
    tables
        Per table, names and types of its columns, None for an unknown type: of ``edges`` and, if vertices have
        columns, of ``vertices``.
    motif_options
        Options for the matches.
    source
        The name of the text in messages.
    options
        Options of `gpu_wcoj.program.Program`.

    Raises
    ------
    UsageError
        If there are no edges, or other tables.
    GpuWcojError
        Also every error of `gpu_wcoj.find`.
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
                raise UsageError.unknown_name("table of a motif", name, TABLES)
        if "edges" not in tables:
            raise UsageError.missing("a motif", "a table 'edges'", "Give --input edges=PATH or --changes edges=PATH.")
        if motif_options.semantics not in SEMANTICS:
            raise UsageError.unknown_name("semantics", motif_options.semantics, SEMANTICS)
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
        """The report of the last tick."""
        return self.matcher.program.last_tick

    def columns(self, relation: str) -> tuple[str, ...]:
        """Return the names of the columns of a table."""
        return self._names[relation]

    def arity(self, relation: str) -> int:
        """Return the number of columns of a table."""
        return len(self._names[relation])

    @property
    def analyze(self) -> bool:
        """True if ticks are measured."""
        return self.matcher.program.analyze

    @analyze.setter
    def analyze(self, value: bool) -> None:
        self.matcher.program.analyze = value

    def step_counts(self, changes: Mapping[str, Any]) -> dict[str, ChangeCount]:
        """Run a tick and count the matches that were added and removed."""
        return {MATCHES: ChangeCount(None, None, self.matcher.apply_counted(**changes))}

    def step_pieces(self, changes: Mapping[str, Any], sink: Callable[[str, Any], None]) -> dict[str, ChangeCount]:
        """Run a tick and pass the change of the matches to `sink`."""
        matches = self.matcher.step(changes)
        sink(MATCHES, matches)
        return {MATCHES: ChangeCount(None, None, matches.net)}

    def load(self, changes: Mapping[str, Any]) -> None:
        """Run a tick that only updates the state."""
        self.matcher.load(**changes)

    def explain(
        self,
        *,
        analyze: bool = False,
        bounds: bool = False,
        statistics: str | PathLike[str] | None = None,
        format: Format = "text",  # noqa: A002  # as in Program.explain
    ) -> str:
        """Return the plan of the motif; see `gpu_wcoj.program.Program.explain`."""
        return self.matcher.explain(analyze=analyze, bounds=bounds, statistics=statistics, format=format)
