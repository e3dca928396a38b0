# python-graphblas fills its modules when they are first used and ships no types: its names are of any type.
from typing import Any

def __getattr__(name: str) -> Any: ...
