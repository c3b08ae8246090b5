"""The control plane's pipes: databases, transactions, SQL, migrations, embedded PostgreSQL, notify, problem+json."""
