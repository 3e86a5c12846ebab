"""Adapters for foreign stores, retrievers, compressors and documents."""
