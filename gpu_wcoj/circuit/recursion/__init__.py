"""Recursion: relations that rules derive from themselves, kept up to date under insertions and deletions.

What a loop computes from scratch: X(-1) is empty, and X(i) is all that the rules derive from X(i-1) and from the
relations outside the loop, which do not move. The *rank* f(x) of a row is the first iteration that has it. A derivation
that reads rows of ranks r1, ..., rk of the loop belongs to iteration 1 + max(r1, ..., rk), and to iteration 0 if it
reads the outside only; so f(x) is the first iteration of a derivation of x. A loop keeps each row once, with its rank
as one more column behind the others (`ranked`); how many derivations a row has, and when, is not kept, but asked of the
rules for the few rows where it matters (`asking`).

`scratch` fills an empty loop: semi-naive evaluation of sets. `changes` brings a filled one up to date; it emits an
entry (x, i, +1) for a row that is there from iteration i on and was not, and (x, i, -1) for the opposite. Times are
pairs (tick, iteration) under the product order, and the ticks before this one have collapsed into the ranks. A
combination of rows that a rule joins is claimed once: at the step s that is the latest iteration of this tick's entries
in it, -1 if only rows of the outside change in it. Step s sees the rows of the loop before this tick, whatever their
rank, and this tick's entries up to s; the delta rule settles which of several entries of iteration s is the seed. What
the combination derives belongs to iteration 1 + max(s, the ranks of its rows), which may lie ahead: it waits in a
`buffer`.

At iteration i (`history`), let S(x) be the sum of what has arrived there for a row x, e(x) the sum of its entries so
far, and p(x) = [f(x) < i] + e(x), which is 1 if x is there before i and else 0.

- p(x) = 1: nothing to do.
- p(x) = 0 and f(x) = i: with S(x) >= 0 it stays. Else the rules are asked for the derivations F(x, j) that x had before
  the tick, by iteration. F(x, i) + S(x) > 0: it stays. = 0: the entry (x, i, -1), and each F(x, j) with j > i waits
  at j.
- p(x) = 0 otherwise: with S(x) > 0 the entry (x, i, +1), and, if f(x) > i, the entry (x, f(x), -1) is due at f(x).

The tick ends when nothing waits. The ranks after it are those that a run from scratch would give, so a row that is
deleted and inserted again leaves the same bits; and where a tick derives more than a run from scratch would, it is one.

A head that keeps the least or greatest value of each group is the same over another history (`best`). In programs over
bags a loop reads the rows of positive weight, and its heads are sets.

The nested time is that of DBSP (Budiu et al., doi:10.14778/3587136.3587137) and of differential dataflow (McSherry et
al., CIDR 2013); what is added is that under positive rules over sets one number a row is all the history there is.
"""
