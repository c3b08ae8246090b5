"""The messages of operators: alerts, figures, jobs of all tenants, scaling."""
