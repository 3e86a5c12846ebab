"""Builders of edges between chunks."""
