"""Index folders in use: files, engines and write locks."""
