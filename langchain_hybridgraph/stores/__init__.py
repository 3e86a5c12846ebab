"""Stores and the search engines they use."""
