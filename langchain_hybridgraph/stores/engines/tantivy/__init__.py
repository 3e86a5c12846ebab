"""Tantivy as the keyword engine."""
