"""What exists: listings, partitions, snapshots, plans, and the checks on them."""
