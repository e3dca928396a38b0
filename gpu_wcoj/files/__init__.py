"""Files that feed relations: Parquet, Arrow IPC, CSV, TSV and whitespace text, gzipped or not."""
