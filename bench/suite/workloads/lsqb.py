"""LSQB's nine queries, whose rows of all relations come and go; see `bench.lsqb`."""

from __future__ import annotations

import functools
from types import MappingProxyType

import numpy as np

from bench.lsqb.data import ARCHIVES, DATA, KNOWS, relations
from bench.lsqb.queries import ANSWERS, QUERIES
from bench.suite.contender import MissingError
from bench.suite.streams import Data, Items
from bench.suite.workload import Rows, Workload
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Atom, Rule

SCALES = MappingProxyType({3: "0.003", 100: "0.1"})
"""Scale factors by their thousandths; the larger archive has not the tables of all queries."""


def rule_sql(rule: Rule) -> str:
    """The number of bindings of a rule's body, over tables with columns c0, c1 and so on.

    Examples
    --------
    >>> print(rule_sql(parse("h(a) :- e(a, b), e(b, c), a != c, !e(a, c), !f(_, c).").rules[0]))
    SELECT count(*) FROM e t0, e t1 WHERE t0.c1 = t1.c0 AND t0.c0 != t1.c1
      AND NOT EXISTS (SELECT 1 FROM e WHERE c0 = t0.c0 AND c1 = t1.c1)
      AND NOT EXISTS (SELECT 1 FROM f WHERE c1 = t1.c1)
    """
    place: dict[str, str] = {}
    where = []
    for i, atom in enumerate(rule.atoms):
        for column, name in enumerate(map(str, atom.terms)):
            here = f"t{i}.c{column}"
            if name in place:
                where.append(f"{place[name]} = {here}")
            place.setdefault(name, here)
    where += [f"{place[str(one.left)]} {one.op} {place[str(one.right)]}" for one in rule.comparisons]
    where += [f"NOT EXISTS ({_held(atom, place)})" for atom in rule.negated]
    listed = ", ".join(f"{atom.relation} t{i}" for i, atom in enumerate(rule.atoms))
    return f"SELECT count(*) FROM {listed} WHERE {' AND '.join(where)}"


def _held(atom: Atom, place: dict[str, str]) -> str:
    bound = [f"c{i} = {place[str(term)]}" for i, term in enumerate(atom.terms) if str(term) != "_"]
    return f"SELECT 1 FROM {atom.relation} WHERE {' AND '.join(bound)}"


def _workload(text: str, name: str) -> Workload:
    rules = parse(text)
    sql = " + ".join(f"({rule_sql(rule)})" for rule in rules.rules)
    columns = dict.fromkeys(sorted(rules.inputs), ("c0", "c1"))
    return Workload(name, "lsqb", text, "answer", columns, None, f"SELECT {sql}", bag=True)


WORKLOADS = {f"lsqb-{query.name}": _workload(query.text, f"lsqb-{query.name}") for query in QUERIES}


def is_there(workload: Workload, thousandths: int) -> bool:
    """Whether the archive of this scale has the tables of a query."""
    number = list(WORKLOADS).index(workload.name)
    return ANSWERS[SCALES[thousandths]][number] is not None


def data(workload: Workload, thousandths: int) -> Data:
    """All rows of its relations; both directions of an acquaintance come and go together.

    Raises
    ------
    MissingError
        If the archive is not there.
    """
    scale = SCALES[thousandths]
    if not (DATA / ARCHIVES[scale]).exists():
        raise MissingError(f"there is no file {ARCHIVES[scale]} in {DATA}, which LSQB's rows are read from")
    found = dict(_relations(scale, tuple(workload.columns)))
    if KNOWS in found:
        found[KNOWS] = found[KNOWS][found[KNOWS][:, 0] < found[KNOWS][:, 1]]
    names = list(found)
    of = np.concatenate([np.full(len(found[name]), i) for i, name in enumerate(names)])
    row = np.concatenate([np.arange(len(found[name])) for name in names])

    def rows_of(items: Items) -> dict[str, Rows]:
        chosen = {name: found[name][row[items[of[items] == i]]] for i, name in enumerate(names)}
        if KNOWS in chosen:
            chosen[KNOWS] = np.concatenate([chosen[KNOWS], chosen[KNOWS][:, ::-1]])
        return chosen

    return Data(len(of), rows_of)


@functools.lru_cache(maxsize=4)
def _relations(scale: str, names: tuple[str, ...]) -> dict[str, Rows]:
    return relations(scale, names)
