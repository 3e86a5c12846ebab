"""Analysis of text: words, names, dates and accents."""
