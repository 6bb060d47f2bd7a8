"""What pointers may point to, and what is written there."""
