"""What outlives a task: memory of the worker, files of the host, and the fingerprints they go by."""
