"""Calls of providers and their signed callbacks: recorded before the call, followed, collected, canceled, paused."""
