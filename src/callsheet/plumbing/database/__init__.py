"""PostgreSQL: databases, pools and who owns them, SQL, migrations and notifications."""
