"""Options that commands have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from gpu_wcoj.motifs import MotifOptions

TEXT: Final = Parameter(name="-e", help="The text of the program, instead of a file.", allow_leading_hyphen=True)
LANGUAGE: Final = Parameter(help="datalog, sql, motif or edn; if not said, by the file's suffix .dl .sql .motif .edn.")
DIALECT: Final = Parameter(help="The dialect of SQL: duckdb, postgres, spark, snowflake, bigquery, trino, ...")
FLAG: Final = Parameter(negative="")
FILES: Final = Parameter(negative="", allow_leading_hyphen=True)


@Parameter(name="*")
@dataclass
class Motif:
    """What is asked of the matches of a motif."""

    where: str | None = None
    """Of a motif: what columns have to satisfy, such as 't.amount > 900'."""
    semantics: Literal["homomorphism", "edges-distinct", "nodes-distinct"] = "homomorphism"
    """Of a motif: what has to differ in a match."""
    show: str | None = None
    """Of a motif: what matches show, such as a.id,t.amount; all elements that have names if not said otherwise."""
    id: str = "id"
    """Of a motif: the vertices' column of names."""
    src: str = "src"
    """Of a motif: the edges' column of beginnings."""
    dst: str = "dst"
    """Of a motif: the edges' column of ends."""


def motif_options(given: Motif | None) -> MotifOptions:
    """What is asked of the matches of a motif, with what stands in for what is not said."""
    from gpu_wcoj.motifs import MotifOptions

    return MotifOptions() if given is None else MotifOptions(**vars(given))
