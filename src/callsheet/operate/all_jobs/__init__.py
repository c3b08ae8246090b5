"""Jobs of all tenants, for operators: found by filters, grouped by their errors, and changed many at a time."""
