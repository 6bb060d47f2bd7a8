"""Activities and activity signatures: the vocabulary everything else shares."""
