"""Split mode, pullbacks and batches: the primal now, reverses later."""
