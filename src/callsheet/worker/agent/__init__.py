"""The agent: takes jobs, runs them, renews their leases, uploads the outputs and reports."""
