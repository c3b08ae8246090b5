"""Commands about tenants, users, keys, quotas, wallets and logins."""
