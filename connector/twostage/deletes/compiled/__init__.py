"""Equality deletes compiled to positions: recorded by scans, kept in the host's cache or a chosen folder."""
