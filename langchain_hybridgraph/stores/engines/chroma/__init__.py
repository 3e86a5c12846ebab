"""Chroma as a vector engine in a folder or server."""
