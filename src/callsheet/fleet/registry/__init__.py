"""Workers: how they register, are admitted, seen, swept and logged."""
