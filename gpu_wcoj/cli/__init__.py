"""The command ``gpu-wcoj``."""

from __future__ import annotations

from typing import Final

from cyclopts import Parameter

FLAG: Final = Parameter(negative="")
