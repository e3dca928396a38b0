"""The commands of ``gpu-wcoj``, one file each."""
