"""Messages about tokens: wallets, quotes and budgets."""
