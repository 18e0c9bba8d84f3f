"""Spark's side: the source, the session, and the bridge that answers the planner."""
