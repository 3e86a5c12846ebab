"""The embedded store: SQLite, vectors and words in one folder."""
