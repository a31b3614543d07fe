"""Measurements, each a script that prints what it measured."""
