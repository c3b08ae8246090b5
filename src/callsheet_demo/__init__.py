"""`callsheet demo`: the whole product on one machine, with a catalog, an account and a real job."""
