"""Infrastructure of the control plane: databases, transactions, SQL, migrations, embedded PostgreSQL, notifications
and problem+json.
"""
