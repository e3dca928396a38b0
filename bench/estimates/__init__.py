"""What plans are expected to do, beside what ticks do."""
