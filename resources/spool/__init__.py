"""The two servers of one spool watch: observed whole, and written to only under an Authorization."""
