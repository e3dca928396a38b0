"""Matches of motifs in tables, once or kept up to date.

`tables.py` holds the vertices and edges, `wanted.py` parses the requested columns, `matcher.py` runs the rules,
`matches.py` reads them.
"""

from gpu_wcoj.views.matcher import Matcher, find
from gpu_wcoj.views.matches import MatchChange

__all__ = ["Matcher", "MatchChange", "find"]
