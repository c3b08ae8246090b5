"""What needs an operator: checked on a schedule, shown, logged, exported to Prometheus, and sent to people."""
