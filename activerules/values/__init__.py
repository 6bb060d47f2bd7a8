"""What values are made of: one tree per Numba type, which every question about activity asks."""
