"""Motifs over tables: what they match, once or kept up to date.

`tables.py` holds the vertices and edges, `wanted.py` reads which columns are asked for, `matcher.py` runs the rules,
`matches.py` is what comes out.
"""

from gpu_wcoj.finding.calls import find
from gpu_wcoj.finding.matcher import Matcher
from gpu_wcoj.finding.matches import Matches

__all__ = ["Matcher", "Matches", "find"]
