"""Knowledge of human languages: words, names, dates and accents."""
