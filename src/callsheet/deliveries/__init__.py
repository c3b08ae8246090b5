"""Deliveries: events of jobs that are sent to the webhook endpoints of users, at least once."""
