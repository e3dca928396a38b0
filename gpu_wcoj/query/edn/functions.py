"""Predicates, functions and aggregates that queries can call."""

from __future__ import annotations

COMPARISONS = {"=": "=", "==": "==", "!=": "!=", "not=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
"""Predicates that compare adjacent arguments, and the engine's comparison for each."""
TESTS = {"zero?": "=", "pos?": ">", "neg?": "<"}
"""Predicates that compare one number with 0."""
PARITY = {"even?": "=", "odd?": "!="}
"""Predicates that compare the remainder of a division by 2 with 0."""
PREDICATES = (*COMPARISONS, *TESTS, *PARITY, "missing?")

ARITHMETIC = {"+": "+", "-": "-", "*": "*", "/": "/", "quot": "/", "rem": "%"}
"""Functions of numbers, and the engine's name for each."""
FUNCTIONS = (*ARITHMETIC, "mod", "inc", "dec", "str", "count", "identity", "ground", "get-else")
ARGUMENTS = {
    "quot": (2, 2), "rem": (2, 2), "mod": (2, 2), "inc": (1, 1), "dec": (1, 1), "count": (1, 1), "identity": (1, 1),
    "ground": (1, 1), "get-else": (4, 4), "missing?": (3, 3), "+": (1, None), "*": (1, None), "-": (1, None),
    "/": (2, None), "str": (1, None),
    **dict.fromkeys(COMPARISONS, (2, None)), "!=": (2, 2), **dict.fromkeys((*TESTS, *PARITY), (1, 1)),
}  # fmt: skip
"""Minimum and maximum number of arguments; None for no maximum."""

AGGREGATES = {"count": "count", "count-distinct": "count", "sum": "sum", "min": "min", "max": "max", "avg": "mean"}
"""Aggregates of ``:find``, and the engine's name for each."""

CLAUSES = ("and", "or", "or-join", "not", "not-join")

CORE = "clojure.core/"
