"""The embedded CPU renderer that speaks ComfyUI's API, so that everything works without a GPU."""
