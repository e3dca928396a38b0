"""What a device does in a second: its kernels, and ticks on graphs up to a quarter of a billion edges."""
