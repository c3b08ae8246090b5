"""Who executes: ComfyUI, Comfy Cloud, Replicate, HTTP and synchronous ones, and the actors for tasks. No database."""
