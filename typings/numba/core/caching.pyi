# What cpu_fallback/runtime.py builds on.
from typing import Any

class CompileResultCacheImpl:
    _locator_classes: Any

class FunctionCache:
    _impl_class: Any
    _impl: Any
    cache_path: str
    def __init__(self, py_func: Any) -> None: ...
    def load_overload(self, sig: Any, target_context: Any) -> Any: ...
    def flush(self) -> None: ...
    def save_overload(self, sig: Any, data: Any) -> None: ...
