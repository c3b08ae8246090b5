"""Messages for the server of a tenant, which acts for its users."""
