"""The commands of ``gpu-wcoj``, each in a file of its own."""
