"""Statistics for charts: counts of finished jobs, and samples of queues and workers."""
