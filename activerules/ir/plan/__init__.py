"""Every decision about a derivative, frozen before any code is made."""
