"""What a tick costs on a skewed graph, beside GraphBLAS and DuckDB."""
