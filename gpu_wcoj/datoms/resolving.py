"""Resolution of temporary ids and lookup references to entities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpu_wcoj.datoms.forms import DatomOperation, Entity, FormReader, Fresh, Lookup
from gpu_wcoj.datoms.store import Store
from gpu_wcoj.datoms.values import describe
from gpu_wcoj.errors import TransactionConflictError

TempId = int | str | Fresh
_ID_LIMIT = 2**63 - 1
"""Exclusive upper bound of entity ids."""

CodeOf = Callable[[str, Any, int], int]
"""Returns the code of a value of an attribute; the place is for messages."""


class Entities:
    """The entities of the temporary ids of a transaction.

    A temporary id with a value of a ``:db.unique/identity`` attribute denotes the entity that has this value; temporary
    ids with the same such value denote the same entity. All others are new entities, numbered in order of first
    occurrence.

    Attributes
    ----------
    next_id
        The first unused entity id, including this transaction.
    """

    def __init__(self, store: Store, forms: FormReader, code_of: CodeOf) -> None:
        self.store = store
        self.reader = forms
        self.code_of = code_of
        self.next_id = store.next_id
        self._entities: dict[TempId, int] = {}

    @property
    def tempids(self) -> dict[int | str, int]:
        """The named temporary ids of the transaction, and their entities."""
        return {tempid: entity for tempid, entity in self._entities.items() if not isinstance(tempid, Fresh)}

    def resolve(self, singles: Sequence[DatomOperation]) -> None:
        """Assign an entity to every temporary id."""
        mentioned: dict[TempId, int] = {}
        for operation in singles:
            for stands in self._references(operation):
                if _is_temporary(stands):
                    mentioned.setdefault(stands, operation.place)
                elif operation.kind == "add" and _is_plain(stands):
                    self._reserve_id(stands)
        if not mentioned:
            return
        alias = self._find_aliases(singles)
        for stands, place in mentioned.items():
            root = _root(alias, stands)
            if root not in self._entities:
                if self.next_id >= _ID_LIMIT:
                    raise self.reader.error(place, f"the entity ids are used up: the largest is {_ID_LIMIT - 1}.")
                self._entities[root] = self.next_id
                self.next_id += 1
            self._entities[stands] = self._entities[root]
        self._check_added(singles, mentioned)

    def _references(self, operation: DatomOperation) -> Iterable[Any]:
        yield operation.entity
        if operation.kind in ("add", "retract") and self.store.attribute(operation.attribute).type == "ref":
            yield operation.value

    def _reserve_id(self, entity: int) -> None:
        self.next_id = max(self.next_id, min(entity, _ID_LIMIT - 1) + 1)

    def _find_aliases(self, singles: Sequence[DatomOperation]) -> dict[TempId, TempId]:
        """Return temporary ids that equal another one; assign those with existing entities."""
        alias: dict[TempId, TempId] = {}
        first: dict[tuple[str, int], TempId] = {}
        for operation in singles:
            if operation.kind != "add" or not _is_temporary(operation.entity):
                continue
            attribute = self.store.attribute(operation.attribute)
            value = operation.value
            if attribute.unique == "identity" and attribute.type == "ref" and isinstance(value, Lookup):
                value = self._look_up(value, operation.place)
            is_stored = attribute.type != "ref" or (_is_plain(value) and value >= 0)
            if attribute.unique != "identity" or not is_stored:
                continue
            code = self.code_of(operation.attribute, value, operation.place)
            stands: TempId = operation.entity  # type: ignore[assignment]  # it is temporary
            earlier = first.setdefault((operation.attribute, code), stands)
            if _root(alias, earlier) != _root(alias, stands):
                self._unite(alias, _root(alias, earlier), _root(alias, stands), operation)
            for entity in self.store.entities(operation.attribute, code):
                self._assign(_root(alias, stands), entity, operation)
        return alias

    def _unite(self, alias: dict[TempId, TempId], target: TempId, source: TempId, operation: DatomOperation) -> None:
        if source in self._entities:
            self._assign(target, self._entities[source], operation)
        alias[source] = target

    def _assign(self, stands: TempId, entity: int, operation: DatomOperation) -> None:
        before = self._entities.setdefault(stands, entity)
        if before != entity:
            raise self.reader.error(
                operation.place,
                f"the temporary id {_describe(operation.entity)} denotes two entities, {before} and {entity}, by "
                f"unique values; the second is {describe(operation.value)} of '{operation.attribute}'.",
                TransactionConflictError,
            )

    def _check_added(self, singles: Sequence[DatomOperation], mentioned: dict[TempId, int]) -> None:
        """Raise for a temporary id without an added datom."""
        made = (operation.entity for operation in singles if operation.kind == "add")
        roots = {self._entities[entity] for entity in made if _is_temporary(entity)}  # type: ignore[index]  # they are temporary
        for stands, place in mentioned.items():
            if self._entities[stands] not in roots:
                raise self.reader.error(
                    place,
                    f"the temporary id {_describe(stands)} has no entity: no datom is added to it.\n"
                    "  Add an attribute to it, or write the id of an entity, which is 0 or more.",
                )

    def entity_of(self, stands: Entity, place: int) -> int:
        """Return the entity of an id or a reference."""
        if isinstance(stands, Lookup):
            return self._look_up(stands, place)
        if isinstance(stands, int) and stands >= 0:
            return stands
        return self._entities[stands]

    def _look_up(self, lookup: Lookup, place: int) -> int:
        attribute = self.store.attribute(lookup.attribute)
        if attribute.unique is None:
            raise self.reader.error(
                place,
                f"the values of attribute '{lookup.attribute}' are not unique, so they cannot identify an entity.\n"
                "  Declare it with ':db/unique': ':db.unique/identity', or write the entity's id.",
            )
        code = self.code_of(lookup.attribute, lookup.value, place)
        entities = self.store.entities(lookup.attribute, code)
        if not entities:
            raise self.reader.error(place, f"no entity has the value {describe(lookup.value)} of '{lookup.attribute}'.")
        return entities[0]


def _is_temporary(stands: Any) -> bool:
    if isinstance(stands, str):
        return not stands.startswith(":")
    return isinstance(stands, Fresh) or (_is_plain(stands) and stands < 0)


def _is_plain(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _root(alias: dict[TempId, TempId], stands: TempId) -> TempId:
    while stands in alias:
        stands = alias[stands]
    return stands


def _describe(stands: Any) -> str:
    return "of a map without ':db/id'" if isinstance(stands, Fresh) else repr(stands)
