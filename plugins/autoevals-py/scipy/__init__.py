"""Stands for the compiled package scipy."""
