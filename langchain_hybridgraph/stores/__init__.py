"""The embedded store and the engines beside it."""
