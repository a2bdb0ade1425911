"""Ways into a run from other libraries."""
