"""Views in SQL, to `gpu_wcoj.query.rules.Rules`."""

from gpu_wcoj.query.sql.parse import parse

__all__ = ["parse"]
