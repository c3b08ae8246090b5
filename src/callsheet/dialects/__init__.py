"""Other products' client APIs, served from our jobs."""
