"""Tasks: jobs addressed to an actor, and the typed ones made from products."""
