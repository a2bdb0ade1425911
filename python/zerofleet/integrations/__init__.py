"""Adapters that start a run from other libraries."""
