"""What the engines of live workers can run, and what a workflow needs of them."""
