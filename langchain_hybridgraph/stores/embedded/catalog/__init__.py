"""The SQLite database that is the source of truth of an index."""
