"""Commands about tenants, users, keys, quotas, wallets, webhook endpoints and logins."""
