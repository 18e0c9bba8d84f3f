"""Kernels: small loops over NumPy arrays, compiled by Numba if it is installed.

Takes plain arrays (values, Arrow offsets and bytes, bitmaps) and returns plain arrays. Knows no table, no
Arrow and no Spark. The rule: every kernel has a NumPy twin in `reference` that gives the same answer, and
runs wherever compiling is off or impossible. Importing this package imports no Numba.
"""

from __future__ import annotations
