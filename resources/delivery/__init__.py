"""Guard `delivery` at work: what is owed, seen whole; each message reserved, granted, sent once, settled."""
