"""The file store: one host, no database. Segments of rows, claims by link, a fence document, a head anchor, leases of the kernel's."""
