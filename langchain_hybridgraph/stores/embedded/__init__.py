"""The store in one folder, based on SQLite."""
