"""What builds and describes Callsheet; nothing here is installed with it."""
