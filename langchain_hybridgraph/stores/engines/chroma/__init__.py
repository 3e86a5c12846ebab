"""Chroma as a vector engine."""
