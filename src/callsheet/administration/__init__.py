"""What operators see of the installation as a whole: its health, its settings, and figures of tenants."""
