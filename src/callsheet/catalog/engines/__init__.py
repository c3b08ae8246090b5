"""The abilities of the engines of live workers, and the requirements of workflows."""
