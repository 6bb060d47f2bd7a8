"""The call of a derivative in code that is being lowered."""
