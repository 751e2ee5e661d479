"""The machine: live or recorded, and what touches its files and processes."""
