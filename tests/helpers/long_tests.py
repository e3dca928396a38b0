"""Whether tests run at length: ``make test-long`` says so by ``TEST_LONG=1``.

Ordinary runs have a limit of time: they try every case, and a share of what chance makes of it.
"""

import os
from typing import Final

IS_LONG: Final = bool(os.environ.get("TEST_LONG"))
