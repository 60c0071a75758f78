"""What training survives: kills, full disks, damaged checkpoints, SIGTERM and Ctrl-C."""
