"""New jobs: limits, the hold of the tokens, and the one statement that accepts them."""
