"""Readers of files and folders.

Each module reads one kind and gives its parts. They run in a process of their own, which has little memory and little
time: what is in such a file may be broken, or made to break whoever reads it.
"""
