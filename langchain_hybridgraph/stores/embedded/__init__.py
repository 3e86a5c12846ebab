"""Store in one folder, based on SQLite."""
