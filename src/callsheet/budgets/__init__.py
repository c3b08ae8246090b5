"""Budgets: how many tokens jobs may take in a day, a week or a month, and where the tokens of a tenant went."""
