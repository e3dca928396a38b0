"""Views in SQL, to `gpu_wcoj.query.ir.Rules`."""

from gpu_wcoj.query.sql.compiler import parse
from gpu_wcoj.query.sql.tail import check_tables

__all__ = ["check_tables", "parse"]
