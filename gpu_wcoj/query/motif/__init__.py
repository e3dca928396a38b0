"""Motifs, the graph patterns of GraphFrames, compiled to rules.

`reading.py` parses a motif's text into a `Motif` (`pattern.py`) and rejects ambiguous motifs; `chains.py` expands
variable-length edges; `condition.py` parses ``where``, `cases.py` normalises it to disjoint conjunctions, and
`expressions.py` translates those; `compiling.py` writes rules over the vertices and the edges, with `way.py` for each
path expansion.
"""

from gpu_wcoj.query.motif.compile import CompiledMotif, Element, Graph, Semantics, compile_motif
from gpu_wcoj.query.motif.parse import Motif, parse

__all__ = ["CompiledMotif", "Element", "Graph", "Motif", "Semantics", "compile_motif", "parse"]
