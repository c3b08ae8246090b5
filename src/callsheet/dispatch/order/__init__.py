"""The order of the queue, in the memory of each control plane: whose job is next. No I/O."""
