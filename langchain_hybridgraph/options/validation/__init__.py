"""Validation of options, with its error messages."""
