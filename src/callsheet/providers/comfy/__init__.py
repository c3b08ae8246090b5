"""ComfyUI on machines of yours, Comfy Cloud, and what both have in common: graphs, runs, files, errors."""
