"""What operators see and do: the installation and its health, alerts, statistics, and the jobs of all tenants."""
