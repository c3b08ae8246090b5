"""The queue as operators see and change it: lists, limits, priorities, and the weights of tenants."""
