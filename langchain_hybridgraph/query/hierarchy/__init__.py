"""Search in a tree of directories."""
