"""Engines for vectors and words."""
