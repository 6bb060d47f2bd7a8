"""ChainRules' tangents inside `@njit`."""
