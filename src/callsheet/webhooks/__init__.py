"""Signed callbacks in, durable signed notifications out."""
