"""From a plan to code."""
