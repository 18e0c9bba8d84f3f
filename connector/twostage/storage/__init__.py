"""Locations, files, folders and byte ranges of any store, with typed errors."""
