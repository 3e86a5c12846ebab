"""Readers of files and folders.

Each module reads one kind of file and yields its parts. Binary formats are read in another process with limited memory
and time, because such a file may be damaged, or crafted to attack its reader.
"""
