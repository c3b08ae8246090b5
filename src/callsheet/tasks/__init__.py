"""Tasks: jobs for an actor. Typed generation jobs, which are made from products, are tasks too."""
