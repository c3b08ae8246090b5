"""Programs that build and document Callsheet. They are not installed with it."""
