"""Views, and matches of motifs in tables, once or kept up to date.

`view.py` holds views and connections, `matcher.py` runs the rules of a motif over tables with row numbers,
`flat_motif.py` compiles a motif to rules over plain tables, `matches.py` reads the answers.
"""

from gpu_wcoj.views.matcher import Matcher, find
from gpu_wcoj.views.matches import MatchChange

__all__ = ["Matcher", "MatchChange", "find"]
