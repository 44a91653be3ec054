"""The trajectory reader."""
