"""What is done for guard delivery: sending what was approved, ending what was left in the middle, and what runs by itself."""
