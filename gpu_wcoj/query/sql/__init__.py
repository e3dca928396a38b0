"""Views in SQL, to `gpu_wcoj.query.ir.Rules`."""

from gpu_wcoj.query.sql.compiler import parse

__all__ = ["parse"]
