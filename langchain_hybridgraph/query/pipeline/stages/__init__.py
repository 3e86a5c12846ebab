"""Stages of the query pipeline, independent of each other."""
