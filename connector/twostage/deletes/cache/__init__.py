"""Caches that outlive a task: the worker's memory and the host's files; and fingerprints, which name entries."""
