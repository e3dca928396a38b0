"""Soufflé's additions to Datalog: types, records and sums, components, functors, equivalence relations."""
