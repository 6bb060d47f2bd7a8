"""Rules: how they are written, kept and chosen. Needs no Numba until a rule is compiled."""
