"""Commands about workflows and effects."""
