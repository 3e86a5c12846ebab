"""An open folder: files, engines, turns to write."""
