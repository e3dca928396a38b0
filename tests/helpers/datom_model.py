"""Datoms as a set of tuples, and what a transaction does to them: slow, obvious, and nothing of the packages."""

from __future__ import annotations

from typing import Any

Datom = tuple[int, str, Any]

ONE, MANY, REF = ":one", ":many", ":ref"
"""Attributes of the tests: one text, many integers, many references."""


class Refused(Exception):  # an answer, not a failure
    """A transaction that contradicts itself."""


def after(
    datoms: set[Datom], forms: list[tuple[Any, ...]], single: tuple[str, ...] = (ONE,), refs: tuple[str, ...] = (REF,)
) -> set[Datom]:
    """The datoms after ``("add", e, a, v)``, ``("retract", e, a, v)``, ``("retract", e, a)``, ``("entity", e)``.

    `single` are the attributes of one value, `refs` those that refer to entities.
    """
    adds: set[Datom] = set()
    gone: set[Datom] = set()
    for what, entity, *rest in forms:
        if what == "entity":
            gone |= {one for one in datoms if one[0] == entity or (one[1] in refs and one[2] == entity)}
        elif what == "retract" and len(rest) == 1:
            gone |= {one for one in datoms if one[:2] == (entity, rest[0])}
        else:
            (adds if what == "add" else gone).add((entity, *rest))
    if adds & gone:
        raise Refused
    places = [one[:2] for one in adds if one[1] in single]
    if len(set(places)) < len(places):
        raise Refused
    gone |= {one for one in datoms if one[:2] in set(places)}
    return (datoms - gone) | adds


def changes(before: set[Datom], now: set[Datom]) -> dict[Datom, int]:
    """What came and what went."""
    return {**dict.fromkeys(now - before, 1), **dict.fromkeys(before - now, -1)}


def written(forms: list[tuple[Any, ...]]) -> list[list[Any]]:
    """The forms as a database takes them."""
    names = {"add": ":db/add", "retract": ":db/retract", "entity": ":db/retractEntity"}
    return [[names[what], *rest] for what, *rest in forms]
