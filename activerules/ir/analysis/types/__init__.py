"""Where floats are in memory."""
