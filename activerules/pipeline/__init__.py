"""From a function and a specification of its derivative to compiled code: the stages, in order."""
