"""Variants: their binary encoding, the reconstruction of shredded ones, and columns of them."""
