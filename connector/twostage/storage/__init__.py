"""Locations, files and ranges of any store, with typed errors."""
