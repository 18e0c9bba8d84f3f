"""A scan's filter: the predicate tree, its sources, what bounds prove about it, and its evaluation."""
