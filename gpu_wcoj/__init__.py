"""Keep the answers of multi-way, cyclic join queries up to date while their relations change.

Incremental (insertions, deletions, exact weights), worst-case optimal, columnar.

Examples
--------
>>> import gpu_wcoj as gw
>>> program = gw.Program("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).")
>>> changes = program.step({"edge": gw.ZSet.from_rows([(1, 2), (2, 3), (1, 3)])})
>>> changes["triangle"].rows()
[((1, 2, 3), 1)]
"""

from gpu_wcoj.once import query
from gpu_wcoj.program import ChangeCount, Program, TickReport
from gpu_wcoj.zset.index import IndexedZSet
from gpu_wcoj.zset.zset import ZSet

__version__ = "0.1.0"

__all__ = ["ChangeCount", "IndexedZSet", "Program", "TickReport", "ZSet", "query"]
