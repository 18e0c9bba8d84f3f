"""Aggregates answered from metadata and indexes: which files prove them, and the answer."""
