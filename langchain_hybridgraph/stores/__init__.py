"""The embedded store and the search engines it is built on."""
