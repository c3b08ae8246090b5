"""Providers, which execute jobs: ComfyUI, Comfy Cloud, Replicate, HTTP services and synchronous providers; and the
actors of tasks. No database.
"""
