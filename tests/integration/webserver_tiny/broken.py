"""A code location that cannot be loaded."""

raise ValueError("the settings name a watch twice")
