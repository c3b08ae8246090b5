"""The installation: whether it exists, its secret, and what is encrypted with it."""
