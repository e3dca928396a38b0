"""Input and output files of relations: Parquet, Arrow IPC, CSV, TSV and text, or gzipped."""
