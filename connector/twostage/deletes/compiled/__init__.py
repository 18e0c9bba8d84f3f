"""Equality deletes compiled to positions: recorded by scans, stored in the host's cache or a chosen folder."""
