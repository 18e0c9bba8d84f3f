"""Reads a task: prunes, filters, applies deletes, fetches; see `pipeline`."""
