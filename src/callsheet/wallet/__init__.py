"""The wallets and the ledger. This room is the only code that writes money."""
