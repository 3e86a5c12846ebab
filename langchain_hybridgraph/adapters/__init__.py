"""Adapters for other stores, retrievers, compressors and documents."""
