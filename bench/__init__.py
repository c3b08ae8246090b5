"""What Callsheet costs, measured: `make bench`. Benchmarks report; they never pass or fail."""
