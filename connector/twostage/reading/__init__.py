"""Reads a task: prunes, filters, subtracts deletes, fetches; see `pipeline`."""
