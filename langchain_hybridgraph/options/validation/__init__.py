"""Validation of options, and the messages of their errors."""
