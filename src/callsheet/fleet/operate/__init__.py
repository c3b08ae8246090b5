"""Workers and metrics as operators see them."""
