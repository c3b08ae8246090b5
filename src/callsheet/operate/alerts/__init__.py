"""Alerts for operators: checked on a schedule, shown, logged, exported to Prometheus, and sent to recipients."""
