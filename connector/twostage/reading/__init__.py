"""A task: prune, filter, subtract deletes, fetch."""
