"""Which rows of data files earlier scans have found to match: the condition cache."""
