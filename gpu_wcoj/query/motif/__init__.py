"""Motifs, the graph patterns of GraphFrames, compiled to rules.

`parse.py` parses a motif's text into a `Motif` and expands variable-length edges; `condition.py` parses ``where``,
normalises it to disjoint conjunctions and translates those; `compile.py` writes rules over the vertices and the edges.
"""

from gpu_wcoj.query.motif.compile import CompiledMotif, Element, Graph, Semantics, compile_motif
from gpu_wcoj.query.motif.parse import Motif, parse

__all__ = ["CompiledMotif", "Element", "Graph", "Motif", "Semantics", "compile_motif", "parse"]
