"""Benchmarks of Callsheet: `make bench`. Benchmarks report figures; they never pass or fail."""
