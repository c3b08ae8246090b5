"""Actions of operators on jobs, and everything that happened to one."""
