"""The pipeline and its stages."""
