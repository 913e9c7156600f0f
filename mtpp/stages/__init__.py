"""Stages as files, run in processes of their own, measured and compared with the prediction."""
