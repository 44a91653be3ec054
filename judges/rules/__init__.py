"""A judge without a model: it reads tool results as a model would, and decides only what a program can prove."""
