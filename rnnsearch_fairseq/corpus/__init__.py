"""Prepare parallel text for training."""
