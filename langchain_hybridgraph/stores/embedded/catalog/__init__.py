"""The SQLite database: source of truth of an index."""
