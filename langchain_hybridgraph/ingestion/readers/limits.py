"""Limits of reading a file: time, memory and size."""

SECONDS, PART_SECONDS = 600.0, 60.0
"""Maximum time for a file, and for one of its pages or other parts."""
MEMORY = 2 << 30
"""Maximum number of bytes of memory of the process that reads files."""
BYTES, CHARACTERS = 512 << 20, 64 << 20
"""Maximum number of bytes of a file, and of characters of its text."""
UNPACKED, ENTRIES = 512 << 20, 20_000
"""Maximum number of bytes of the files inside an archive, and maximum number of these files."""
