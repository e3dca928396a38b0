"""What is looked through for examples."""

collect_ignore = ["suite/forking.py", "suite/loaded.py"]  # they do something when they are imported
