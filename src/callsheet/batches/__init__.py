"""Batches: many jobs of one effect in one request, with one price, one progress, and one archive of their results."""
