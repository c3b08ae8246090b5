"""Small images and clips of uploads and results, for lists. Each is made once, in the background."""
