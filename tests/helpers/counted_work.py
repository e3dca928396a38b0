"""What kernels counted in a tick, and tables of edges to count on."""

from __future__ import annotations

import numpy as np

from gpu_wcoj.kernels.protocol import MARKS, N_WORK, PROPOSALS


def random_edges(random, n_edges, n_nodes, power):
    """Distinct edges; the larger `power`, the more of them at few nodes."""
    edges = (n_nodes * random.random((3 * n_edges, 2)) ** power).astype(np.int64)
    edges = np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0)
    return random.permutation(edges)[:n_edges]


def work_of(program, head="h"):
    """Per path and variable, the counters of the last tick."""
    (only,) = program.last_tick.work[head].values()
    return only


def total_work(program):
    total = np.zeros(N_WORK, np.int64)
    for rules in program.last_tick.work.values():
        for paths in rules.values():
            for variables in paths.values():
                total += sum(variables.values())
    return total


def looked_at(counted):
    return int(counted[PROPOSALS] + counted[MARKS])


def table(rows, sign=None):
    columns = {f"c{i}": column for i, column in enumerate(np.asarray(rows, np.int64).T)}
    return columns if sign is None else columns | {"weight": np.full(len(rows), sign)}
