"""Attributes of entities as nested maps, by patterns."""

from __future__ import annotations

from typing import Any

from gpu_wcoj.datoms.store import Store
from gpu_wcoj.errors import UsageError
from gpu_wcoj.query.edn.ast import PulledAttribute, PullPattern

ID = ":db/id"
MAX_LEVELS = 200
"""Levels of entities below each other in a result, at most, so that Python can print it."""
_ALL = PullPattern((), is_all=True)


def pull(store: Store, pattern: PullPattern, entity: int) -> dict[Any, Any] | None:
    """Return what a pattern reads of an entity; None if the entity has none of it.

    References are maps with the id, or with what the pattern reads of them; those by component attributes have all
    attributes. An entity that is read again below itself has its id only.
    """
    return _pulled(store, pattern, entity, frozenset()) or None


def _pulled(store: Store, pattern: PullPattern, entity: int, above: frozenset[int]) -> dict[Any, Any]:
    if len(above) >= MAX_LEVELS:
        raise UsageError.with_parts(
            f"the pattern reads more than {MAX_LEVELS} entities below each other",
            remedy=f"Write the number of levels instead of '...', at most {MAX_LEVELS}.",
        )
    result: dict[Any, Any] = {}
    attributes = list(pattern.attributes)
    if pattern.is_all:
        named = {each.name for each in attributes if not each.is_reverse}
        others = [attribute.name for attribute in store.typed() if attribute.name not in named]
        attributes += [PulledAttribute(name, False, name) for name in sorted(others)]
    for attribute in attributes:
        value = _value(store, pattern, attribute, entity, above | {entity})
        if value is not None and value != []:
            result[attribute.key] = value
        elif attribute.default is not None:
            result[attribute.key] = attribute.default
    if pattern.is_all and result:
        result = {ID: entity, **result}
    return result


def _value(store: Store, pattern: PullPattern, attribute: PulledAttribute, entity: int, above: frozenset[int]) -> Any:
    """Return the value of an attribute, or the list of its values; None if it has none."""
    if attribute.name == ID:
        return entity
    schema = store.attribute(attribute.name)
    if schema.type is None:
        return None
    is_single = not schema.many
    if attribute.is_reverse:
        is_single = schema.component  # a component belongs to one entity
        values: list[Any] = sorted(store.entities(attribute.name, entity)) if schema.type == "ref" else []
    else:
        values = store.sorted_values(entity, schema)
    values = values[: 1 if is_single else attribute.limit]
    if schema.type == "ref":
        inner, deeper = _inner(pattern, attribute, schema.component and not attribute.is_reverse)
        values = [found for each in values if (found := _referred(store, inner, deeper, each, above))]
    return (values[0] if values else None) if is_single else values


def _inner(
    pattern: PullPattern, attribute: PulledAttribute, is_component: bool
) -> tuple[PullPattern | None, PulledAttribute | None]:
    """Return what is read of the entities that an attribute refers to.

    That is a pattern, or None for their ids, and the attribute with the depth below them, or None.
    """
    if attribute.pattern is not None or attribute.depth == 0:
        return attribute.pattern or (_ALL if is_component else None), None
    depth = attribute.depth and attribute.depth - 1
    others = tuple(each for each in pattern.attributes if each is not attribute)
    if depth == 0:
        return PullPattern(others, pattern.is_all), None
    below = PulledAttribute(
        attribute.name, attribute.is_reverse, attribute.key, None, depth, attribute.limit, attribute.default
    )
    return PullPattern((*others, below), pattern.is_all), below


def _referred(
    store: Store, pattern: PullPattern | None, below: PulledAttribute | None, entity: int, above: frozenset[int]
) -> dict[Any, Any]:
    """Return what a pattern reads of an entity that another one refers to."""
    if pattern is None or (entity in above and (below is not None or pattern is _ALL)):
        return {ID: entity}
    return _pulled(store, pattern, entity, above)
