"""Rendering: figures and pages, drawn from data that was computed elsewhere."""
