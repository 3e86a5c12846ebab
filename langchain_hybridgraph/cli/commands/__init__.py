"""The commands of ``hybridgraph``."""
