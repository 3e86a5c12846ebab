"""Tests, in the folders of the package, and their helpers in support/."""
