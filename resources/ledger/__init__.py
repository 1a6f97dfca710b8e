"""The reservation ledger, wherever it is kept: every outward effect is reserved here before it happens, and at most once.

`interface.Ledger` is what everything else sees. Three stores keep it: `memory` (the oracle of the contract suite), `file` (one host,
no database), and PostgreSQL (`resources.state.ledger`, many hosts). Their rows, and so their digests, are the same bytes.
"""
