"""Quotes: what a submit of any kind would cost now, how long it would take, and what would refuse it."""
