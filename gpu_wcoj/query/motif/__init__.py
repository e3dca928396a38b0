"""Motifs, the patterns of GraphFrames, as rules.

`reading.py` parses a motif's text into a `Motif` (`pattern.py`) and refuses what has no one meaning; `chains.py` spells
out edges of several hops; `condition.py` parses what ``where`` asks, and `cases.py` turns it into conjunctions of which
no two hold at once, which `expressions.py` writes down; `compiling.py` writes rules over the vertices and the edges,
one by one through `way.py`.
"""

from gpu_wcoj.query.motif.compiling import compiled
from gpu_wcoj.query.motif.form import Compiled, Element, Graph, Semantics
from gpu_wcoj.query.motif.pattern import Motif
from gpu_wcoj.query.motif.reading import parse

__all__ = ["Compiled", "Element", "Graph", "Motif", "Semantics", "compiled", "parse"]
