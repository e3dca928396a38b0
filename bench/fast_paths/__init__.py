"""What each fast path of the engine gains, on the case that it is there for."""
