"""Time, memory and size limits for reading files."""

SECONDS, PART_SECONDS = 600.0, 60.0
"""Maximum number of seconds for reading a file, and for reading one of its pages or other parts."""
MEMORY = 2 << 30
"""Maximum memory of the process that reads files, in bytes."""
BYTES, CHARACTERS = 512 << 20, 64 << 20
"""Maximum size of a file in bytes, and of its text in characters."""
UNPACKED, ENTRIES = 512 << 20, 20_000
"""Maximum total size of the files inside an archive in bytes, and maximum number of these files."""
