"""An open index folder: its files, its engines and its turns to write."""
