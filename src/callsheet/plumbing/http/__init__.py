"""The HTTP side of every room: the server, the layers around the application, errors and limits."""
