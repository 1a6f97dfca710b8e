"""One module per revision, numbered; a released one is never edited."""
