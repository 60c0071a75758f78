"""What training survives: kills, full disks, damaged checkpoints, dead workers, SIGTERM and Ctrl-C, NaN gradients.

``python -m recipes.fault_injection OUT`` shows it.
"""
