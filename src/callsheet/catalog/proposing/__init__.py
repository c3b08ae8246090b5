"""Makes properties of the inputs of a graph, for the import of workflows."""
