"""The task worker inside a control plane: the same worker as on any other machine, without HTTP in between.

It registers like any other worker, so admins can see, count and drain it. This is the only room that imports both the
control plane and the worker, which do not import each other.
"""
