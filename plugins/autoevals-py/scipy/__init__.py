"""Replaces the compiled package scipy."""
