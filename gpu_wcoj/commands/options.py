"""Options that several commands have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from gpu_wcoj.motifs import MotifOptions

TEXT: Final = Parameter(name="-e", help="The text of the program, instead of a file.", allow_leading_hyphen=True)
LANGUAGE: Final = Parameter(help="datalog, sql, motif or edn; by default the suffix .dl .sql .motif .edn of the file.")
DIALECT: Final = Parameter(help="The dialect of SQL: duckdb, postgres, spark, snowflake, bigquery, trino, ...")
FLAG: Final = Parameter(negative="")
FILES: Final = Parameter(negative="", allow_leading_hyphen=True)


@Parameter(name="*")
@dataclass
class Motif:
    """Options for the matches of a motif."""

    where: str | None = None
    """For a motif: a condition on columns, such as 't.amount > 900'."""
    semantics: Literal["homomorphism", "edges-distinct", "nodes-distinct"] = "homomorphism"
    """For a motif: the elements that are distinct within a match."""
    show: str | None = None
    """For a motif: columns of the matches, such as a.id,t.amount; by default all named elements."""
    id: str = "id"
    """For a motif: the vertices' key column."""
    src: str = "src"
    """For a motif: the edges' source column."""
    dst: str = "dst"
    """For a motif: the edges' target column."""


def motif_options(options: Motif | None) -> MotifOptions:
    """Return the options for the matches of a motif, with defaults for missing ones."""
    from gpu_wcoj.motifs import MotifOptions

    return MotifOptions() if options is None else MotifOptions(**vars(options))
