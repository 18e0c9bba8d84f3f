"""The pipeline of a task: prune, filter, fetch."""
