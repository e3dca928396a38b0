"""Additions of Soufflé to Datalog: types, records and sums, components, functors."""

from gpu_wcoj.query.souffle.components import Element, Scope, expand, first_token
from gpu_wcoj.query.souffle.rewriting import (
    FITTED,
    NIL_TERM,
    RECORD_TERM,
    Rewriting,
    has_open_calls,
    with_equivalences,
)
from gpu_wcoj.query.souffle.types import PRIMITIVES, RECORD, Definition, TypeDefinitionError, TypeTable, is_arrow

__all__ = [
    "FITTED",
    "NIL_TERM",
    "PRIMITIVES",
    "RECORD",
    "RECORD_TERM",
    "Definition",
    "Element",
    "Rewriting",
    "Scope",
    "TypeDefinitionError",
    "TypeTable",
    "expand",
    "first_token",
    "has_open_calls",
    "is_arrow",
    "with_equivalences",
]
