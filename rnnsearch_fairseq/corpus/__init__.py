"""Prepare parallel text and parses for training."""
