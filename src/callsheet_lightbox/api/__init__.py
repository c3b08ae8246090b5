"""The routes of Lightbox, which are those of ComfyUI."""
