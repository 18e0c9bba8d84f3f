"""Aggregates answered from metadata: which files prove them, and the answer."""
