"""The embedded CPU renderer with ComfyUI's API, so that everything works without a GPU."""
