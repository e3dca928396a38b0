"""LSQB, the Labelled Subgraph Query Benchmark: nine counting queries on a social network, kept up to date."""
