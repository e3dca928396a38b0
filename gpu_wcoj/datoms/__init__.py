"""Databases of datoms: transactions, queries in EDN, and subscriptions to answers.

Examples
--------
>>> from gpu_wcoj import datoms
>>> db = datoms.Database()
>>> live = db.subscribe("[:find ?a ?c :where [?a :to ?b] [?b :to ?c]]")
>>> report = db.transact([[":db/add", 1, ":to", 2], [":db/add", 2, ":to", 3]])
>>> live.changes()[-1].rows()
[((1, 3), 1)]
"""

from gpu_wcoj.datoms.database import Database
from gpu_wcoj.datoms.schema import Keyword
from gpu_wcoj.datoms.store import Report
from gpu_wcoj.datoms.subscription import Subscription

__all__ = ["Database", "Keyword", "Report", "Subscription"]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
