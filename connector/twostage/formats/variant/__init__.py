"""Variants: their binary encoding, and shredded ones put together."""
