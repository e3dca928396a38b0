"""Views in SQL, to `gpu_wcoj.query.terms.Rules`."""

from gpu_wcoj.query.sql.parse import parse

__all__ = ["parse"]
