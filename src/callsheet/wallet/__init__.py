"""The ledger: the only code that writes money."""
