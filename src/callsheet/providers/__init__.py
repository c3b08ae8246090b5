"""Who executes: ComfyUI, Comfy Cloud, Replicate, HTTP and synchronous providers, and the actors for tasks. No database."""
