"""Open index folders: files, engines and write locks."""
