"""Derivatives: the plan of one, and the generators that turn a plan into functions of our IR."""
