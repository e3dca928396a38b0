# PyArrow makes many of its names at run time and ships no types: its names are of any type.
from typing import Any

def __getattr__(name: str) -> Any: ...
