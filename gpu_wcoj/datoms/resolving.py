"""Which entities temporary ids and lookup references stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpu_wcoj.datoms.forms import Entity, Forms, Fresh, Lookup, Single
from gpu_wcoj.datoms.store import Store
from gpu_wcoj.datoms.values import shown
from gpu_wcoj.errors import TransactionConflictError

TempId = int | str | Fresh
_END = 2**63 - 1

CodeOf = Callable[[str, Any, int], int]
"""The code of a value of an attribute, given its place."""


class Entities:
    """What stands for an entity in one transaction, and the entity.

    A temporary id with a value that another entity has, of an attribute whose values are identities, stands for that
    entity; two with one such value are one entity; all others are new entities, numbered in the order in which their
    ids first stand.

    Attributes
    ----------
    next_id
        The first entity id that nobody has used, this transaction included.
    """

    def __init__(self, store: Store, forms: Forms, code_of: CodeOf) -> None:
        self.store = store
        self.forms = forms
        self.code_of = code_of
        self.next_id = store.next_id
        self._known: dict[TempId, int] = {}

    @property
    def tempids(self) -> dict[int | str, int]:
        """The temporary ids that the transaction spells, and their entities."""
        return {one: entity for one, entity in self._known.items() if not isinstance(one, Fresh)}

    def resolve(self, singles: Sequence[Single]) -> None:
        """Find what every temporary id stands for."""
        mentioned: dict[TempId, int] = {}
        for one in singles:
            for stands in self._mentioned(one):
                if _is_temporary(stands):
                    mentioned.setdefault(stands, one.place)
                elif one.operation == "add" and _is_plain(stands):
                    self._used(stands)
        if not mentioned:
            return
        alias = self._identified(singles)
        for stands, place in mentioned.items():
            root = _root(alias, stands)
            if root not in self._known:
                if self.next_id >= _END:
                    raise self.forms.error(place, f"there is no entity id after {_END - 1}.")
                self._known[root] = self.next_id
                self.next_id += 1
            self._known[stands] = self._known[root]
        self._refuse_unmade(singles, mentioned)

    def _mentioned(self, one: Single) -> Iterable[Any]:
        yield one.entity
        if one.operation in ("add", "retract") and self.store.attribute(one.attribute).type == "ref":
            yield one.value

    def _used(self, entity: int) -> None:
        self.next_id = max(self.next_id, min(entity, _END - 1) + 1)

    def _identified(self, singles: Sequence[Single]) -> dict[TempId, TempId]:
        """Which temporary ids stand for what another one does; those of entities that exist are known then."""
        alias: dict[TempId, TempId] = {}
        first: dict[tuple[str, int], TempId] = {}
        for one in singles:
            if one.operation != "add" or not _is_temporary(one.entity):
                continue
            attribute = self.store.attribute(one.attribute)
            value = one.value
            if attribute.unique == "identity" and attribute.type == "ref" and isinstance(value, Lookup):
                value = self._looked_up(value, one.place)
            is_stored = attribute.type != "ref" or (_is_plain(value) and value >= 0)
            if attribute.unique != "identity" or not is_stored:
                continue
            code = self.code_of(one.attribute, value, one.place)
            stands: TempId = one.entity  # type: ignore[assignment]  # a temporary one, as was asked
            other = first.setdefault((one.attribute, code), stands)
            if _root(alias, other) != _root(alias, stands):
                self._unite(alias, _root(alias, other), _root(alias, stands), one)
            for entity in self.store.entities(one.attribute, code):
                self._settle(_root(alias, stands), entity, one)
        return alias

    def _unite(self, alias: dict[TempId, TempId], kept: TempId, gone: TempId, one: Single) -> None:
        if gone in self._known:
            self._settle(kept, self._known[gone], one)
        alias[gone] = kept

    def _settle(self, stands: TempId, entity: int, one: Single) -> None:
        before = self._known.setdefault(stands, entity)
        if before != entity:
            raise self.forms.error(
                one.place,
                f"the temporary id {_spelled(one.entity)} stands for two entities, {before} and {entity}, by values "
                f"that are identities; the last is {shown(one.value)} of '{one.attribute}'.",
                TransactionConflictError,
            )

    def _refuse_unmade(self, singles: Sequence[Single], mentioned: dict[TempId, int]) -> None:
        """A temporary id that nothing is said of, or that is to be retracted, is an error of writing."""
        made = (one.entity for one in singles if one.operation == "add")
        roots = {self._known[one] for one in made if _is_temporary(one)}  # type: ignore[index]  # as was just asked
        for stands, place in mentioned.items():
            if self._known[stands] not in roots:
                raise self.forms.error(
                    place,
                    f"the temporary id {_spelled(stands)} is of no entity: nothing is added to it.\n"
                    "  Add an attribute to it, or write the id of an entity, which is 0 or more.",
                )

    def of(self, stands: Entity, place: int) -> int:
        """The entity that something stands for."""
        if isinstance(stands, Lookup):
            return self._looked_up(stands, place)
        if isinstance(stands, int) and stands >= 0:
            return stands
        return self._known[stands]

    def _looked_up(self, lookup: Lookup, place: int) -> int:
        attribute = self.store.attribute(lookup.attribute)
        if attribute.unique is None:
            raise self.forms.error(
                place,
                f"the values of attribute '{lookup.attribute}' are not unique, so none of them names an entity.\n"
                "  Let the schema say ':db/unique': ':db.unique/identity' of it, or write the entity's id.",
            )
        code = self.code_of(lookup.attribute, lookup.value, place)
        found = self.store.entities(lookup.attribute, code)
        if not found:
            raise self.forms.error(place, f"no entity has {shown(lookup.value)} of '{lookup.attribute}'.")
        return found[0]


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


def _spelled(stands: Any) -> str:
    return "of a map without ':db/id'" if isinstance(stands, Fresh) else repr(stands)
