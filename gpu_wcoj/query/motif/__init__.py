"""Motifs, the patterns of GraphFrames, as rules.

`reading.py` parses a motif's text into a `Motif` (`pattern.py`) and refuses what has no one meaning; `chains.py` spells
out edges of several hops; `condition.py` parses what ``where`` asks, and `cases.py` turns it into conjunctions of which
no two hold at once; `compiling.py` writes rules over the vertices and the edges.
"""

from gpu_wcoj.query.motif.compiling import Compiled, Semantics, compiled
from gpu_wcoj.query.motif.pattern import Motif
from gpu_wcoj.query.motif.reading import parse

__all__ = ["Compiled", "Motif", "Semantics", "compiled", "parse"]
