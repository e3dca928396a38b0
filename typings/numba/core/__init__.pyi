# numba's decorators and types change what a function is: to a type checker its names are of any type.
from typing import Any

def __getattr__(name: str) -> Any: ...
