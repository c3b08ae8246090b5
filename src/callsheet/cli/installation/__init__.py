"""Commands that start, check and maintain an installation."""
