"""What is looked through for examples."""

collect_ignore = ["suite/loaded.py"]  # it runs programs when it is imported
