"""One-shot queries of ordinary shape beside DuckDB: a join with groups, two hops, and rings with conditions."""
