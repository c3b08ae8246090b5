"""Commands that submit work and follow it: jobs, tasks, pipelines and runs."""
