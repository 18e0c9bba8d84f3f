"""Deleted positions: position delete files and deletion vectors."""
