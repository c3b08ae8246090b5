"""ComfyUI on your own machines, Comfy Cloud, and their common parts: graphs, runs, files and errors."""
