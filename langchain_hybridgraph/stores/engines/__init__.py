"""Search engines for vectors and keywords."""
