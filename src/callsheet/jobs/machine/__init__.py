"""The kernel: the states of a job, the one statement that changes them, the journal, and the relay to the queue."""
