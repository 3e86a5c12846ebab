"""SQLite database, the source of truth of an index."""
