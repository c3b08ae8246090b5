"""Views and actions of operators: the installation and its health, alerts, statistics, and the jobs of all tenants."""
