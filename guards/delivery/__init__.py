"""Guard `delivery`, and the reservation ledger that every outward effect of this product leans on."""
