"""What a scan filters by: the tree, where it comes from, what bounds say of it, and its evaluation."""
