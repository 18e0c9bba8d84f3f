"""What outlives a task: the worker's memory, the host's files, and the fingerprints that name what they keep."""
