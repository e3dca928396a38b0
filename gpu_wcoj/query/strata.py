"""Strata: sets of heads that are evaluated together, in order of evaluation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from gpu_wcoj.query.rules import Rules


def components(reads: Mapping[str, Collection[str]]) -> list[tuple[str, ...]]:
    """Return strongly connected components of heads, each after those that it reads.

    The algorithm is Tarjan's, doi:10.1137/0201010.

    Parameters
    ----------
    reads
        Per head the relations that it reads; relations that are not heads are ignored.

    Examples
    --------
    >>> components({"a": ["b", "edge"], "b": ["c"], "c": ["b"], "d": []})
    [('b', 'c'), ('a',), ('d',)]
    """
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_heads: dict[str, None] = {}
    result: list[tuple[str, ...]] = []

    def begin(name: str) -> tuple[str, Iterator[str]]:
        index[name] = lowest[name] = len(index)
        open_heads[name] = None
        return name, iter([successor for successor in reads[name] if successor in reads])

    for start in reads:
        if start in index:
            continue
        path = [begin(start)]
        while path:
            name, ahead = path[-1]
            member = next(ahead, None)
            if member is not None:
                if member not in index:
                    path.append(begin(member))
                elif member in open_heads:
                    lowest[name] = min(lowest[name], index[member])
                continue
            path.pop()
            if path:
                above = path[-1][0]
                lowest[above] = min(lowest[above], lowest[name])
            if lowest[name] == index[name]:
                members = [head for head in open_heads if index[head] >= index[name]]
                for member in members:
                    del open_heads[member]
                result.append(tuple(sorted(members, key=list(reads).index) if len(members) > 1 else members))
    return result


def cycle(start: str, members: Collection[str], reads: Mapping[str, Collection[str]]) -> list[str]:
    """Return a shortest path from a head of a component back to itself, both ends included.

    Examples
    --------
    >>> cycle("b", ["b", "c"], {"b": ["c", "edge"], "c": ["b"]})
    ['b', 'c', 'b']
    """
    return shortest_path(start, start, members, reads)


def shortest_path(start: str, goal: str, members: Collection[str], reads: Mapping[str, Collection[str]]) -> list[str]:
    """Return a shortest path between two heads of a component, both ends included."""
    paths = [[start]]
    seen: set[str] = set()
    for path in paths:  # the list grows during the loop
        for successor in reads[path[-1]]:
            if successor == goal:
                return [*path, goal]
            if successor in members and successor not in seen:
                seen.add(successor)
                paths.append([*path, successor])
    return []


def reads_of(rules: Rules) -> dict[str, list[str]]:
    """Return for each head the relations that its rules read."""
    reads: dict[str, list[str]] = {name: [] for name in rules.heads}
    for rule in rules.rules:
        reads[rule.head.relation].extend(atom.relation for atom in rule.read)
    for grouping in rules.groupings:
        reads[grouping.relation].append(grouping.source)
    return reads


def unread(rules: Rules) -> tuple[str, ...]:
    """Return the heads that are read by no rule outside of their own recursion.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> unread(parse("p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). s(x) :- e(x, _). t(x) :- s(x)."))
    ('p', 't')
    """
    reads = reads_of(rules)
    loop_of = {name: members for members in components(reads) for name in members}
    read = {relation for name, relations in reads.items() for relation in relations if relation not in loop_of[name]}
    return tuple(name for name in rules.heads if name not in read)
