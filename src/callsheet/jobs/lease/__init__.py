"""A job under a lease: start, progress, report, and the settlement that ends it."""
