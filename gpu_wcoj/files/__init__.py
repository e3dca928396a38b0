"""Input and output files of relations: Parquet, Arrow IPC, JSON, CSV, TSV and text."""
